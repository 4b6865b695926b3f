// BenchCall: one operator call planned once, for benchmarks of operators.
//
//   static void BM_Add(benchmark::State& state) { BenchCall("Add").In({1024, 1024}).In({1024,
//   1024}).Measure(state); }
//
// Reports bytes read and written once each. Operands hold values in (-1, 1).
#ifndef OPSNN_OP_OP_BENCH_H_
#define OPSNN_OP_OP_BENCH_H_

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "op/operator.h"
#include "testing/testing.h"

namespace opsnn::op {

class BenchCall {
 public:
  explicit BenchCall(const char* op) : def_(FindOperator(op)) {}

  BenchCall& In(const Dims& dims, DType dtype = DType::kF32) {
    auto t = std::make_shared<HostTensor>(dtype, dims);
    testing::Rng rng(1);
    char* p = static_cast<char*>(t->data());
    for (int64_t i = 0; i < t->size(); ++i) {
      testing::WriteElement(p + i * static_cast<int64_t>(SizeOf(dtype)), dtype, rng.Real(-1, 1));
    }
    TensorDesc d;
    d.dtype = dtype;
    d.dims = dims;
    return Push(d, std::move(t));
  }
  BenchCall& In(const ConstTensor& c) {
    TensorDesc d;
    d.dtype = c->dtype();
    d.dims = c->dims();
    d.constant = c;
    return Push(d, c);
  }
  BenchCall& Attr(std::string name, AttrValue v) {
    attrs_.Set(std::move(name), std::move(v));
    return *this;
  }

  void Measure(benchmark::State& state) {
    std::vector<const TensorDesc*> pointers;
    for (const auto& d : descs_) pointers.push_back(d.get());
    InferContext c;
    c.inputs = pointers;
    c.attrs = &attrs_;
    Require(Infer(*def_, c));
    PlanContext p;
    p.inputs = pointers;
    p.outputs = c.outputs;
    p.attrs = &attrs_;
    auto kernel = Plan(*def_, p);
    Require(kernel.status());
    int64_t bytes = 0;
    std::vector<AlignedBuffer> outputs;
    std::vector<void*> in, out;
    for (const auto& t : tensors_) bytes += static_cast<int64_t>(t->bytes()), in.push_back(t->data());
    for (const TensorDesc& y : c.outputs) {
      outputs.emplace_back(static_cast<size_t>(NumElements(y.dims)) * SizeOf(y.dtype));
      bytes += static_cast<int64_t>(outputs.back().bytes());
      out.push_back(outputs.back().data());
    }
    AlignedBuffer workspace((*kernel)->workspace_bytes());
    const RunArgs args = {in.data(), out.data(), workspace.data()};
    Require((*kernel)->Run(args));
    for (auto _ : state) {
      if (!(*kernel)->Run(args).ok()) state.SkipWithError("run failed");
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
    state.SetLabel((*kernel)->variant());
  }

 private:
  static void Require(const Status& s) {
    if (s.ok()) return;
    std::fprintf(stderr, "%s\n", s.message().c_str());
    std::exit(1);
  }
  BenchCall& Push(const TensorDesc& d, ConstTensor t) {
    descs_.push_back(std::make_unique<TensorDesc>(d));
    tensors_.push_back(std::move(t));
    return *this;
  }

  const OpDef* def_;
  Attrs attrs_;
  std::vector<std::unique_ptr<TensorDesc>> descs_;
  std::vector<ConstTensor> tensors_;
};

}  // namespace opsnn::op

#endif  // OPSNN_OP_OP_BENCH_H_
