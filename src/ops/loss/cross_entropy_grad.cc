#include <cmath>
#include <cstring>

#include "ops/data/data_op.h"
#include "tensor/element.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CrossEntropyGrad";
using ll = long long;

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input logProb", x.dims, 2, 2));
  for (size_t i : {1, 2}) {
    if (NumElements(c.inputs[i]->dims) == x.dims[0]) continue;
    return InvalidArgument("%s: input %s has shape %s; allowed: %lld values, one per row", kOp,
                           i == 1 ? "labels" : "factor", opsnn::ToString(c.inputs[i]->dims).c_str(),
                           ll{x.dims[0]});
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

// All classes as if none were the label, then the labels': rows stay in one pass over memory. What the label
// adds needs e^x - 1, which cancels for a sure class.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  ProgramBuilder b;
  const SlotId in = b.Input(), factor = b.Input();
  b.Output(b.Binary(StageOp::kMul, b.Unary(StageOp::kExp, in), factor));
  OPSNN_ASSIGN_OR_RETURN(const auto program, vector::Compile(std::move(b).Build()));
  const TensorView view = TensorView::Contiguous(nullptr, x.dtype, x.dims);
  const int64_t rows = x.dims[0], classes = x.dims[1], size = static_cast<int64_t>(SizeOf(x.dtype));
  const auto run = [=](const op::RunArgs& args) -> Status {
    const auto* const labels = static_cast<const int64_t*>(args.inputs[1]);
    const auto* const factors = static_cast<const float*>(args.inputs[2]);
    for (int64_t r = 0; r < rows; ++r) {
      if (factors[r] == 0 || (labels[r] >= 0 && labels[r] < classes)) continue;
      return InvalidArgument("%s: label %lld at position %lld; allowed: 0 to %lld", kOp, ll{labels[r]}, ll{r},
                             ll{classes - 1});
    }
    const auto at = [&](void* data, int64_t r, int64_t i) {
      return static_cast<char*>(data) + (r * classes + i) * size;
    };
    std::vector<double> of_label(static_cast<size_t>(rows));  // before dX, which may be logProb
    for (int64_t r = 0; r < rows; ++r) {
      if (factors[r] == 0) continue;
      const double log_prob = ReadElement(at(args.inputs[0], r, labels[r]), view.dtype);
      of_label[static_cast<size_t>(r)] = std::expm1(log_prob) * static_cast<double>(factors[r]);
    }
    TensorView logs = view, dx = view;
    logs.data = args.inputs[0], dx.data = args.outputs[0];
    TensorView scale{args.inputs[2], DType::kF32, {rows, 1}, {1, 0}};
    scale = BroadcastTo(scale, view.dims);
    const TensorView inputs[] = {logs, scale};
    vector::RunTensors(*program, inputs, {&dx, 1});
    for (int64_t r = 0; r < rows; ++r) {
      if (factors[r] == 0) {
        std::memset(at(dx.data, r, 0), 0, static_cast<size_t>(classes * size));
      } else {
        WriteElement(at(dx.data, r, labels[r]), view.dtype, of_label[static_cast<size_t>(r)]);
      }
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("one pass of exponentials, then the labels", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CrossEntropyGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
