#include "plan/judge.h"

#include <algorithm>
#include <cmath>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/contraction.h"
#include "plan/cost.h"
#include "plan/judge_terms.h"
#include "plan/tiling.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;
using device::Field;

void DescribeEdge(const ContractionEdge& e, const DeviceProfile& p, Decision& d) {
  if (!e.words) return;
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

void DescribeBudget(const ContractionEdge& e, const TileChoice& fused, const TileBlocks& blocks,
                    const DeviceProfile& p, const Knobs& knobs, Decision& d) {
  d.budget = ComputeBudget(fused.tile, blocks, p, knobs.l1_reserve, false).items;
  d.retries = fused.retries;
  NameEpilogueBlocks(e.tail, d);
}

std::string NoTileFits(const TileChoice& fused, const TileBlocks& blocks, const DeviceProfile& p,
                       const Knobs& knobs) {
  return StrFormat("no tile fits after %d tries: %s", static_cast<int>(fused.retries.size()),
                   ComputeBudget(fused.tile, blocks, p, knobs.l1_reserve, false).overflow.c_str());
}

std::string ContextOf(const Contraction& c, const Tile& fused, const Tile& split, double cube_us) {
  const bool hidden = WriteMicroseconds(c.result_bytes, c.level, c.p, c.cores) <= cube_us;
  std::string text =
      StrFormat("the intermediate of %s would live in %s%s; tile %s", SizeText(c.result_bytes).c_str(),
                Name(c.level), hidden ? ", written while the cube works" : "", TileText(fused).c_str());
  if (!(fused == split)) text += " instead of " + TileText(split) + " without the chain";
  return text;
}

}  // namespace

Decision JudgeContraction(const ContractionEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  if (e.concurrent > 1) {
    // An equal part of every on-chip memory for each.
    DeviceProfile part = p;
    for (const Field f : {Field::k_l1_bytes, Field::k_ub_bytes, Field::k_l0c_bytes}) {
      part.Set(f, p[f] / e.concurrent, "shared by concurrent operators", p.assumed(f));
    }
    ContractionEdge alone = e;
    alone.concurrent = 1;
    return JudgeContraction(alone, part, knobs);
  }
  Decision d;
  DescribeEdge(e, p, d);
  if (DecideByRule(e, knobs, d)) return d;

  const Contraction c = Describe(e, p);
  TileBlocks blocks = BlocksOf(c);
  const TileChoice fused = ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false);
  if (e.words) DescribeBudget(e, fused, blocks, p, knobs, d);
  Tile split = fused.alone;
  if (split.m == 0) {
    blocks.epilogue_blocks = 0;
    split = ChooseTile(c.shape, {}, blocks, p, c.cores, knobs, false).tile;
  }
  CostSum split_us(e.words ? &d.split_terms : nullptr), fused_us(e.words ? &d.fused_terms : nullptr);
  const double cube_us = AddSplitTerms(c, split, split_us);
  if (!fused.fits) {
    SumUp(knobs, split_us.us(), 0, d);
    d.benefit_us = 0;
    Rule(d, Verdict::kSplit, e.words ? NoTileFits(fused, blocks, p, knobs) : "");
    return d;
  }
  AddFusedTerms(c, fused.tile, p.handover_cycles(), fused_us);
  SumUp(knobs, split_us.us(), fused_us.us(), d);
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
    return d;
  }
  if (e.words) {
    CostSum fused_without(nullptr);
    AddFusedTerms(c, fused.tile, p.assumed(Field::k_handover_cycles) ? 0 : p.handover_cycles(),
                  fused_without);
    DecideByCost(knobs, fused_without.us(), SplitWithoutAssumed(d, p),
                 ContextOf(c, fused.tile, split, cube_us), d);
  } else {
    DecideByCost(d);
  }
  ConsiderRegions(c, fused.tile, split, cube_us, d);
  return d;
}

}  // namespace opsnn::plan
