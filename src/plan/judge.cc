#include "plan/judge.h"

#include <algorithm>
#include <cmath>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/cost.h"
#include "plan/judge_terms.h"
#include "plan/tiling.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;
using device::Field;

// Everything about one contraction edge that both sides of the comparison need.
struct Contraction {
  const ContractionEdge& e;
  const DeviceProfile& p;
  MatrixShape shape;
  int cores = 1;
  int64_t elements = 0;      // of the result
  int64_t result_bytes = 0;  // of the intermediate
  int64_t output_bytes = 0;
  int64_t operand_bytes = 0;  // further operands of the chain
  double instructions = 0;    // of the chain, per element
  Level level = Level::kHbm;  // where the intermediate would live
};

int64_t Saturate(double v) { return v < 9e18 ? static_cast<int64_t>(v) : int64_t{1} << 62; }

Contraction Describe(const ContractionEdge& e, const DeviceProfile& p) {
  Contraction c{e, p};
  const double size = static_cast<double>(SizeOf(e.dtype));
  const bool depthwise = e.kind == ContractionKind::kDepthwise;
  const double a = e.input_bytes > 0 ? static_cast<double>(e.input_bytes)
                                     : static_cast<double>(e.m) * static_cast<double>(depthwise ? e.n : e.k) *
                                           static_cast<double>(e.batch) * size;
  c.shape = {e.m, e.n, std::max<int64_t>(e.k, 1), e.batch, e.dtype, Saturate(a), depthwise};
  c.cores = ActiveCores(p, e.threads);
  const double elements = static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.batch);
  c.elements = Saturate(elements);
  c.result_bytes = Saturate(elements * size);
  c.output_bytes = Saturate(elements * static_cast<double>(SizeOf(e.out_dtype)));
  c.operand_bytes = Saturate(elements * size * e.full_operands + static_cast<double>(e.small_operand_bytes));
  c.instructions = e.tail ? e.tail->CostPerElement() : 0;
  // A split chain finds the intermediate where its size leaves it, beside the output it writes meanwhile.
  c.level = LevelOf(Saturate(static_cast<double>(c.result_bytes) + static_cast<double>(c.output_bytes)),
                    c.cores, p);
  return c;
}

TileBlocks BlocksOf(const Contraction& c) {
  TileBlocks b;
  b.a_size = b.b_size = SizeOf(c.e.dtype);
  b.c_size = 4;  // f32 or s32 accumulators
  b.epilogue_size = c.p.is_host() ? 4 : SizeOf(c.e.out_dtype);
  // An NPU loads the next A and B into buffers of their own; the host prefetches.
  b.nbuf = c.p.is_host() ? 1 : 2;
  // The chain works in place on C's block (host) or on its copy in UB (NPU); further live values need blocks
  // too.
  const int live = c.e.tail ? PeakLiveSlots(*c.e.tail) : 1;
  b.epilogue_blocks = std::max(1, std::min(live, 1 + c.e.full_operands + 2));
  return b;
}

// Shared out a second time, a pass finds half of the blocks in other cores' caches: measured with two cores
// and an intermediate of 64 KiB; larger ones bring prefetchers up to speed.
constexpr double kSharedAgainMicroseconds = 4;

// The chain as an operator of its own: reads the intermediate and the other operands, writes the output.
void AddSplitTerms(const Contraction& c, const Tile& tile, Decision& d) {
  auto& t = d.split_terms;
  const double cube = CubeMicroseconds(c.shape, tile, true, c.p, c.cores);
  t.push_back({"cube", cube});
  // The product's own stores drain while it computes; what takes longer than that shows.
  const double write = WriteMicroseconds(c.result_bytes, c.level, c.p, c.cores);
  t.push_back({StrFormat("write C to %s", Name(c.level)), std::max(0.0, write - cube)});
  const double read = ReadMicroseconds(c.result_bytes, c.level, c.p, c.cores);
  const double others =
      ReadMicroseconds(c.operand_bytes, LevelOf(c.operand_bytes, c.cores, c.p), c.p, c.cores);
  const double output = WriteMicroseconds(c.output_bytes, c.level, c.p, c.cores, true);
  const double vector = VectorMicroseconds(c.instructions, c.elements, c.e.dtype, c.p, c.cores);
  t.push_back({StrFormat("read C from %s", Name(c.level)), read});
  t.push_back({"other operands", others});
  t.push_back({"write output", output});
  t.push_back({"chain", Overlapped(vector, read + others + output) - (read + others + output)});
  t.push_back({"launch", c.p.launch_us()});
  t.push_back({"join cores", c.cores > 1 ? c.p.sync_us() : 0});
  t.push_back({"shared out again", c.cores > 1 && c.p.is_host() ? kSharedAgainMicroseconds : 0});
}

