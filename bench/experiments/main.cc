// experiments [--quick] [NAME...]: runs the named ones, or all; --list names them. --quick times every form
// once.
#include <cstdio>
#include <cstring>

#include "base/parallel.h"
#include "bench/experiments/experiment.h"
#include "isa/tier.h"

using namespace opsnn;

int main(int argc, char** argv) {
  std::vector<experiments::Experiment> all;
  for (auto part :
       {experiments::ProductExperiments, experiments::TileExperiments, experiments::ChainExperiments,
        experiments::CallExperiments, experiments::AttentionExperiments, experiments::TableExperiments,
        experiments::AccuracyExperiments}) {
    for (const auto& e : part()) all.push_back(e);
  }
  if (argc == 2 && !std::strcmp(argv[1], "--list")) {
    for (const auto& e : all) std::printf("%-20s %s\n", e.name, e.claim);
    return 0;
  }
  std::vector<const experiments::Experiment*> chosen;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--quick")) {
      experiments::BeQuick();
      continue;
    }
    const size_t before = chosen.size();
    for (const auto& e : all) {
      if (!std::strcmp(e.name, argv[i])) chosen.push_back(&e);
    }
    if (chosen.size() > before) continue;
    std::fprintf(stderr, "experiments: unknown experiment \"%s\"; allowed: those that --list shows\n",
                 argv[i]);
    return 2;
  }
  if (chosen.empty()) {
    for (const auto& e : all) chosen.push_back(&e);
  }
  std::printf("Medians of runs in turns, %d thread(s), %s.\n", NumThreads(), isa::Name(isa::ActiveTier()));
  for (const auto* e : chosen) {
    std::printf("\n## %s\n\n%s\n\n", e->name, e->claim);
    e->run();
    std::fflush(stdout);
  }
  return 0;
}
