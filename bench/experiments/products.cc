// Matrix products and what follows them.
#include <algorithm>
#include <cstdio>

#include "bench/experiments/experiment.h"
#include "kernels/gemm/gemm.h"
#include "opsnn/planner.h"

namespace opsnn::experiments {
namespace {

struct Shape {
  int64_t m, n, k, batch;
};

graph::GraphMaker MatmulRelu(const Shape& s) {
  graph::GraphMaker m;
  const Dims a = s.batch > 1 ? Dims{s.batch, s.m, s.k} : Dims{s.m, s.k};
  const Dims b = s.batch > 1 ? Dims{s.batch, s.k, s.n} : Dims{s.k, s.n};
  m.Out(m.Op("Relu", {m.Op("MatMul", {m.In("a", a), m.In("b", b)})}));
  return m;
}

void PrintShape(const Shape& s) {
  std::printf("| %s%lldx%lldx%lld |", s.batch > 1 ? StrFormat("%lld of ", (long long)s.batch).c_str() : "",
              (long long)s.m, (long long)s.n, (long long)s.k);
}

// One function that holds the product and a loop over its whole result: fused in the source text only.
class TwoLoops {
 public:
  explicit TwoLoops(const Shape& s)
      : a_(DType::kF32, {s.m, s.k}), b_(DType::kF32, {s.k, s.n}), c_(DType::kF32, {s.m, s.n}) {
    testing::Rng rng;
    for (const HostTensor* t : {&a_, &b_}) {
      for (int64_t i = 0; i < t->size(); ++i) t->as<float>()[i] = static_cast<float>(rng.Real(-1, 1));
    }
    p_.m = s.m, p_.n = s.n, p_.k = s.k;
    p_.a = {a_.data(), DType::kF32, s.k, 1, 0};
    p_.b = {b_.data(), DType::kF32, s.n, 1, 0};
    p_.c = c_.as<float>(), p_.c_row_stride = s.n;
  }
  void Run() {
    gemm::Run(p_);
    float* c = c_.as<float>();
    const int64_t size = c_.size();
    for (int64_t i = 0; i < size; ++i) c[i] = std::max(c[i], 0.0f);
  }

 private:
  HostTensor a_, b_, c_;
  gemm::Params p_;
};

void RunTwoLoops() {
  std::printf(
      "| product + relu | two calls, ms | two loops in one function | epilogue in the product | calls / "
      "loops | calls / epilogue |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const Shape& s : {Shape{512, 512, 512, 1}, Shape{1024, 1024, 1024, 1}, Shape{4096, 4096, 64, 1}}) {
    auto maker = MatmulRelu(s);
    Pair pair(maker);
    TwoLoops loops(s);
    const auto t = InTurns({[&] { pair.split.Run(); }, [&] { loops.Run(); }, [&] { pair.fused.Run(); }});
    PrintShape(s);
    std::printf(" %s | %s | %s | %.2f | %.2f |\n", Ms(t[0]).c_str(), Ms(t[1]).c_str(), Ms(t[2]).c_str(),
                t[0] / t[1], t[0] / t[2]);
  }
}

void RunLargeProduct() {
  std::printf(
      "| product + relu | moved apart, MiB | moved fused | apart, ms | fused | apart / fused "
      "|\n|---|---|---|---|---|---|\n");
  const Shape s{4096, 4096, 4096, 1};
  auto maker = MatmulRelu(s);
  Pair pair(maker);
  const auto t = pair.Seconds();
  PrintShape(s);
  std::printf(" %s | %s | %s | %s | %.3f |\n", Mib(pair.split.BytesMoved()).c_str(),
              Mib(pair.fused.BytesMoved()).c_str(), Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1]);
}

void RunManySmall() {
  std::printf("| product + relu | device | apart, us | fused, us | verdict |\n|---|---|---|---|---|\n");
  const Shape s{64, 64, 64, 1024};
  for (const char* profile : {"Ascend910B1", "host"}) {
    const auto d = JudgeMatmul({s.m, s.n, s.k, s.batch, DType::kF32, {"relu"}}, profile);
    PrintShape(s);
    if (!d.ok()) {
      std::printf(" %s | | | %s |\n", profile, d.status().message().c_str());
      continue;
    }
    std::printf(" %s, predicted | %.1f | %.1f | %s |\n", profile, d->time_split_us, d->time_fused_us,
                plan::Name(d->verdict));
  }
  auto maker = MatmulRelu(s);
  Pair pair(maker);
  const auto t = pair.Seconds();
  PrintShape(s);
  std::printf(" host, measured | %.1f | %.1f | %s wins |\n", t[0] * 1e6, t[1] * 1e6,
              t[1] < t[0] ? "fused" : "apart");
}

}  // namespace

std::vector<Experiment> ProductExperiments() {
  return {
      {"two_loops", "Two loops in one function are no faster than two calls; an epilogue is.", RunTwoLoops},
      {"large_product", "A large product with relu saves one round trip through memory.", RunLargeProduct},
      {"many_small", "On an NPU 1,024 products of 64^3 are slower fused; the host goes by measurement.",
       RunManySmall},
  };
}

}  // namespace opsnn::experiments
