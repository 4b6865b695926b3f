#include "plan/contraction.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/status.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

int64_t Saturate(double v) { return v < 9e18 ? static_cast<int64_t>(v) : int64_t{1} << 62; }

// Shared out a second time, a pass finds half of the blocks in other cores' caches: measured with two cores
// and an intermediate of 64 KiB; larger ones bring prefetchers up to speed.
constexpr double kSharedAgainMicroseconds = 4;
// A pass over less runs on the thread that asks for it (vector/run_tensors.cc).
constexpr int64_t kSharedBytes = 128 << 10;

// Eight stages are the usual chain. The live values of a longer one, each as large as a product's block, no
// longer fit UB together and its code competes for the instruction cache: a sixth more than in a streaming
// pass, whose blocks are smaller, was measured on the host.
constexpr int kUsualStages = 8;
constexpr double kLongChainShare = 0.15;

double LongChainMicroseconds(const Contraction& c, double chain_us) {
  const int stages = c.e.tail ? static_cast<int>(c.e.tail->stages.size()) : 0;
  return stages > kUsualStages ? kLongChainShare * chain_us : 0;
}

// Products of bytes on the host run the common chain (scale, bias, residual, clip, quantise) on each tile in
// registers: so many instructions for a vector of sums, the conversions included.
constexpr double kTileChainInstructions = 16;

bool InTiles(const Contraction& c) {
  if (!c.p.is_host() || SizeOf(c.e.dtype) != 1 || c.e.full_operands > 1) return false;
  const auto& stages = c.e.tail->stages;
  return std::all_of(stages.begin(), stages.end(), [](const Stage& s) {
    return s.op == StageOp::kConst || s.op == StageOp::kConvert || s.op == StageOp::kMul ||
           s.op == StageOp::kAdd || s.op == StageOp::kRelu || s.op == StageOp::kClip ||
           s.op == StageOp::kDiv || s.op == StageOp::kRound;
  });
}

double ConversionMicroseconds(const Contraction& c, int64_t elements) {
  constexpr double kInstructions = 2;  // widen or narrow, and round
  return VectorMicroseconds(kInstructions, elements, c.e.dtype, c.p, c.cores);
}

// A further operand as large as the result is read in rows of a block: runs of a few lines, too short for the
// hardware prefetcher. The product asks for them ahead; from memory about 16 cycles a line were measured
// beside what the bytes cost, where the pass of a split chain runs at the full rate.
constexpr double kColdLineCycles = 16;
constexpr int64_t kBlockColumns = 128;        // of a product's block: narrower results are read without gaps
constexpr int64_t kWideElements = 64 * 1024;  // of weights that stay in L2: blocks are as wide as the result

// With several cores, half of what fits their own caches lies in another core's. A pass has prefetchers on
// its side, a product's rows wait for each line. Measured from 256^3 to 128x768x768 with two cores.
constexpr double kOthersLinePassCycles = 11, kOthersLineRowCycles = 24;
// With one core too a program between tiles waits for its operand where a pass has it fetched ahead: 7 cycles
// a line from L1 at 128^3, 256^3 and 200x300x64. Results of one tile's width, and the few rows that are
// streamed, are finished in one long run.
constexpr double kOwnLineRowCycles = 7;
constexpr int64_t kTileColumns = 64, kStreamedRows = 8;

double LineMicroseconds(const Contraction& c, int64_t bytes, double cycles) {
  const double lines = static_cast<double>(bytes) / std::max(1.0, c.p.line_bytes());
  return c.p.clock_mhz() > 0 ? lines * cycles / c.cores / c.p.clock_mhz() : 0;
}

// Where vectors pass in halves (NarrowPaths) a line takes so much more, and what comes from the shared cache
// or from memory shows, unless whole blocks are one run.
constexpr double kNarrowLineCycles = 3, kNarrowSharedLineCycles = 13, kNarrowFarLineCycles = 26;
constexpr double kNarrowOthersLineCycles = 33;
constexpr int64_t kOneRunColumns = 32;

double ShortRowCycles(const Contraction& c) {
  const int64_t n = c.e.n;
  const bool streamed = c.e.m <= kStreamedRows, wide = n > kBlockColumns;
  const double narrow = streamed ? 0 : NarrowPaths(c.p);
  if (c.output_level == Level::kL1) {
    if (c.cores == 1)
      return (n > kTileColumns && !streamed ? kOwnLineRowCycles : 0) + narrow * kNarrowLineCycles;
    return wide && !streamed ? kOthersLineRowCycles + narrow * kNarrowOthersLineCycles
                             : narrow * kNarrowLineCycles;
  }
  if (n <= kOneRunColumns) return narrow * kNarrowLineCycles;
  if (c.output_level == Level::kL2) return narrow * kNarrowSharedLineCycles;
  if (!wide) return narrow * kNarrowFarLineCycles;
  return c.e.k <= kWideElements / n ? narrow * kNarrowLineCycles : (1 + narrow) * kColdLineCycles;
}

