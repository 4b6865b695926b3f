// The passes of a session for one set of sizes.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "graph/memory_plan.h"
#include "graph/plan_template.h"
#include "graph/session.h"
#include "graph/stopwatch.h"
#include "plan/judge.h"

namespace opsnn::graph {

Result<Graph> Session::Pass(Graph g, const device::DeviceProfile& profile, bool record,
                            const std::string& off, std::vector<PassStat>* stats) const {
  PassContext c;
  c.fusion = options_.fusion;
  c.policy = options_.policy;
  c.profile = &profile;
  c.packs = packs_.get();
  c.record = record;
  c.training = options_.training, c.precision_first = options_.precision_first;
  c.concurrent = options_.concurrent;
  OPSNN_RETURN_IF_ERROR(
      RunPreparePasses(!record && off.empty(), options_.passes_off + "," + off, g, c, stats));
  stats->push_back(c.judge);
  if (!record) g.decisions = {};
  return g;
}

// All passes; those before layouts as they went for the last sizes, if they would do the same again.
Status Session::RunPreparePasses(bool as_before, const std::string& off, Graph& g, PassContext& c,
                                 std::vector<PassStat>* stats) const {
  const std::span<const graph::Pass> all = PreparePasses();
  const auto layout = std::find_if(all.begin(), all.end(),
                                   [](const graph::Pass& p) { return p.name == std::string_view("layout"); });
  const std::span<const graph::Pass> fusing(all.begin(), layout), others(layout, all.end());
  if (!as_before || !PlanTemplate::Serves(g)) return RunPasses(all, off, g, c, stats);
  std::shared_ptr<const PlanTemplate> last;
  {
    const std::lock_guard lock(mutex_);
    last = template_;
  }
  const Stopwatch watch;
  if (const PlanTemplate* found = last ? last->Find(g, c) : nullptr) {
    found->Apply(&g);
    stats->insert(stats->end(), found->stats().begin(), found->stats().end());
    stats->push_back({"plan_template", 1, 1, watch.us()});
    return RunPasses(others, off, g, c, stats);
  }
  auto made = std::make_shared<PlanTemplate>(g, last);
  Questions questions;
  std::vector<PassStat> ran;
  c.questions = &questions;
  OPSNN_RETURN_IF_ERROR(RunPasses(fusing, off, g, c, &ran));
  c.questions = nullptr;
  if (made->Finish(g, std::move(questions), ran)) {
    const std::lock_guard lock(mutex_);
    template_ = std::move(made);
  }
  stats->insert(stats->end(), ran.begin(), ran.end());
  stats->push_back({"plan_template", last != nullptr, 0, 0});
  return RunPasses(others, off, g, c, stats);
}

Result<Graph> Session::WithinPeak(Graph g, const Graph& before, const device::DeviceProfile& profile,
                                  bool record, std::vector<PassStat>* stats) const {
  const size_t peak = PeakOf(g);
  // Layouts and conversions take memory in either form.
  std::vector<PassStat> unasked;
  Graph unfused = before;
  PassContext off_context;
  off_context.fusion = FusionMode::kOff;
  off_context.policy = options_.policy;
  off_context.profile = &profile;
  off_context.packs = packs_.get();
  OPSNN_RETURN_IF_ERROR(RunPasses(PreparePasses(), options_.passes_off, unfused, off_context, &unasked));
  const size_t parts = PeakOf(unfused);
  const auto limit = static_cast<size_t>(options_.peak_limit * static_cast<double>(parts));
  if (peak <= limit) return g;
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
    return tried;
  }
  return g;
}

}  // namespace opsnn::graph
