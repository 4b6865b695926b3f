// What calls cost: interpreted loops, one sample at a time, the first of all.
#include <cstdio>
#include <cstdlib>

#include "bench/experiments/experiment.h"

namespace opsnn::experiments {
namespace {

constexpr char kPythonLoop[] = R"(
import random, time
c, h, w = 4, 112, 112
x = [[[random.random() for _ in range(w)] for _ in range(h)] for _ in range(c)]
start = time.perf_counter()
y = []
for p in x:
    for i in range(56):
        for j in range(56):
            y.append(max(p[r][q] for r in range(max(0, 2*i-1), min(h, 2*i+2)) for q in range(max(0, 2*j-1), min(w, 2*j+2))))
print(time.perf_counter() - start)
)";

// Seconds of the loop in Python; 0 where there is no python3.
double PythonSeconds() {
  const std::string command = "python3 - 2>/dev/null <<'END'\n" + std::string(kPythonLoop) + "END\n";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return 0;
  double seconds = 0;
  if (std::fscanf(pipe, "%lf", &seconds) != 1) seconds = 0;
  pclose(pipe);
  return seconds;
}

void RunPythonLoop() {
  graph::GraphMaker m;
  const std::vector<int64_t> three{3, 3}, two{2, 2}, ones{1, 1, 1, 1};
  m.Out(m.Op("MaxPool", {m.In("x", {1, 4, 112, 112})},
             {{"kernel_shape", three}, {"strides", two}, {"pads", ones}}));
  Subject pool(m, FusionMode::kAuto);
  const double kernel = InTurns({[&] { pool.Run(); }}, 1)[0], python = PythonSeconds();
  if (python == 0) {
    std::printf("python3 is not installed; the kernel takes %s ms.\n", Ms(kernel).c_str());
    return;
  }
  std::printf(
      "| max pool 3x3 s2 of 4x112x112 | ms |\n|---|---|\n| loops in Python | %s |\n| one kernel | %s |\n| "
      "ratio | %.0f |\n",
      Ms(python).c_str(), Ms(kernel).c_str(), python / kernel);
}

graph::GraphMaker Layer(int64_t rows) {
  graph::GraphMaker m;
  m.Out(m.Op("Relu", {m.Op("MatMul", {m.In("x", {rows, 1024}), m.Random({1024, 1024}, -0.05, 0.05)})}));
  return m;
}

void RunPerSample() {
  constexpr int kSamples = 256;
  auto one_maker = Layer(1), all_maker = Layer(kSamples);
  Subject one(one_maker, FusionMode::kForce), all(all_maker, FusionMode::kForce);
  const auto t = InTurns({[&] {
                            for (int i = 0; i < kSamples; ++i) one.Run();
                          },
                          [&] { all.Run(); }});
  std::printf(
      "| 256 samples through a 1024x1024 layer | ms |\n|---|---|\n| one call each | %s |\n| one batch | %s "
      "|\n| ratio | %.1f |\n",
      Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1]);
}

void RunFirstCall() {
  std::printf("| rows | first call of the size, ms | steady | ratio |\n|---|---|---|---|\n");
  for (int64_t rows : {1, 64, 256, 1024}) {
    auto maker = Layer(rows);
    Subject s(maker, FusionMode::kAuto);
    const double steady = InTurns({[&] { s.Run(); }}, 1)[0];
    std::printf("| %lld | %s | %s | %.1f |\n", static_cast<long long>(rows), Ms(s.FirstCallSeconds()).c_str(),
                Ms(steady).c_str(), s.FirstCallSeconds() / steady);
  }
}

}  // namespace

std::vector<Experiment> CallExperiments() {
  return {
      {"python_loop", "A pool written as loops in Python against one kernel.", RunPythonLoop},
      {"per_sample", "A hand-written loop over samples against one batch.", RunPerSample},
      {"first_call",
       "The first call plans and packs the weights; later ones do not. 1024x1024 layer with relu.",
       RunFirstCall},
  };
}

}  // namespace opsnn::experiments
