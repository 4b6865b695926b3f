#include "observe/verify.h"

#include <algorithm>
#include <set>

#include "graph/control.h"
#include "observe/bisect.h"
#include "observe/check.h"
#include "observe/difference.h"

namespace opsnn::observe {
namespace {

using graph::NodeId;

// What failed first, in a form that other runs of the same model can be asked about.
struct Failure {
  std::set<NodeId> origins;  // of the node out of bounds; empty: a result of the model, or a difference
  bool output = false;
};

class Verifier {
 public:
  Verifier(graph::Session& fused, graph::Session& unfused, const graph::Feeds& feeds,
           const VerifyProgress& progress)
      : fused_(fused), unfused_(unfused), feeds_(feeds), progress_(progress) {}

  Result<VerifyReport> Run() {
    OPSNN_ASSIGN_OR_RETURN(plain_, RunForm(unfused_, feeds_));
    OPSNN_ASSIGN_OR_RETURN(Form fused, RunForm(fused_, feeds_));
    descs_ = InferDescs(unfused_.imported(), feeds_, plain_);
    total_ = static_cast<int>(plain_.steps.size() + fused.steps.size());
    CheckUnfused(fused);
    const bool unfused_ok = report_.first_bad.empty();
    CheckFused(fused);
    report_.ok = report_.first_bad.empty() && report_.first_difference.empty();
    // A node that is wrong in the unfused form too is the operator's fault, unless a pass that runs in both
    // forms made it so: the search tells.
    const bool in_fused = unfused_ok && !report_.first_bad.empty();
    if (!report_.ok) {
      graph::Session& failing = in_fused || !report_.first_difference.empty() ? fused_ : unfused_;
      OPSNN_ASSIGN_OR_RETURN(report_.guilty_pass,
                             FindGuiltyPass(failing, [&](graph::Session& s) { return Shows(s); }));
    }
    return std::move(report_);
  }

 private:
  bool Rewrites() const { return fused_.options().policy == NumericsPolicy::kExcess; }
  void Tick() {
    if (progress_) progress_(done_, total_);
    ++done_;
  }

  void Add(std::vector<NodeCheck> checks, const char* form, const std::vector<NodeId>& origins) {
    for (NodeCheck& c : checks) {
      c.op = form + c.op;
      c.checked ? ++report_.nodes : ++report_.unchecked;
      if (!c.ok && report_.first_bad.empty()) {
        report_.first_bad = c.node;
        failure_.origins = {origins.begin(), origins.end()};
        failure_.output = origins.empty();
      }
      if (c.checked && (report_.worst.node.empty() || c.share > report_.worst.share)) report_.worst = c;
      report_.checks.push_back(std::move(c));
    }
  }

  void CheckUnfused(const Form& fused) {
    const graph::Graph& imported = unfused_.imported();
    Recomputer own(imported, plain_.captured, descs_, false), drift(imported, plain_.captured, descs_, false);
    if (Rewrites())
      drift.WatchSums([&fused](const std::string& value) { return fused.captured.count(value) == 0; });
    DifferenceTracker tracker(fused, plain_, fused_.options().policy, drift);
    for (const auto& [node, values] : plain_.steps) {
      Tick();
      if (node->origins.empty()) continue;
      const Status s = Rewrites() ? drift.Evaluate(node->origins, WinogradTile(*node), plain_.OfModel(values))
                                  : OkStatus();
      // One evaluation serves both checks where the differences are the only errors that operands carry.
      if (Rewrites() && !drift.read_folded()) {
        Add(CheckEvaluated(*node, values, plain_, imported, drift, s, true), "", node->origins);
      } else {
        Add(CheckStep(*node, values, plain_, imported, own), "", node->origins);
      }
      // Without a result of its own the tracker compares bit by bit.
      if (s.ok()) tracker.Step(*node, values);
    }
    Add(CheckOutputs(plain_, imported, own), "", {});
    difference_ = tracker.first();
    report_.first_difference = difference_.text;
  }

  void CheckFused(const Form& fused) {
    Recomputer recomputer(fused_.imported(), fused.captured, descs_, Rewrites());
    for (const auto& [node, values] : fused.steps) {
      Tick();
      Add(CheckStep(*node, values, fused, fused_.imported(), recomputer), "fused ", node->origins);
    }
    Add(CheckOutputs(fused, fused_.imported(), recomputer), "fused ", {});
  }

  // Whether `session`, the same model under other passes, fails at the same value as the checked one.
  Result<bool> Shows(graph::Session& session) {
    OPSNN_ASSIGN_OR_RETURN(const Form form, RunForm(session, feeds_));
    const graph::Graph& imported = session.imported();
    if (report_.first_bad.empty()) {
      const auto it = form.captured.find(difference_.value);
      std::string text;
      return it != form.captured.end() &&
             Differs(*it->second, *plain_.captured.at(difference_.value), difference_.allowed, &text);
    }
    Recomputer recomputer(imported, form.captured, descs_, Rewrites());
    auto bad = [](const std::vector<NodeCheck>& checks) {
      return std::any_of(checks.begin(), checks.end(), [](const NodeCheck& c) { return !c.ok; });
    };
    for (const auto& [node, values] : form.steps) {
      const bool part = std::any_of(node->origins.begin(), node->origins.end(),
                                    [&](NodeId id) { return failure_.origins.count(id) > 0; });
      if (part && bad(CheckStep(*node, values, form, imported, recomputer))) return true;
    }
    return failure_.output && bad(CheckOutputs(form, imported, recomputer));
  }

  graph::Session& fused_;
  graph::Session& unfused_;
  const graph::Feeds& feeds_;
  const VerifyProgress& progress_;
  Form plain_;
  Descs descs_;
  Difference difference_;
  Failure failure_;
  VerifyReport report_;
  int done_ = 0, total_ = 0;
};

}  // namespace

Result<VerifyReport> Verify(graph::Session& fused, graph::Session& unfused, const graph::Feeds& feeds,
                            const VerifyProgress& progress) {
  const std::vector<graph::Node>& nodes = fused.imported().nodes;
  if (std::none_of(nodes.begin(), nodes.end(), [](const graph::Node& n) { return graph::BodiesOf(n); }))
    return Verifier(fused, unfused, feeds, progress).Run();
  OPSNN_ASSIGN_OR_RETURN(const graph::Graph g, WithChosenBodies(fused.imported(), feeds));
  OPSNN_ASSIGN_OR_RETURN(const auto chosen, graph::Session::Create(g, fused.options()));
  OPSNN_ASSIGN_OR_RETURN(const auto chosen_unfused, graph::Session::Create(g, unfused.options()));
  return Verifier(*chosen, *chosen_unfused, feeds, progress).Run();
}

}  // namespace opsnn::observe
