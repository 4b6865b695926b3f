// Passes over the graph: each in its own file under passes/, with a name by which it can be switched off.
//
// A pass gets the graph in topological order and leaves it valid; the manager sorts again and drops dead
// nodes after each. Matches count places where the pattern was found, effects those that were changed (the
// judge or the rules may have refused the others).
#ifndef OPSNN_GRAPH_PASS_MANAGER_H_
#define OPSNN_GRAPH_PASS_MANAGER_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/knobs.h"
#include "device/profile.h"
#include "graph/ir/graph.h"

namespace opsnn::graph {

struct PassStat {
  std::string name;
  int matches = 0;
  int effects = 0;
  double us = 0;  // all its runs together
};

class Questions;  // plan_template.h

struct PassContext {
  FusionMode fusion = FusionMode::kAuto;
  NumericsPolicy policy = NumericsPolicy::kExcess;
  const device::DeviceProfile* profile = nullptr;  // for the judge; null while loading
  op::PackCache* packs = nullptr;                  // where constants converted to a layout are kept
  bool record = true;  // leave a decision per edge in the graph; planning for a run wants the verdicts alone
  bool training = false, precision_first = false;  // see SessionOptions
  int concurrent = 1;
  Questions* questions = nullptr;  // where set, the judge's verdicts are kept so that they can be asked again
  int matches = 0, effects = 0;    // of the pass that runs
  mutable PassStat judge{"judge"};  // edges asked about, those fused, and the time that took
};

struct Pass {
  const char* name;
  bool is_fusion;     // does not run in FusionMode::kOff
  bool changes_bits;  // rewrites arithmetic: does not run under NumericsPolicy::kExact
  Status (*run)(Graph&, PassContext&);
  // Where set, the pass does nothing in a graph without such a node.
  bool (*starts_at)(const Node&) = nullptr;
};

std::span<const Pass> LoadPasses();     // shape-independent, in the order they run
std::span<const Pass> PreparePasses();  // need concrete shapes
std::vector<std::string> PassNames();   // of both, without duplicates

// Is `name` in the comma-separated list?
bool ListHas(std::string_view list, std::string_view name);
// OK if every name of the list is a pass; else an error that lists the names allowed.
Status CheckPassNames(const std::string& list);

// Runs the passes that are not off. Statistics of passes of the same name add up.
Status RunPasses(std::span<const Pass> passes, const std::string& off, Graph& g, PassContext& c,
                 std::vector<PassStat>* stats);

// For tests of verify: `fault` runs on the graph after every run of the pass, as if the pass had done it. An
// empty name takes it back. Not for use while other threads load or prepare models.
void SetPassFaultForTest(const std::string& pass, std::function<void(Graph&)> fault = nullptr);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PASS_MANAGER_H_
