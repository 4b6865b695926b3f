#include <cstdio>
#include <cstdlib>

#include "bench/experiments/experiment.h"
#include "bench/peers/turns.h"

namespace opsnn::experiments {
namespace {

// An experiment that cannot run has nothing to say about the others either.
template <typename T>
T OrExit(Result<T> r) {
  if (r.ok()) return std::move(r).value();
  std::fprintf(stderr, "experiments: %s\n", r.status().message().c_str());
  std::exit(1);
}

}  // namespace

std::vector<double> InTurns(const std::vector<std::function<void()>>& forms, double seconds) {
  constexpr size_t kFewest = 5;
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

void Subject::Run() { OrExit(session_->Run(feeds_, options_)); }

std::string Mib(int64_t bytes) { return StrFormat("%.2f", static_cast<double>(bytes) / (1 << 20)); }
std::string Ms(double seconds) { return StrFormat(seconds < 1e-4 ? "%.4f" : "%.3f", seconds * 1e3); }

}  // namespace opsnn::experiments
