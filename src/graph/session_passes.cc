// The passes of a session for one set of sizes.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "graph/declared.h"
#include "graph/infer.h"
#include "graph/memory_plan.h"
#include "graph/plan_template.h"
#include "graph/session.h"
#include "graph/stopwatch.h"
#include "plan/judge.h"

namespace opsnn::graph {

namespace {

// Below this a peak is no concern, and planning a small form must stay cheap.
constexpr size_t kSmallActivations = size_t{16} << 20;

// Those before layouts, which a template stands for, and the others.
struct SplitPasses {
  std::span<const graph::Pass> fusing, others;
};
SplitPasses AtLayouts() {
  const std::span<const graph::Pass> all = PreparePasses();
  const auto layout = std::find_if(all.begin(), all.end(),
                                   [](const graph::Pass& p) { return p.name == std::string_view("layout"); });
  return {{all.begin(), layout}, {layout, all.end()}};
}

}  // namespace

PassContext Session::ContextFor(const device::DeviceProfile& profile, bool record) const {
  PassContext c;
  c.fusion = options_.fusion;
  c.policy = options_.policy;
  c.profile = &profile;
  c.packs = packs_.get();
  c.record = record;
  c.training = options_.training, c.precision_first = options_.precision_first;
  c.concurrent = options_.concurrent;
  return c;
}

Session::PeakGuard Session::GuardFor(const Graph& unfused) const {
  PeakGuard guard;
  guard.bounded = options_.fusion != FusionMode::kOff && options_.peak_limit > 0 &&
                  ActivationBytes(unfused) > kSmallActivations;
  if (guard.bounded) guard.limit = options_.peak_limit * static_cast<double>(LeastPeak(unfused));
  return guard;
}

Result<Graph> Session::Optimise(const Key& key, const device::DeviceProfile& profile, bool record,
                                std::vector<PassStat>* stats, std::shared_ptr<const Stage>* stage,
                                PeakGuard* guard) const {
  OPSNN_ASSIGN_OR_RETURN(Graph g, Concrete(key, stats, stage));
  g.RemoveUnused();
  OPSNN_RETURN_IF_ERROR(g.Sort());
  const PeakGuard peak = GuardFor(g);
  OPSNN_ASSIGN_OR_RETURN(g, Pass(std::move(g), profile, record, "", stats));
  if (guard) {
    *guard = peak;
    return g;
  }
  const size_t needs = peak.bounded ? PeakOf(g) : 0;
  if (static_cast<double>(needs) <= peak.limit) return g;
  OPSNN_ASSIGN_OR_RETURN(std::optional<Graph> within,
                         WithinPeakFor(key, needs, profile, record, stats, stage != nullptr));
  return within ? *std::move(within) : std::move(g);
}

// The peak may be too high: a closer look at the unfused graph tells.
Result<std::optional<Graph>> Session::WithinPeakFor(const Key& key, size_t peak,
                                                    const device::DeviceProfile& profile, bool record,
                                                    std::vector<PassStat>* stats, bool may_cut) const {
  std::vector<PassStat> again;
  std::shared_ptr<const Stage> same;
  OPSNN_ASSIGN_OR_RETURN(Graph before, Concrete(key, &again, may_cut ? &same : nullptr));
  before.RemoveUnused();
  OPSNN_RETURN_IF_ERROR(before.Sort());
  return WithinPeak(peak, before, profile, record, stats);
}

Result<std::shared_ptr<const Prepared>> Session::Plan(const Key& key,
                                                      std::shared_ptr<const Stage>* stage) const {
  const device::DeviceProfile& profile = device::HostProfile();
  std::vector<PassStat> stats;
  PeakGuard guard;
  std::optional<Graph> g = stage ? std::nullopt : FromTemplate(key, profile, &stats, &guard);
  if (!g) {
    OPSNN_ASSIGN_OR_RETURN(g, Optimise(key, profile, false, &stats, stage, &guard));
  }
  OPSNN_ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> made,
                         Prepared::Make(*std::move(g), packs_.get(), stats, arenas_, IsExact()));
  if (!guard.bounded || static_cast<double>(made->memory().value_peak) <= guard.limit) return made;
  OPSNN_ASSIGN_OR_RETURN(std::optional<Graph> within, WithinPeakFor(key, made->memory().value_peak, profile,
                                                                    false, &stats, stage != nullptr));
  if (!within) return made;
  return Prepared::Make(*std::move(within), packs_.get(), std::move(stats), arenas_, IsExact());
}

Result<Graph> Session::Pass(Graph g, const device::DeviceProfile& profile, bool record,
                            const std::string& off, std::vector<PassStat>* stats) const {
  PassContext c = ContextFor(profile, record);
  OPSNN_RETURN_IF_ERROR(
      RunPreparePasses(!record && off.empty(), options_.passes_off + "," + off, g, c, stats));
  stats->push_back(c.judge);
  if (!record) g.decisions = {};
  return g;
}

