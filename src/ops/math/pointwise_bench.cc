// Pointwise operators as callers run them: overhead of a small call, and rates beside a copy of the same
// size.
#include "op/op_bench.h"

namespace opsnn::op {
namespace {

void BM_CopyCast(benchmark::State& state) {
  BenchCall("Cast").In({state.range(0)}).Attr("to", int64_t{1}).Measure(state);
}
void BM_Add(benchmark::State& state) {
  BenchCall("Add").In({state.range(0)}).In({state.range(0)}).Measure(state);
}
void BM_AddRow(benchmark::State& state) {
  BenchCall("Add").In({state.range(0) / 768, 768}).In({768}).Measure(state);
}
void BM_Gelu(benchmark::State& state) { BenchCall("Gelu").In({state.range(0)}).Measure(state); }
void BM_ReluF16(benchmark::State& state) {
  BenchCall("Relu").In({state.range(0)}, DType::kF16).Measure(state);
}
void BM_Where(benchmark::State& state) {
  const Dims n = {state.range(0)};
  BenchCall("Where").In(n, DType::kBool).In(n).In(n).Measure(state);
}

BENCHMARK(BM_CopyCast)->Arg(64)->Arg(1 << 16)->Arg(16 << 20);
BENCHMARK(BM_Add)->Arg(64)->Arg(1 << 16)->Arg(16 << 20);
BENCHMARK(BM_AddRow)->Arg(768)->Arg(768 << 7);
BENCHMARK(BM_Gelu)->Arg(64)->Arg(1 << 16);
BENCHMARK(BM_ReluF16)->Arg(1 << 16);
BENCHMARK(BM_Where)->Arg(1 << 16);

}  // namespace
}  // namespace opsnn::op