double ShortRowsMicroseconds(const Contraction& c) {
  return c.e.full_operands > 0 ? LineMicroseconds(c, c.operand_bytes, ShortRowCycles(c)) : 0;
}

constexpr size_t kRegisterStages = 2;  // a bias and an activation
bool InRegisters(const Contraction& c) {
  return c.e.full_operands == 0 && c.e.tail->stages.size() <= kRegisterStages;
}

// An activation that is no clip follows each tile: until its last vector is on the way, nothing of the next
// tile is. Where vectors pass in halves a core sees no further ahead than that: 60 cycles a tile.
constexpr double kNarrowTileCycles = 60;
constexpr int64_t kTileRows = 14, kWideTileRows = 6, kTileWidth = 32;

double TilesMicroseconds(const Contraction& c) {
  const auto& stages = c.e.tail->stages;
  const StageOp last = stages.empty() ? StageOp::kCopy : stages.back().op;
  const bool clips = last == StageOp::kRelu || last == StageOp::kClip || Info(last).arity > 1;
  if (clips || !InRegisters(c) || c.e.m <= kStreamedRows || c.p.clock_mhz() <= 0) return 0;
  const bool wide = c.e.n >= kTileColumns;
  const double tiles = static_cast<double>(c.e.batch) *
                       static_cast<double>(CeilDiv(c.e.m, wide ? kWideTileRows : kTileRows)) *
                       static_cast<double>(CeilDiv(c.e.n, wide ? kTileColumns : kTileWidth));
  return NarrowPaths(c.p) * tiles * kNarrowTileCycles / c.cores / c.p.clock_mhz();
}

// A chain that registers cannot hold is interpreted block by block: what one block costs beside its elements.
// Blocks of one product follow each other; each product of a batch starts anew.
constexpr double kProgramBlockCycles = 100, kProgramStartCycles = 250, kNarrowStartCycles = 800;
constexpr int64_t kBlockRows = 64;

double ProgramBlocksMicroseconds(const Contraction& c) {
  if (InRegisters(c) || c.p.clock_mhz() <= 0) return 0;
  const double blocks = static_cast<double>(c.e.batch) * static_cast<double>(CeilDiv(c.e.m, kBlockRows)) *
                        static_cast<double>(CeilDiv(c.e.n, kBlockColumns));
  const double starts = static_cast<double>(c.e.batch - 1);
  const double start = kProgramStartCycles + NarrowPaths(c.p) * kNarrowStartCycles;
  return (blocks * kProgramBlockCycles + starts * start) / c.cores / c.p.clock_mhz();
}

// The derivative of these follows from what they give; others need what they were given.
bool DerivativeFromResult(StageOp op) {
  switch (op) {
    case StageOp::kRelu:
    case StageOp::kSigmoid:
    case StageOp::kTanh:
    case StageOp::kAdd:
    case StageOp::kSub:
    case StageOp::kNeg:
    case StageOp::kCopy:
    case StageOp::kAffine:
      return true;
    default:
      return false;
  }
}

// In training a fused forward pass has no intermediate for the backward pass, which runs op by op: it is
// written beside the output and read again, or the product is computed a second time.
double BackwardMicroseconds(const Contraction& c, double cube_us) {
  if (!c.e.training || !c.e.tail) return 0;
  const auto& stages = c.e.tail->stages;
  if (std::all_of(stages.begin(), stages.end(), [](const Stage& s) { return DerivativeFromResult(s.op); }))
    return 0;
  const Level level = LevelOf(c.result_bytes, c.cores, c.p);
  return std::min(cube_us, WriteMicroseconds(c.result_bytes, level, c.p, c.cores, true) +
                               ReadMicroseconds(c.result_bytes, level, c.p, c.cores));
}

