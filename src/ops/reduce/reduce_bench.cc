// Reductions along rows and down columns, and softmax and norms along rows and columns; bytes count operands
// and results once.
#include "op/op_bench.h"

namespace opsnn::op {
namespace {

ConstTensor Axes(std::vector<int64_t> axes) {
  return HostTensor::From<int64_t>({static_cast<int64_t>(axes.size())}, axes);
}

void BM_SumRows(benchmark::State& state) {
  BenchCall("ReduceSum").In({2048, 1024}).In(Axes({1})).Measure(state);
}
void BM_SumColumns(benchmark::State& state) {
  BenchCall("ReduceSum").In({2048, 1024}).In(Axes({0})).Measure(state);
}
void BM_MeanMiddle(benchmark::State& state) {
  BenchCall("ReduceMean").In({8, 196, 768}).In(Axes({1})).Measure(state);
}
void BM_MeanSpatial(benchmark::State& state) {
  BenchCall("ReduceMean").In({8, 512, 28, 28}).In(Axes({2, 3})).Measure(state);
}
void BM_MaxColumnsF16(benchmark::State& state) {
  BenchCall("ReduceMax").In({2048, 1024}, DType::kF16).In(Axes({0})).Measure(state);
}
void BM_SoftmaxRows(benchmark::State& state) { BenchCall("Softmax").In({4096, 768}).Measure(state); }
void BM_SoftmaxChannels(benchmark::State& state) {
  BenchCall("Softmax").In({1, 21, 512, 512}).Attr("axis", int64_t{1}).Measure(state);
}
void BM_LayerNorm(benchmark::State& state) {
  BenchCall("LayerNormalization").In({4096, 768}).In({768}).In({768}).Measure(state);
}

BENCHMARK(BM_SumRows);
BENCHMARK(BM_SumColumns);
BENCHMARK(BM_MeanMiddle);
BENCHMARK(BM_MeanSpatial);
BENCHMARK(BM_MaxColumnsF16);
BENCHMARK(BM_SoftmaxRows);
BENCHMARK(BM_SoftmaxChannels);
BENCHMARK(BM_LayerNorm);

}  // namespace
}  // namespace opsnn::op
