#include "capi/judge_tail.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/knobs.h"
#include "device/profile.h"

namespace opsnn::capi {
namespace {

// The dims of the product, or none where the call will be refused.
Dims ProductDims(const OpCall& call) {
  const op::TensorDesc* factors[] = {&call.inputs[0].desc, &call.inputs[1].desc};
  op::InferContext c;
  c.inputs = factors;
  c.attrs = &call.attrs;
  if (!op::Infer(*call.op, c).ok() || c.outputs[0].dims != call.outputs[0].desc.dims) return {};
  return c.outputs[0].dims;
}

plan::ContractionEdge EdgeOf(const OpCall& call, const Dims& y) {
  plan::ContractionEdge e;
  const Dims &a = call.inputs[0].desc.dims, &b = call.inputs[1].desc.dims;
  const int64_t total = NumElements(y);
  e.k = a.back();
  e.n = b.rank() >= 2 ? b.back() : 1;
  // One matrix B for all batches is one tall product.
  e.m = b.rank() > 2 && a.rank() >= 2 ? a[a.rank() - 2] : total / std::max<int64_t>(e.n, 1);
  e.batch = e.m > 0 && e.n > 0 ? total / (e.m * e.n) : 1;
  e.dtype = call.inputs[0].desc.dtype;
  e.out_dtype = call.outputs[0].desc.dtype;
  e.tail = &call.tail->program;
  for (size_t i = call.inputs.size() - static_cast<size_t>(call.tail_inputs); i < call.inputs.size(); ++i) {
    const op::TensorDesc& d = call.inputs[i].desc;
    if (d.dims == y) {
      ++e.full_operands;
    } else {
      e.small_operand_bytes += NumElements(d.dims) * static_cast<int64_t>(SizeOf(d.dtype));
    }
  }
  return e;
}

}  // namespace

std::shared_ptr<const plan::Decision> JudgeProduct(const char* api, plan::ContractionEdge e) {
  e.chain = "matmul";
  for (const Stage& s : e.tail->stages) e.chain += std::string("+") + Info(s.op).name;
  e.words = VerboseHas("plan");
  auto d = plan::CachedJudgeContraction(e, device::HostProfileUnmeasured(), GetKnobs());
  if (e.words) {
    std::fprintf(stderr, "judge: %s %s m=%lld n=%lld k=%lld batch=%lld %s: %s, %s\n", api, e.chain.c_str(),
                 static_cast<long long>(e.m), static_cast<long long>(e.n), static_cast<long long>(e.k),
                 static_cast<long long>(e.batch), Name(e.dtype), Name(d->verdict), d->reason.c_str());
  }
  return d;
}

Status JudgeTail(const char* api, OpCall* call) {
  const bool bytes = call->op == op::FindOperator("MatMulInteger");
  if (!call->tail || (call->op != op::FindOperator("MatMul") && !bytes) || call->outputs.size() != 1)
    return OkStatus();
  if (call->inputs.size() != 2 + static_cast<size_t>(call->tail_inputs)) return OkStatus();
  // The kernels of f64 and s32 run the program as a pass of its own anyway.
  const DType t = call->inputs[0].desc.dtype;
  if (t != DType::kF32 && !IsHalf(t) && !bytes) return OkStatus();
  const auto& stages = call->tail->program.stages;
  if (stages.size() == 1 && stages[0].op == StageOp::kCopy) return OkStatus();  // the store alone
  const Dims dims = ProductDims(*call);
  if (dims.empty() || NumElements(dims) == 0) return OkStatus();
  const auto d = JudgeProduct(api, EdgeOf(*call, dims));
  if (plan::Fuses(*d)) {
    if (!d->regions.empty()) {
      call->tail = std::make_shared<op::FusedTail>(op::FusedTail{call->tail->program, d->regions});
    }
    return OkStatus();
  }
  const Operand product = call->Temp(bytes ? DType::kS32 : DType::kF32, dims);
  OpCall first;
  first.op = call->op;
  first.attrs = std::exchange(call->attrs, {});
  first.inputs = {call->inputs[0], call->inputs[1]};
  first.outputs = {product};
  first.converts_output = !bytes;
  call->first.push_back(std::move(first));
  call->op = op::FindOperator("Program");
  call->inputs.erase(call->inputs.begin());
  call->inputs[0] = product;
  call->tail_inputs = 0;
  call->converts_output = false;
  return OkStatus();
}

}  // namespace opsnn::capi
