// Hybrid verdicts: one product whose rows are treated by regions.
//
// An intermediate that leaves the caches costs a split chain two trips to memory, and a fused chain stores
// its output through the caches, line by line read before written. In blocks of rows whose intermediate stays
// in the cores' own caches the split form has neither: the product writes a buffer that never leaves, the
// pass reads it there and streams the output. What is left of the rows is mostly cheaper fused.
#include <algorithm>
#include <atomic>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/contraction.h"
#include "plan/judge_terms.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

// Every region brings B into panels anew: three quarters of the time of one tile of rows that reads them
// (kernels/gemm/gemm.cc measured it), which are 14 rows with AVX-512 and 6 with AVX2.
constexpr double kPackShare = 0.75, kPanelRows = 14;
// Regions must promise this share of the better whole form. Where they would save less, how fast memory is at
// that moment decides: a relu behind 2048x2048x8 was 1.6 times as fast by regions beside busy neighbours, and
// a sixth slower alone; 4096x4096x32 + add + relu, which promises 0.29, between 0.95 and 1.07 of the fused
// form.
constexpr double kMargin = 0.3;
// Every block joins the threads twice. A task of some ten microseconds finds them at different places:
// measured with two threads, beside what joining itself takes.
constexpr double kUnevenMicroseconds = 12;

struct Parts {
  const Contraction& whole;
  const Tile &fused, &split;
  double cube_us;  // of the whole

  Region Price(int64_t first, int64_t rows, int64_t block) const {
    ContractionEdge e = whole.e;
    e.m = block;
    const Contraction c = PartOf(whole, e, block, cube_us);
    CostSum split_us(nullptr), fused_us(nullptr);
    AddSplitTerms(c, split, split_us);
    AddFusedTerms(c, fused, c.p.handover_cycles(), fused_us);
    Region r{first, rows, block, Verdict::kSplit, fused_us.us(), split_us.us()};
    if (r.fused_us < r.split_us) r.verdict = Verdict::kFuse;
    return r;
  }
};

double Microseconds(const Region& r, double start_us) {
  const double blocks = static_cast<double>(CeilDiv(r.rows, r.block));
  return blocks * (std::min(r.fused_us, r.split_us) + start_us);
}

// Why rows beyond the caches are not cut into regions; null where they may be.
const char* NoRegions(const ContractionEdge& e) {
  if (e.batch != 1) return "the products of a batch are blocks already";
  // A pass would drop the rounding of a narrower intermediate, and of a narrower output.
  if (e.dtype != DType::kF32 || e.out_dtype != DType::kF32) return "they are for f32 that stays f32";
  return nullptr;
}

std::string Describe(const Region& r) {
  std::string s = StrFormat("rows %lld to %lld %s", static_cast<long long>(r.first),
                            static_cast<long long>(r.first + r.rows - 1),
                            r.verdict == Verdict::kFuse ? "fused" : "split");
  if (r.block < r.rows) s += StrFormat(" in blocks of %lld", static_cast<long long>(r.block));
  return s;
}

std::atomic<int64_t> calls_run{0}, fused_run{0}, split_run{0};

}  // namespace

double StartMicroseconds(const Contraction& c) {
  return c.p.launch_us() + (c.cores > 1 ? c.p.sync_us() + (c.p.is_host() ? 2 * kUnevenMicroseconds : 0) : 0);
}

void CountRegions(int64_t fused, int64_t split) {
  calls_run.fetch_add(1, std::memory_order_relaxed);
  fused_run.fetch_add(fused, std::memory_order_relaxed);
  split_run.fetch_add(split, std::memory_order_relaxed);
}

RegionCounters RegionsRun() { return {calls_run, fused_run, split_run}; }

double BlockBytes(const DeviceProfile& p, int cores) {
  return p.is_host() ? 0.25 * p.l1_bytes() * cores : 0.25 * p.l2_bytes();
}

Contraction PartOf(const Contraction& whole, const ContractionEdge& e, int64_t rows, double cube_us) {
  Contraction c{e, whole.p};
  const double share = static_cast<double>(rows) / static_cast<double>(whole.shape.m);
  const auto part = [&](int64_t v) { return static_cast<int64_t>(share * static_cast<double>(v)); };
  c.shape = whole.shape;
  c.shape.m = rows;
  c.shape.a_bytes = part(whole.shape.a_bytes);
  c.cores = whole.cores;
  c.elements = rows * whole.shape.n;
  c.result_bytes = part(whole.result_bytes);
  c.output_bytes = part(whole.output_bytes);
  c.operand_bytes = part(whole.operand_bytes);
  c.instructions = whole.instructions;
  c.level = LevelOf(c.result_bytes, c.cores, c.p);
  c.output_level = whole.output_level;
  c.operand_level = whole.operand_level;
  c.repack_share = whole.p.is_host() ? (1 - share) * kPackShare * kPanelRows / static_cast<double>(rows) : 0;
  c.least_cube_us = share * cube_us;
  c.is_part = true;
  return c;
}