void AddFusedTermsHost(const Contraction& c, const Tile& tile, CostSum& t) {
  const double cube = CubeOf(c, tile);
  t.Add("cube", cube);
  // The core that computes the block also runs the chain on it: nothing overlaps, but the block is in L1d.
  const double l1d = c.p.clock_mhz() > 0 ? 2.0 * static_cast<double>(c.result_bytes) / c.cores /
                                               std::max(1.0, c.p.ub_rate()) / c.p.clock_mhz()
                                         : 0;
  const bool in_tiles = c.e.tail && InTiles(c);
  const double chain =
      in_tiles ? VectorMicroseconds(kTileChainInstructions, c.elements, DType::kS32, c.p, c.cores)
               : std::max(l1d, VectorMicroseconds(c.instructions, c.elements, c.e.dtype, c.p, c.cores));
  t.Add("chain", chain);
  // Loads of other operands and stores of the output spread over the product. While the chain works on a
  // block in L1d nothing else is under way.
  const double moves = ReadMicroseconds(c.operand_bytes, c.operand_level, c.p, c.cores) +
                       WriteMicroseconds(c.output_bytes, c.output_level, c.p, c.cores);
  t.Add("operands and output", std::max(0.0, moves - cube));
  // A convolution's block is whole pixels or rows of blocked channels, contiguous as they are.
  t.Add("short rows", c.e.kind == ContractionKind::kGemm ? ShortRowsMicroseconds(c) : 0);
  t.Add("tiles", c.e.kind == ContractionKind::kGemm ? TilesMicroseconds(c) : 0);
  t.Add("program blocks", in_tiles ? 0 : ProgramBlocksMicroseconds(c));
  t.Add("conversion", ConversionMicroseconds(c, c.e.convert_elements + (in_tiles ? 0 : c.e.cast_elements)));
  t.Add("long chain", in_tiles ? 0 : LongChainMicroseconds(c, chain));
  if (c.e.training) t.Add("kept for the backward pass", BackwardMicroseconds(c, cube));
}

// On an NPU cube and vector units are partners: while the cube computes a block, the vector unit runs the
// chain on the one before. The two overlap only when a block keeps the cube busy for longer than the
// hand-over takes; otherwise each block waits for the other unit.
void AddFusedTermsNpu(const Contraction& c, const Tile& tile, double handover_cycles, CostSum& t) {
  const double cube = CubeOf(c, tile);
  const double blocks = BlocksPerCore(c.shape, tile, c.cores);
  const double handover = handover_cycles / c.p.clock_mhz();
  double moves = ReadMicroseconds(c.operand_bytes, c.operand_level, c.p, c.cores) +
                 WriteMicroseconds(c.output_bytes, LevelOf(c.output_bytes, c.cores, c.p), c.p, c.cores);
  // Results that cannot go straight to UB are written to L2 and read back, block by block.
  if (!c.p.cube_feeds_vector()) {
    moves += WriteMicroseconds(c.result_bytes, Level::kL2, c.p, c.cores) +
             ReadMicroseconds(c.result_bytes, Level::kL2, c.p, c.cores);
  }
  const double vector =
      std::max(moves, VectorMicroseconds(c.instructions, c.elements, c.e.out_dtype, c.p, c.cores));
  const bool overlaps = cube / blocks >= handover;
  t.Add("cube", cube);
  t.Add("chain", std::max(0.0, vector - cube));
  // What would hide behind the cube if the blocks were larger.
  t.Add("lost parallelism", overlaps ? 0 : std::min(vector, cube));
  // The last block's chain has nothing left to hide behind.
  t.Add("last block", overlaps ? vector / blocks : 0);
  t.Add("hand-over", handover * blocks);
  t.Add("conversion", ConversionMicroseconds(c, c.e.convert_elements + c.e.cast_elements));
  t.Add("long chain", LongChainMicroseconds(c, vector));
  if (c.e.training) t.Add("kept for the backward pass", BackwardMicroseconds(c, cube));
}

}  // namespace

double CubeOf(const Contraction& c, const Tile& tile) {
  const double us = CubeMicroseconds(c.shape, tile, true, c.p, c.cores) * (1 + c.repack_share);
  return std::max(us, c.least_cube_us);
}

namespace {
// The type of the sums that lie between product and chain.
DType SumsOf(DType t) { return t == DType::kS8 || t == DType::kU8 ? DType::kS32 : t; }
}  // namespace