// `keep`: what those before layouts made of it becomes a template, if it can be one.
Status Session::RunPreparePasses(bool keep, const std::string& off, Graph& g, PassContext& c,
                                 std::vector<PassStat>* stats) const {
  if (!keep || !PlanTemplate::Serves(g)) return RunPasses(PreparePasses(), off, g, c, stats);
  const SplitPasses passes = AtLayouts();
  std::shared_ptr<const PlanTemplate> last;
  {
    const std::lock_guard lock(mutex_);
    last = template_;
  }
  auto made = std::make_shared<PlanTemplate>(g, last);
  Questions questions;
  std::vector<PassStat> ran;
  c.questions = &questions;
  OPSNN_RETURN_IF_ERROR(RunPasses(passes.fusing, off, g, c, &ran));
  c.questions = nullptr;
  if (made->Finish(g, std::move(questions), ran)) {
    const std::lock_guard lock(mutex_);
    template_ = std::move(made);
  }
  stats->insert(stats->end(), ran.begin(), ran.end());
  stats->push_back({"plan_template", last != nullptr, 0, 0});
  return RunPasses(passes.others, off, g, c, stats);
}

std::optional<Graph> Session::FromTemplate(const Key& key, const device::DeviceProfile& profile,
                                           std::vector<PassStat>* stats, PeakGuard* guard) const {
  if (has_bodies_) return std::nullopt;
  std::shared_ptr<const PlanTemplate> last;
  {
    const std::lock_guard lock(mutex_);
    last = template_;
  }
  const std::unique_lock lock(scratch_mutex_, std::try_to_lock);
  if (!last || !lock) return std::nullopt;
  const Stopwatch inferring;
  if (!scratch_) scratch_ = loaded_;
  Graph& g = *scratch_;
  for (size_t v = 0; v < g.values.size(); ++v) {
    const Value& was = loaded_.values[v];
    if (was.producer < 0) continue;
    g.values[v].desc = was.desc;
    g.values[v].producer = was.producer;
  }
  for (size_t n = 0; n < g.nodes.size(); ++n) g.nodes[n].dead = loaded_.nodes[n].dead;
  SetInputs(key, &g);
  InferOptions infer;
  infer.fold = !ListHas(options_.passes_off, "constant_folding");
  const Result<int> folded = InferGraph(g, infer);
  if (!folded.ok() || !CheckAllDeclared(g, declared_).ok()) return std::nullopt;
  std::vector<PassStat> ran{{"constant_folding", *folded, infer.fold ? *folded : 0, inferring.us()}};
  g.RemoveUnused();
  const Stopwatch finding;
  PassContext c = ContextFor(profile, false);
  const PlanTemplate* found = last->Find(g, c);
  if (!found) return std::nullopt;
  *guard = GuardFor(g);
  Graph made = found->Make(g);
  ran.insert(ran.end(), found->stats().begin(), found->stats().end());
  ran.push_back({"plan_template", 1, 1, finding.us()});
  if (!RunPasses(AtLayouts().others, options_.passes_off, made, c, &ran).ok()) return std::nullopt;
  ran.push_back(c.judge);
  *stats = std::move(ran);
  return made;
}

Result<std::optional<Graph>> Session::WithinPeak(size_t peak, const Graph& before,
                                                 const device::DeviceProfile& profile, bool record,
                                                 std::vector<PassStat>* stats) const {
  // Layouts and conversions take memory in either form.
  std::vector<PassStat> unasked;
  Graph unfused = before;
  PassContext off_context = ContextFor(profile, true);
  off_context.fusion = FusionMode::kOff;
  OPSNN_RETURN_IF_ERROR(RunPasses(PreparePasses(), options_.passes_off, unfused, off_context, &unasked));
  const size_t parts = PeakOf(unfused);
  const auto limit = static_cast<size_t>(options_.peak_limit * static_cast<double>(parts));
  if (peak <= limit) return std::optional<Graph>();
  // Those that keep operands alive for longest go first.
  std::string off;
  for (const char* pass : {"parts_in_place", "row_chain", "pointwise_chain", "epilogue_fusion"}) {
    off += (off.empty() ? "" : ",") + std::string(pass);
    std::vector<PassStat> again;
    OPSNN_ASSIGN_OR_RETURN(Graph tried, Pass(before, profile, record, off, &again));
    const size_t now = PeakOf(tried);
    if (now >= peak || (now > limit && std::string_view(pass) != "epilogue_fusion")) continue;
    again.push_back({"peak_limit", 1, 1});
    again.insert(again.begin(), stats->begin(),
                 stats->begin() + 1);  // constant_folding comes before the passes
    *stats = std::move(again);
    tried.decisions.push_back(plan::RefuseEdge(off, "the whole model", "", DType::kF32,
                                               StrFormat("activations would need %zu bytes at once, %zu "
                                                         "without these passes and %.2f times the %zu of the "
                                                         "unfused model are allowed",
                                                         peak, now, options_.peak_limit, parts),
                                               profile));
    return std::optional<Graph>(std::move(tried));
  }
  return std::optional<Graph>();
}

}  // namespace opsnn::graph