// Eight stages are the usual chain. The live values of a longer one, each as large as a product's block, no
// longer fit UB together and its code competes for the instruction cache: a sixth more than in a streaming
// pass, whose blocks are smaller, was measured on the host.
constexpr int kUsualStages = 8;
constexpr double kLongChainShare = 0.15;

double LongChainMicroseconds(const Contraction& c, double chain_us) {
  const int stages = c.e.tail ? static_cast<int>(c.e.tail->stages.size()) : 0;
  return stages > kUsualStages ? kLongChainShare * chain_us : 0;
}

double ConversionMicroseconds(const Contraction& c) {
  constexpr double kInstructions = 2;  // widen or narrow, and round
  return VectorMicroseconds(kInstructions, c.e.convert_elements, c.e.dtype, c.p, c.cores);
}

// A further operand as large as the result is read in rows of a block: runs of a few lines, too short for the
// hardware prefetcher. The product asks for them ahead; from memory about 16 cycles a line were measured
// beside what the bytes cost, where the pass of a split chain runs at the full rate.
constexpr double kColdLineCycles = 16;
constexpr int64_t kBlockColumns = 128;  // of a product's block: narrower results are read without gaps

double ShortRowsMicroseconds(const Contraction& c) {
  if (c.e.full_operands == 0 || c.level != Level::kHbm || c.e.n <= kBlockColumns) return 0;
  const double lines = static_cast<double>(c.operand_bytes) / std::max(1.0, c.p.line_bytes());
  return c.p.clock_mhz() > 0 ? lines * kColdLineCycles / c.cores / c.p.clock_mhz() : 0;
}

// A chain that registers cannot hold is interpreted block by block: what one block costs beside its elements.
// Blocks of one product follow each other; each product of a batch starts anew.
constexpr double kProgramBlockCycles = 100, kProgramStartCycles = 250;
constexpr int64_t kBlockRows = 64;
constexpr size_t kRegisterStages = 2;  // a bias and an activation

double ProgramBlocksMicroseconds(const Contraction& c) {
  const bool in_registers = c.e.full_operands == 0 && c.e.tail->stages.size() <= kRegisterStages;
  if (in_registers || c.p.clock_mhz() <= 0) return 0;
  const double blocks = static_cast<double>(c.e.batch) * static_cast<double>(CeilDiv(c.e.m, kBlockRows)) *
                        static_cast<double>(CeilDiv(c.e.n, kBlockColumns));
  const double starts = static_cast<double>(c.e.batch - 1);
  return (blocks * kProgramBlockCycles + starts * kProgramStartCycles) / c.cores / c.p.clock_mhz();
}

void AddFusedTermsHost(const Contraction& c, const Tile& tile, Decision& d) {
  auto& t = d.fused_terms;
  const double cube = CubeMicroseconds(c.shape, tile, true, c.p, c.cores);
  t.push_back({"cube", cube});
  // The core that computes the block also runs the chain on it: nothing overlaps, but the block is in L1d.
  const double l1d = c.p.clock_mhz() > 0 ? 2.0 * static_cast<double>(c.result_bytes) / c.cores /
                                               std::max(1.0, c.p.ub_rate()) / c.p.clock_mhz()
                                         : 0;
  const double chain = std::max(l1d, VectorMicroseconds(c.instructions, c.elements, c.e.dtype, c.p, c.cores));
  t.push_back({"chain", chain});
  // Loads of other operands and stores of the output spread over the whole product.
  const double moves =
      ReadMicroseconds(c.operand_bytes, LevelOf(c.operand_bytes, c.cores, c.p), c.p, c.cores) +
      WriteMicroseconds(c.output_bytes, c.level, c.p, c.cores);
  t.push_back({"operands and output", std::max(0.0, moves - cube - chain)});
  // A convolution's block is whole pixels or rows of blocked channels, contiguous as they are.
  t.push_back({"short rows", c.e.kind == ContractionKind::kGemm ? ShortRowsMicroseconds(c) : 0});
  t.push_back({"program blocks", ProgramBlocksMicroseconds(c)});
  t.push_back({"conversion", ConversionMicroseconds(c)});
  t.push_back({"long chain", LongChainMicroseconds(c, chain)});
}

