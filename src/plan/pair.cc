#include "plan/pair.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/contraction.h"
#include "plan/judge_terms.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

// Of the product's time, the share behind which transfers of what it reads and of what was written before
// hide (fitted to the pairs of MobileNetV2).
constexpr double kHides = 0.6;
// Measured: turning from one kernel to the other and back, with tiles that end at the strip.
constexpr double kStripMicroseconds = 1.0;

struct Pair {
  const PairEdge& e;
  const DeviceProfile& p;
  int cores = 1;
  int64_t between = 0, strip = 0, strips = 1;
  int64_t expanded = 0, expanded_strip = 0;  // bytes
  double first_us = 0, second_us = 0, expand_us = 0;

  Pair(const PairEdge& e, const DeviceProfile& p, const Knobs& knobs)
      : e(e), p(p), cores(ActiveCores(p, e.threads)) {
    const auto cube = [&](const MatrixShape& s) {
      const TileBlocks blocks{sizeof(float), sizeof(float),       sizeof(float),
                              sizeof(float), p.is_host() ? 1 : 2, 0};
      return CubeMicroseconds(s, ChooseTile(s, {}, blocks, p, cores, knobs, false).tile, true, p, cores);
    };
    const int64_t pixels = e.images * e.rows * e.columns;
    between = pixels * e.channels * static_cast<int64_t>(sizeof(float));
    strip = between / std::max<int64_t>(1, e.images * e.rows) * e.strip_rows;
    strips = e.images * CeilDiv(e.rows, std::max<int64_t>(1, e.strip_rows));
    second_us = cube({pixels, e.out_channels, e.channels, 1, DType::kF32, between, false});
    int64_t read = e.input_bytes;
    if (Expands()) {
      const int64_t expanded_pixels = e.images * e.expanded_rows * e.expanded_columns;
      expanded = read = expanded_pixels * e.channels * static_cast<int64_t>(sizeof(float));
      expanded_strip = expanded / (e.images * e.expanded_rows) * e.expanded_strip_rows;
      expand_us =
          cube({expanded_pixels, e.channels, e.expand_channels, 1, DType::kF32, e.input_bytes, false});
    }
    first_us = cube({pixels, e.channels, e.taps, 1, DType::kF32, read, true});
  }
  bool Expands() const { return e.expand_channels > 0; }
};

// Writing so many bytes and reading them back at this level, less what computing for so long hides.
void AddMoves(const Pair& c, const char* what, int64_t bytes, Level level, double hiding_us, CostSum& t) {
  const double moves =
      WriteMicroseconds(bytes, level, c.p, c.cores) + ReadMicroseconds(bytes, level, c.p, c.cores);
  t.Add(what, Name(level), std::max(0.0, moves - kHides * hiding_us));
}
constexpr const char *kBetween = "between written and read in ", *kExpanded = "expanded written and read in ";

// A kernel of its own, which shares out work differently: what one core has written, another reads.
void AddApart(const Pair& c, const char* what, int64_t bytes, CostSum& t) {
  if (c.cores > 1) t.Add(what, ReadMicroseconds(bytes / c.cores * (c.cores - 1), Level::kL2, c.p, c.cores));
  t.Add("launch", c.p.launch_us());
  t.Add("join cores", c.cores > 1 ? c.p.sync_us() : 0);
}

void AddStrips(const Pair& c, CostSum& t) {
  t.Add("starting strips", static_cast<double>(CeilDiv(c.strips, int64_t{c.cores})) * kStripMicroseconds);
}

void AddTwoApart(const Pair& c, CostSum& t) {
  t.Add("depthwise", c.first_us);
  AddMoves(c, kBetween, c.between, LevelOf(c.between, c.cores, c.p), c.second_us, t);
  t.Add("pointwise", c.second_us);
  AddApart(c, "between from other cores", c.between, t);
}

void AddTwoTogether(const Pair& c, CostSum& t) {
  const Level input = LevelOf(c.Expands() ? c.expanded : c.e.input_bytes, c.cores, c.p);
  const int64_t again = (c.strips - c.e.images) * c.e.overlap_bytes;
  t.Add("depthwise", c.first_us);
  AddMoves(c, kBetween, c.between, LevelOf(c.strip, 1, c.p), c.second_us, t);
  t.Add("pointwise", c.second_us);
  // Rows that two strips share are in a cache of the same core still, if strips are its neighbours.
  t.Add("rows between strips, again", ReadMicroseconds(again, std::min(input, Level::kL2), c.p, c.cores));
  AddStrips(c, t);
}

