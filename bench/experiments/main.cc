// experiments [NAME...]: measures the named ones, or all; see kUsage.
#include <cstdio>
#include <cstring>

#include "base/parallel.h"
#include "bench/experiments/experiment.h"
#include "isa/tier.h"
#include "testing/testing.h"

using namespace opsnn;

namespace {

constexpr char kUsage[] =
    "usage: experiments [--list] [--quick] [--models FOLDER] [NAME...]\n"
    "Measures claims about fusion, tiles and calls, each a Markdown table: those named, or all.\n"
    "  --list           name them, with their claims\n"
    "  --quick          time every form once\n"
    "  --models FOLDER  where tools/fetch_models.sh put its models (models)\n";

int Wrong(const char* got, const char* allowed) {
  std::fprintf(stderr, "experiments: got \"%s\"; allowed: %s\n", got, allowed);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<experiments::Experiment> all;
  for (auto part :
       {experiments::ProductExperiments, experiments::TileExperiments, experiments::ChainExperiments,
        experiments::CallExperiments, experiments::AttentionExperiments, experiments::TableExperiments,
        experiments::AccuracyExperiments, experiments::ImageExperiments}) {
    for (const auto& e : part()) all.push_back(e);
  }
  std::vector<const experiments::Experiment*> chosen;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* option) { return !std::strcmp(argv[i], option); };
    if (is("--help") || is("-h")) {
      std::printf("%s", kUsage);
      return 0;
    }
    if (is("--list")) {
      for (const auto& e : all) std::printf("%-20s %s\n", e.name, e.claim);
      return 0;
    }
    if (is("--quick")) {
      experiments::BeQuick();
      continue;
    }
    if (is("--models")) {
      if (i + 1 == argc) return Wrong("--models", "a folder behind it");
      experiments::SetModelFolder(argv[++i]);
      continue;
    }
    const size_t before = chosen.size();
    for (const auto& e : all) {
      if (!std::strcmp(e.name, argv[i])) chosen.push_back(&e);
    }
    if (chosen.size() > before) continue;
    return Wrong(argv[i], "--list, --quick, --models FOLDER, --help and the names that --list shows");
  }
  if (chosen.empty()) {
    for (const auto& e : all) chosen.push_back(&e);
  }
  opsnn::testing::TestSeed();  // is printed when it is first asked for: not within a table
  std::printf("Medians of runs in turns, %d thread(s), %s.\n", NumThreads(), isa::Name(isa::ActiveTier()));
  for (const auto* e : chosen) {
    std::printf("\n## %s\n\n%s\n\n", e->name, e->claim);
    e->run();
    std::fflush(stdout);
  }
  return 0;
}
