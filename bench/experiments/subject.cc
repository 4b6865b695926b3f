#include <cstdio>
#include <cstdlib>
#include <set>

#include "bench/experiments/experiment.h"
#include "bench/peers/turns.h"
#include "device/profile.h"

namespace opsnn::experiments {
namespace {

// An experiment that cannot run has nothing to say about the others either.
template <typename T>
T OrExit(Result<T> r) {
  if (r.ok()) return std::move(r).value();
  std::fprintf(stderr, "experiments: %s\n", r.status().message().c_str());
  std::exit(1);
}

bool quick = false;
std::string models = "models";
constexpr const char* kConversion = "TransData";

}  // namespace

void BeQuick() { quick = true; }
const std::string& ModelFolder() { return models; }
void SetModelFolder(std::string folder) { models = std::move(folder); }

std::vector<double> InTurns(const std::vector<std::function<void()>>& forms, double seconds) {
  const size_t kFewest = quick ? 1 : 5;
  if (quick) seconds = 0;
  std::vector<std::vector<double>> times(forms.size());
  for (const auto& form : forms) form();
  const double end = peers::Now() + seconds;
  while (times[0].size() < kFewest || peers::Now() < end) {
    for (size_t i = 0; i < forms.size(); ++i) {
      const double start = peers::Now();
      forms[i]();
      times[i].push_back(peers::Now() - start);
    }
  }
  std::vector<double> medians;
  for (const auto& t : times) medians.push_back(peers::Median(t));
  return medians;
}

Subject::Subject(graph::GraphMaker& maker, FusionMode mode, const std::string& passes_off)
    : session_(OrExit(graph::Session::Create(maker.graph(), graph::Mode(mode, passes_off)))),
      feeds_(maker.RandomFeeds()) {
  const double start = peers::Now();
  graph::RunResult first = OrExit(session_->Run(feeds_));
  first_call_ = peers::Now() - start;
  prepared_ = first.prepared;
  for (const ConstTensor& t : first.outputs) {
    outputs_.push_back(std::make_shared<HostTensor>(t->dtype(), t->dims()));
    options_.outputs.push_back({t->dtype(), t->dims(), outputs_.back()->as<char>()});
  }
}

int Subject::Conversions() const {
  int count = 0;
  for (const graph::Step& s : prepared_->steps())
    count += s.kernel && prepared_->graph().nodes[s.node].op->name == kConversion;
  return count;
}

int Subject::Intermediates(bool of_conversions) const {
  const graph::Graph& g = prepared_->graph();
  std::set<graph::ValueId> converted;
  for (const graph::Node& n : g.nodes) {
    if (n.op->name != kConversion) continue;
    converted.insert(n.inputs.begin(), n.inputs.end());
    converted.insert(n.outputs.begin(), n.outputs.end());
  }
  int count = 0;
  for (const graph::Step& s : prepared_->steps()) {
    if (!s.kernel) continue;
    for (const graph::ValueId v : g.nodes[s.node].outputs)
      count += v >= 0 && !g.IsOutput(v) && (converted.count(v) > 0) == of_conversions;
  }
  return count;
}

int Subject::Stages() const {
  size_t stages = 0;
  for (const graph::Step& s : prepared_->steps()) {
    const graph::Node& n = prepared_->graph().nodes[s.node];
    if (n.tail) {
      stages += n.tail->program.stages.size();
    } else if (s.kernel) {
      ++stages;  // an operator by itself
    }
  }
  return static_cast<int>(stages);
}

std::string Subject::Tile() const {
  graph::Shapes shapes;
  for (const auto& [name, t] : feeds_) shapes[name] = t->dims();
  const auto decisions = OrExit(session_->Decide(shapes, device::HostProfile()));
  for (const plan::Decision& d : decisions) {
    if (d.retries.empty() || d.retries.back().tile_k <= 1)
      continue;  // rows and pointwise chains have no tile
    const plan::Retry& r = d.retries.back();
    return StrFormat("%lldx%lldx%lld", static_cast<long long>(r.tile_m), static_cast<long long>(r.tile_n),
                     static_cast<long long>(r.tile_k));
  }
  return "";
}

void Subject::Run() { OrExit(session_->Run(feeds_, options_)); }

std::string Mib(int64_t bytes) { return StrFormat("%.2f", static_cast<double>(bytes) / (1 << 20)); }
std::string Ms(double seconds) { return StrFormat(seconds < 1e-4 ? "%.4f" : "%.3f", seconds * 1e3); }

}  // namespace opsnn::experiments