// With an expansion: that one alone, and the two as is better.
void AddSplit(const Pair& c, CostSum& t) {
  if (!c.Expands()) return AddTwoApart(c, t);
  t.Add("expansion", c.expand_us);
  AddMoves(c, kExpanded, c.expanded, LevelOf(c.expanded, c.cores, c.p), c.expand_us, t);
  AddApart(c, "expanded from other cores", c.expanded, t);
  CostSum apart(nullptr), together(nullptr);
  AddTwoApart(c, apart), AddTwoTogether(c, together);
  apart.us() <= together.us() ? AddTwoApart(c, t) : AddTwoTogether(c, t);
}

void AddFused(const Pair& c, CostSum& t) {
  if (!c.Expands()) return AddTwoTogether(c, t);
  const int64_t row = c.expanded / std::max<int64_t>(1, c.e.images * c.e.expanded_rows),
                kept = c.e.overlap_bytes / std::max<int64_t>(1, row);  // rows that go on to the next strip
  const int64_t again = c.e.images * (c.e.pieces - 1) * kept;
  t.Add("expansion", c.expand_us);
  AddMoves(c, kExpanded, c.expanded, LevelOf(c.expanded_strip, 1, c.p), c.expand_us, t);
  t.Add("depthwise", c.first_us);
  AddMoves(c, kBetween, c.between, LevelOf(c.strip, 1, c.p), c.second_us, t);
  t.Add("pointwise", c.second_us);
  t.Add("rows between pieces, again",
        c.expand_us * static_cast<double>(again) / static_cast<double>(c.e.images * c.e.expanded_rows));
  const int64_t moved = (c.strips - c.e.images * c.e.pieces) * c.e.overlap_bytes;
  t.Add("rows that go on to the next strip", ReadMicroseconds(moved, Level::kL1, c.p, c.cores) +
                                                 WriteMicroseconds(moved, Level::kL1, c.p, c.cores));
  AddStrips(c, t);
}

}  // namespace

PairRoom RoomOfPair(const DeviceProfile& p, int cores) {
  // An eighth of a private cache each for what lies between, the rows read and those written: 128 KiB of one
  // of 1 MiB. A quarter for rows of an expansion, half of it for weights.
  constexpr double kStripShare = 0.5, kExpandedShare = 1, kWeightShare = 0.5;
  const double block = BlockBytes(p, cores) / std::max(cores, 1);
  return {static_cast<int64_t>(kStripShare * block), static_cast<int64_t>(kExpandedShare * block),
          static_cast<int64_t>(kWeightShare * p.l1_bytes())};
}

Decision JudgePair(const PairEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  d.chain = e.chain;
  d.where = e.where;
  d.shape = e.shape;
  d.dtype = Name(DType::kF32);
  d.profile = p.name;
  const auto rule = [&](Verdict v, std::string reason) {
    Rule(d, v, std::move(reason));
    return d;
  };
  const bool no_expanded = e.expand_channels > 0 && e.expanded_rows * e.expanded_columns <= 0;
  if (e.images * e.rows * e.columns <= 0 || e.channels <= 0 || e.out_channels <= 0 || no_expanded)
    return rule(Verdict::kSplit, "the result is empty");
  if (knobs.fusion == FusionMode::kOff) return rule(Verdict::kSplit, "fusion is switched off");
  const Pair c(e, p, knobs);
  const auto available = static_cast<int64_t>((1 - knobs.l1_reserve) * BlockBytes(p, c.cores));
  if (e.words) {
    d.budget.push_back({"between", p.is_host() ? "L1" : "L2", c.strip});
    if (c.Expands()) d.budget.push_back({"expanded", p.is_host() ? "L1" : "L2", c.expanded_strip});
    d.retries.push_back({e.strip_rows, e.channels, e.taps, c.strip, available, c.strip <= available});
  }
  CostSum split(e.words ? &d.split_terms : nullptr), fused(e.words ? &d.fused_terms : nullptr);
  AddSplit(c, split);
  AddFused(c, fused);
  SumUp(knobs, split.us(), fused.us(), d);
  if (c.strip > available)
    return rule(Verdict::kSplit,
                StrFormat("%lld rows of what lies between do not fit: %lld of %lld bytes",
                          static_cast<long long>(e.strip_rows), static_cast<long long>(c.strip),
                          static_cast<long long>(available)));
  if (knobs.fusion == FusionMode::kForce) return rule(Verdict::kFuse, "fusion is forced");
  if (!e.words) {
    DecideByCost(d);
    return d;
  }
  DecideByCost(knobs, d.time_fused_us, SplitWithoutAssumed(d, p),
               StrFormat("between lies %s, which would live in %s; strips of %lld rows",
                         SizeText(c.between + c.expanded).c_str(),
                         Name(LevelOf(std::max(c.between, c.expanded), c.cores, p)),
                         static_cast<long long>(e.strip_rows)),
               d);
  return d;
}

}  // namespace opsnn::plan