Contraction Describe(const ContractionEdge& e, const DeviceProfile& p) {
  Contraction c{e, p};
  const double size = static_cast<double>(SizeOf(e.dtype));
  const double sums = static_cast<double>(SizeOf(SumsOf(e.dtype)));
  const bool depthwise = e.kind == ContractionKind::kDepthwise;
  const double a = e.input_bytes > 0 ? static_cast<double>(e.input_bytes)
                                     : static_cast<double>(e.m) * static_cast<double>(depthwise ? e.n : e.k) *
                                           static_cast<double>(e.batch) * size;
  c.shape = {e.m, e.n, std::max<int64_t>(e.k, 1), e.batch, e.dtype, Saturate(a), depthwise};
  c.cores = ActiveCores(p, e.threads);
  const double elements = static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.batch);
  c.elements = Saturate(elements);
  c.result_bytes = Saturate(elements * sums);
  c.output_bytes = Saturate(elements * static_cast<double>(SizeOf(e.out_dtype)));
  c.operand_bytes = Saturate(elements * sums * e.full_operands + static_cast<double>(e.small_operand_bytes));
  c.instructions = e.tail ? InstructionsPerElement(*e.tail, p) : 0;
  // A split chain finds the intermediate where its size leaves it, beside the output it writes meanwhile.
  c.level = LevelOf(Saturate(static_cast<double>(c.result_bytes) + static_cast<double>(c.output_bytes)),
                    c.cores, p);
  c.output_level = c.level;
  c.operand_level = LevelOf(c.operand_bytes, c.cores, p);
  return c;
}

TileBlocks BlocksOf(const Contraction& c) {
  TileBlocks b;
  b.a_size = b.b_size = SizeOf(c.e.dtype);
  b.c_size = SumBytes(c.e.dtype);
  b.epilogue_size = c.p.is_host() ? b.c_size : SizeOf(c.e.out_dtype);
  // An NPU loads the next A and B into buffers of their own; the host prefetches.
  b.nbuf = c.p.is_host() ? 1 : 2;
  // The chain works in place on C's block (host) or on its copy in UB (NPU); further live values need blocks
  // too.
  const int live = c.e.tail ? PeakLiveSlots(*c.e.tail) : 1;
  b.epilogue_blocks = std::max(1, std::min(live, 1 + c.e.full_operands + 2));
  return b;
}

double AddSplitTerms(const Contraction& c, const Tile& tile, CostSum& t) {
  const double cube = CubeOf(c, tile);
  t.Add("cube", cube);
  // The product's own stores drain while it computes; what takes longer than that shows.
  const double write = WriteMicroseconds(c.result_bytes, c.level, c.p, c.cores);
  t.Add("write C to ", Name(c.level), std::max(0.0, write - cube));
  const double read = ReadMicroseconds(c.result_bytes, c.level, c.p, c.cores);
  const double others = ReadMicroseconds(c.operand_bytes, c.operand_level, c.p, c.cores);
  const int64_t from_memory =
      (c.level == Level::kHbm ? c.result_bytes : 0) + (c.operand_level == Level::kHbm ? c.operand_bytes : 0);
  // Between two blocks of rows the memory catches up, so that stores and reads travel together.
  const double output = c.is_part && c.p.is_host() && c.output_level == Level::kHbm
                            ? StreamedMicroseconds(c.output_bytes, from_memory, c.p, c.cores)
                            : WriteMicroseconds(c.output_bytes, c.output_level, c.p, c.cores, true);
  const double vector = VectorMicroseconds(c.instructions, c.elements, SumsOf(c.e.dtype), c.p, c.cores);
  t.Add("read C from ", Name(c.level), read);
  t.Add("other operands", others);
  t.Add("write output", output);
  t.Add("chain", Overlapped(vector, read + others + output) - (read + others + output));
  t.Add("conversion", ConversionMicroseconds(c, c.e.cast_elements));
  t.Add("launch", c.p.launch_us());
  const bool shared = c.cores > 1 && (!c.p.is_host() || c.result_bytes + c.output_bytes >= kSharedBytes);
  t.Add("join cores", shared ? c.p.sync_us() : 0);
  // What a pass read on one core the next product may write on another, which waits for each such line.
  const double cross =
      c.level == Level::kHbm || !c.p.is_host() ? 0 : c.p.handover_cycles() * (c.cores - 1) / c.cores;
  const double others_lines =
      LineMicroseconds(c, c.result_bytes, std::max(cross, c.level == Level::kL1 ? kOthersLinePassCycles : 0));
  t.Add("shared out again", shared && c.p.is_host() ? kSharedAgainMicroseconds + others_lines : 0);
  return cube;
}

void AddFusedTerms(const Contraction& c, const Tile& tile, double handover_cycles, CostSum& t) {
  if (c.p.is_host()) {
    AddFusedTermsHost(c, tile, t);
  } else {
    AddFusedTermsNpu(c, tile, handover_cycles, t);
  }
}

}  // namespace opsnn::plan