// On an NPU cube and vector units are partners: while the cube computes a block, the vector unit runs the
// chain on the one before. The two overlap only when a block keeps the cube busy for longer than the
// hand-over takes; otherwise each block waits for the other unit. Returns the sum.
double AddFusedTermsNpu(const Contraction& c, const Tile& tile, double handover_cycles,
                        std::vector<CostTerm>& t) {
  const double cube = CubeMicroseconds(c.shape, tile, true, c.p, c.cores);
  const double blocks = BlocksPerCore(c.shape, tile, c.cores);
  const double handover = handover_cycles / c.p.clock_mhz();
  double moves = ReadMicroseconds(c.operand_bytes, LevelOf(c.operand_bytes, c.cores, c.p), c.p, c.cores) +
                 WriteMicroseconds(c.output_bytes, LevelOf(c.output_bytes, c.cores, c.p), c.p, c.cores);
  // Results that cannot go straight to UB are written to L2 and read back, block by block.
  if (!c.p.cube_feeds_vector()) {
    moves += WriteMicroseconds(c.result_bytes, Level::kL2, c.p, c.cores) +
             ReadMicroseconds(c.result_bytes, Level::kL2, c.p, c.cores);
  }
  const double vector =
      std::max(moves, VectorMicroseconds(c.instructions, c.elements, c.e.out_dtype, c.p, c.cores));
  const bool overlaps = cube / blocks >= handover;
  t.push_back({"cube", cube});
  t.push_back({"chain", overlaps ? std::max(0.0, vector - cube) : vector});
  // The last block's chain has nothing left to hide behind.
  t.push_back({"last block", overlaps ? vector / blocks : 0});
  t.push_back({"hand-over", handover * blocks});
  t.push_back({"conversion", ConversionMicroseconds(c)});
  t.push_back({"long chain", LongChainMicroseconds(c, vector)});
  double us = 0;
  for (const CostTerm& term : t) us += term.us;
  return us;
}

void DescribeEdge(const ContractionEdge& e, const DeviceProfile& p, Decision& d) {
  d.chain = e.chain;
  d.where = e.where;
  d.shape = !e.shape.empty() ? e.shape
            : e.batch > 1    ? StrFormat("m=%lld n=%lld k=%lld batch=%lld", static_cast<long long>(e.m),
                                         static_cast<long long>(e.n), static_cast<long long>(e.k),
                                         static_cast<long long>(e.batch))
                             : StrFormat("m=%lld n=%lld k=%lld", static_cast<long long>(e.m),
                                         static_cast<long long>(e.n), static_cast<long long>(e.k));
  d.dtype = Name(e.dtype);
  d.profile = p.name;
}

std::string TileText(const Tile& t) {
  return StrFormat("%lldx%lldx%lld", static_cast<long long>(t.m), static_cast<long long>(t.n),
                   static_cast<long long>(t.k));
}

// The verdicts that no cost can change, in the order in which they are asked. True when one was given.
bool DecideByRule(const ContractionEdge& e, const Knobs& knobs, Decision& d) {
  if (!e.legal) return Rule(d, Verdict::kRefuse, e.illegal_reason);
  if (!e.tail || e.tail->stages.empty()) return Rule(d, Verdict::kSplit, "there is nothing to fuse");
  if (e.tail->HasRowReduction()) return Rule(d, Verdict::kRefuse, kNeedsGather);
  if (e.m <= 0 || e.n <= 0 || e.batch <= 0)
    return Rule(d, Verdict::kFuse, "the result is empty: nothing is computed");
  if (knobs.fusion == FusionMode::kOff) return Rule(d, Verdict::kSplit, "fusion is switched off");
  if (e.precision_first) {
    return Rule(d, Verdict::kSplit,
                "weights are quantised and the activation is cheap: precision comes first");
  }
  return false;
}

}  // namespace

Decision JudgeContraction(const ContractionEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  DescribeEdge(e, p, d);
  if (DecideByRule(e, knobs, d)) return d;

  const Contraction c = Describe(e, p);
  TileBlocks blocks = BlocksOf(c);
  const TileChoice fused = ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false);
  const Budget budget = ComputeBudget(fused.tile, blocks, p, knobs.l1_reserve, false);
  d.budget = budget.items;
  d.retries = fused.retries;
  NameEpilogueBlocks(e.tail, d);

  blocks.epilogue_blocks = 0;
  const TileChoice split = ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false);
  AddSplitTerms(c, split.tile, d);
  if (!fused.fits) {
    SumUp(knobs, d);
    Rule(d, Verdict::kSplit,
         StrFormat("no tile fits after %d tries: %s", static_cast<int>(fused.retries.size()),
                   budget.overflow.c_str()));
    return d;
  }
  double fused_without = 0;
  if (p.is_host()) {
    AddFusedTermsHost(c, fused.tile, d);
    SumUp(knobs, d);
    fused_without = d.time_fused_us;
  } else {
    AddFusedTermsNpu(c, fused.tile, p.handover_cycles(), d.fused_terms);
    SumUp(knobs, d);
    std::vector<CostTerm> without;
    fused_without =
        p.assumed(Field::k_handover_cycles) ? AddFusedTermsNpu(c, fused.tile, 0, without) : d.time_fused_us;
  }
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
    return d;
  }
  std::string context =
      StrFormat("the intermediate of %s would live in %s; tile %s", SizeText(c.result_bytes).c_str(),
                Name(c.level), TileText(fused.tile).c_str());
  if (!(fused.tile == split.tile)) context += " instead of " + TileText(split.tile) + " without the chain";
  DecideByCost(knobs, fused_without, SplitWithoutAssumed(d, p), context, d);
  return d;
}

}  // namespace opsnn::plan
