// Experiments: claims about fusion, tiling and calls that people repeat, each measured here and printed as a
// Markdown table. Nothing is asserted: a claim that does not hold on this machine shows in the figures.
#ifndef OPSNN_BENCH_EXPERIMENTS_EXPERIMENT_H_
#define OPSNN_BENCH_EXPERIMENTS_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph_tester.h"
#include "graph/session.h"

namespace opsnn::experiments {

struct Experiment {
  const char* name;
  const char* claim;
  void (*run)();
};
std::vector<Experiment> ProductExperiments();
std::vector<Experiment> TileExperiments();
std::vector<Experiment> ChainExperiments();
std::vector<Experiment> CallExperiments();
std::vector<Experiment> AttentionExperiments();
std::vector<Experiment> TableExperiments();
std::vector<Experiment> AccuracyExperiments();
std::vector<Experiment> ImageExperiments();

// Where the models of the demo are: FOLDER/ocr.
const std::string& ModelFolder();
void SetModelFolder(std::string folder);

// From here on every form is run once and timed once: does everything still work?
void BeQuick();

// Median seconds of every form. They run in turns, for about `seconds` in all and at least 5 rounds.
std::vector<double> InTurns(const std::vector<std::function<void()>>& forms, double seconds = 2);

// A graph with its random feeds, prepared in one mode; runs write into the same outputs.
class Subject {
 public:
  Subject(graph::GraphMaker& maker, FusionMode mode, const std::string& passes_off = "");
  void Run();
  double FirstCallSeconds() const { return first_call_; }
  int64_t BytesMoved() const { return prepared_->bytes_moved(); }
  int64_t PeakBytes() const { return static_cast<int64_t>(prepared_->peak_bytes()); }
  int Calls() const { return prepared_->nodes_run(); }
  int Conversions() const;  // of them, of layouts
  // Results of kernels that another kernel reads: what travels through memory, and what can be looked at.
  // Those that a conversion of layouts makes or reads are counted alone.
  int Intermediates(bool of_conversions = false) const;
  int Stages() const;        // of the vector programs in all kernels
  std::string Tile() const;  // "64x512x16" of the first edge that the judge decided, "" where there is none

 private:
  std::unique_ptr<graph::Session> session_;
  graph::Feeds feeds_;
  std::vector<std::shared_ptr<HostTensor>> outputs_;
  graph::RunOptions options_;
  std::shared_ptr<const graph::Prepared> prepared_;
  double first_call_ = 0;
};

// The same graph as it is written, and fused wherever that is legal.
struct Pair {
  explicit Pair(graph::GraphMaker& m) : split(m, FusionMode::kOff), fused(m, FusionMode::kForce) {}
  std::vector<double> Seconds(double seconds = 2) {
    return InTurns({[this] { split.Run(); }, [this] { fused.Run(); }}, seconds);
  }
  Subject split, fused;
};

std::string Mib(int64_t bytes);
std::string Ms(double seconds);

}  // namespace opsnn::experiments

#endif  // OPSNN_BENCH_EXPERIMENTS_EXPERIMENT_H_