void ConsiderRegions(const Contraction& whole, const Tile& fused, const Tile& split, double cube_us,
                     Decision& d) {
  const ContractionEdge& e = whole.e;
  if (e.kind != ContractionKind::kGemm || e.convert_elements > 0 || whole.level == Level::kL1) return;
  if (!whole.p.is_host() && whole.level != Level::kHbm) return;
  if (const char* why = NoRegions(e)) {
    if (e.words) d.reason += std::string("; no regions: ") + why;
    return;
  }
  const double row_bytes = static_cast<double>(SizeOf(e.dtype)) * static_cast<double>(e.n);
  const int64_t most = static_cast<int64_t>(BlockBytes(whole.p, whole.cores) / row_bytes);
  const int64_t block = most / kRowUnit * kRowUnit;
  if (block == 0 || block >= e.m) return;

  const Parts parts{whole, fused, split, cube_us};
  const int64_t inside = e.m / block * block;
  std::vector<Region> regions = {parts.Price(0, inside, block)};
  if (inside < e.m) regions.push_back(parts.Price(inside, e.m - inside, e.m - inside));
  const double start = StartMicroseconds(whole);
  double us = -start;  // the first launch is there in every form
  for (const Region& r : regions) us += Microseconds(r, start);
  d.time_hybrid_us = us;
  const double best = std::min(d.time_fused_us, d.time_split_us);
  const bool all_fused = regions.front().verdict == Verdict::kFuse;
  if (all_fused || us >= (1 - kMargin) * best) return;
  d.verdict = Verdict::kHybrid;
  d.regions = std::move(regions);
  if (!e.words) return;
  d.reason = StrFormat(
      "by regions %.3g us, fused %.3g, split %.3g: the intermediate of a block stays in %s", us,
      d.time_fused_us, d.time_split_us,
      Name(LevelOf(static_cast<int64_t>(static_cast<double>(block) * row_bytes), whole.cores, whole.p)));
  for (const Region& r : d.regions) d.reason += "; " + Describe(r);
}

Decision JudgeRowsBehind(const ContractionEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  d.chain = e.chain, d.where = e.where, d.shape = e.shape;
  d.dtype = Name(e.dtype);
  d.profile = p.name;
  if (!p.is_host() || e.kind != ContractionKind::kGemm || e.batch != 1 || e.dtype != DType::kF32) {
    Rule(d, Verdict::kRefuse, kNeedsGather);
    return d;
  }
  if (knobs.fusion == FusionMode::kOff) {
    Rule(d, Verdict::kSplit, "fusion is switched off");
    return d;
  }
  const Contraction c = Describe(e, p);
  const double row_bytes = static_cast<double>(SizeOf(e.dtype)) * static_cast<double>(e.n);
  const double capacity = (1 - knobs.l1_reserve) * BlockBytes(p, c.cores);
  const int64_t fitting = static_cast<int64_t>(capacity / row_bytes) / kRowUnit * kRowUnit;
  const int64_t block = std::min(fitting, RoundUp(e.m, kRowUnit));
  const int64_t bytes = static_cast<int64_t>(row_bytes * static_cast<double>(std::max(block, kRowUnit)));
  d.budget.push_back(
      {StrFormat("%lld whole rows", static_cast<long long>(std::max(block, kRowUnit))), "L1", bytes});
  d.retries.push_back(
      {std::max(block, kRowUnit), e.n, e.k, bytes, static_cast<int64_t>(capacity), block > 0});
  if (block == 0) {
    Rule(d, Verdict::kSplit,
         StrFormat("a block of whole rows does not fit L1: %lld of %.0f bytes", static_cast<long long>(bytes),
                   capacity));
    return d;
  }
  TileBlocks blocks = BlocksOf(c);
  blocks.epilogue_blocks = 0;
  const Tile tile = ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false).tile;
  CostSum split(&d.split_terms);
  const double cube_us = AddSplitTerms(c, tile, split);
  const double start = StartMicroseconds(c);
  const Parts parts{c, tile, tile, cube_us};
  Region rows = parts.Price(0, e.m, std::min(block, e.m));
  rows.verdict = Verdict::kSplit;
  const double count = static_cast<double>(CeilDiv(e.m, rows.block));
  d.fused_terms.push_back({"blocks of whole rows", count * rows.split_us});
  d.fused_terms.push_back({"starting them", (count - 1) * start});
  SumUp(knobs, d);
  d.time_hybrid_us = d.time_fused_us;
  const bool forced = knobs.fusion == FusionMode::kForce;
  if (!forced && d.time_fused_us >= (1 - kMargin) * d.time_split_us) {
    Rule(d, Verdict::kSplit,
         StrFormat("blocks of whole rows %.3g us, a kernel of its own %.3g us; they must save %.0f %%",
                   d.time_fused_us, d.time_split_us, 100 * kMargin));
    return d;
  }
  Rule(d, Verdict::kHybrid,
       forced ? std::string("fusion is forced")
              : StrFormat("blocks of %lld whole rows stay in L1: %.3g us, a kernel of its own %.3g us",
                          static_cast<long long>(rows.block), d.time_fused_us, d.time_split_us));
  d.regions.push_back(rows);
  return d;
}

}  // namespace opsnn::plan
