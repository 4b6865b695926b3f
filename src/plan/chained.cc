// Two products in a chain: whole, what lies between them written and read back; or in blocks of rows, with
// what lies between kept in the cores' own caches and the weights read once per block.
#include <algorithm>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/contraction.h"
#include "plan/judge_terms.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

ContractionEdge Product(const ChainedEdge& e, bool first) {
  ContractionEdge c;
  c.m = e.m;
  c.n = first ? e.hidden : e.n;
  c.k = first ? e.k : e.hidden;
  c.dtype = c.out_dtype = e.dtype;
  c.threads = e.threads;
  return c;
}

struct Chain {
  const ChainedEdge& e;
  const DeviceProfile& p;
  ContractionEdge first_edge, second_edge;
  Contraction first, second;
  Tile first_tile, second_tile;
  double first_us = 0, second_us = 0;

  Chain(const ChainedEdge& e, const DeviceProfile& p, const Knobs& knobs)
      : e(e),
        p(p),
        first_edge(Product(e, true)),
        second_edge(Product(e, false)),
        first(Describe(first_edge, p)),
        second(Describe(second_edge, p)) {
    first_tile = TileOf(first, knobs);
    second_tile = TileOf(second, knobs);
    first_us = CubeOf(first, first_tile);
    second_us = CubeOf(second, second_tile);
  }

  Tile TileOf(const Contraction& c, const Knobs& knobs) const {
    TileBlocks blocks = BlocksOf(c);
    blocks.epilogue_blocks = 0;
    return ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false).tile;
  }

  double ChainMicroseconds() const {
    const double instructions = e.between ? InstructionsPerElement(*e.between, p) : 0;
    return VectorMicroseconds(instructions, first.elements, e.dtype, p, first.cores);
  }
};

// What a cube that waits for nothing still does not hide of a transfer: the product's own stores and the
// lines of A come in bursts.
constexpr double kShown = 0.5;
// Blocks must promise this share: with less, they were as often slower as faster.
constexpr double kMargin = 0.05;

void AddSplit(const Chain& c, std::vector<CostTerm>& t) {
  const Level level = c.first.level;
  const int cores = c.first.cores;
  t.push_back({"first product", c.first_us});
  t.push_back({"chain between", c.ChainMicroseconds()});
  t.push_back({StrFormat("write between to %s", Name(level)),
               kShown * WriteMicroseconds(c.first.result_bytes, level, c.p, cores)});
  t.push_back({StrFormat("read between from %s", Name(level)),
               kShown * ReadMicroseconds(c.first.result_bytes, level, c.p, cores)});
  t.push_back({"second product", c.second_us});
  t.push_back({"launch", c.p.launch_us()});
  t.push_back({"join cores", cores > 1 ? c.p.sync_us() : 0});
}

double PartMicroseconds(const Contraction& whole, const ContractionEdge& edge, const Tile& tile,
                        int64_t block, double whole_us) {
  ContractionEdge e = edge;
  e.m = block;
  return CubeOf(PartOf(whole, e, block, whole_us), tile);
}

void AddBlocks(const Chain& c, int64_t block, std::vector<CostTerm>& t) {
  const double blocks = static_cast<double>(CeilDiv(c.e.m, block));
  const int cores = c.first.cores;
  const int64_t between = c.first.result_bytes / c.e.m * block;
  const Level level = LevelOf(between, cores, c.p);
  t.push_back(
      {"first product", blocks * PartMicroseconds(c.first, c.first_edge, c.first_tile, block, c.first_us)});
  t.push_back({"chain between", c.ChainMicroseconds()});
  t.push_back({StrFormat("between in %s", Name(level)), kShown * blocks *
                                                            (WriteMicroseconds(between, level, c.p, cores) +
                                                             ReadMicroseconds(between, level, c.p, cores))});
  t.push_back({"second product",
               blocks * PartMicroseconds(c.second, c.second_edge, c.second_tile, block, c.second_us)});
  t.push_back({"launch", c.p.launch_us()});
  t.push_back({"join cores", cores > 1 ? c.p.sync_us() : 0});
  t.push_back({"starting blocks", (blocks - 1) * (c.p.launch_us() + StartMicroseconds(c.first))});
}

}  // namespace

Decision JudgeChained(const ChainedEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  d.chain = e.chain;
  d.where = e.where;
  d.shape = !e.shape.empty() ? e.shape
                             : StrFormat("m=%lld k=%lld hidden=%lld n=%lld", static_cast<long long>(e.m),
                                         static_cast<long long>(e.k), static_cast<long long>(e.hidden),
                                         static_cast<long long>(e.n));
  d.dtype = Name(e.dtype);
  d.profile = p.name;
  const auto rule = [&](Verdict v, std::string reason) {
    Rule(d, v, std::move(reason));
    return d;
  };
  if (e.m <= 0 || e.hidden <= 0 || e.n <= 0) return rule(Verdict::kSplit, "the result is empty");
  if (knobs.fusion == FusionMode::kOff) return rule(Verdict::kSplit, "fusion is switched off");
  const Chain c(e, p, knobs);
  AddSplit(c, d.split_terms);
  // Halved until it fits what the cores' own caches leave it.
  const int64_t row = e.hidden * static_cast<int64_t>(SizeOf(e.dtype));
  const int64_t available = static_cast<int64_t>((1 - knobs.l1_reserve) * BlockBytes(p, c.first.cores));
  int64_t block = RoundUp(std::max<int64_t>(CeilDiv(e.m, 2), 1), kRowUnit);
  for (;; block = RoundUp(block / 2, kRowUnit)) {
    const bool fits = block * row <= available;
    d.retries.push_back({block, e.hidden, e.k, block * row, available, fits});
    if (fits || block <= kRowUnit) break;
  }
  d.budget.push_back({"between", p.is_host() ? "L1" : "L2", block * row});
  if (!d.retries.back().fits || block >= e.m) {
    SumUp(knobs, d);
    return rule(Verdict::kSplit,
                block >= e.m ? "so few rows make one block"
                             : StrFormat("%lld rows of what lies between do not fit: %lld "
                                         "of %lld bytes",
                                         static_cast<long long>(block), static_cast<long long>(block * row),
                                         static_cast<long long>(available)));
  }
  AddBlocks(c, block, d.fused_terms);
  SumUp(knobs, d);
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
  } else {
    DecideByCost(
        knobs, d.time_fused_us, SplitWithoutAssumed(d, p),
        StrFormat("between lies %s, which would live in %s; blocks of %lld rows",
                  SizeText(c.first.result_bytes).c_str(), Name(c.first.level), static_cast<long long>(block)),
        d);
  }
  if (d.verdict == Verdict::kFuse) {
    const double blocks = static_cast<double>(CeilDiv(e.m, block));
    d.regions.push_back({0, e.m, block, Verdict::kFuse, d.time_fused_us / blocks, d.time_split_us / blocks});
  }
  return d;
}

}  // namespace opsnn::plan
