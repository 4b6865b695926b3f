#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "EyeLike";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const DType t, DTypeAttr(kOp, op::AttrsOf(c.attrs), "dtype", x.dtype));
  if (!x.known_rank) return SetOutput(c, UnknownRank(t));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 2, 2));
  return SetOutput(c, Desc(t, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& y = c.outputs[0];
  const int64_t rows = y.dims[0], cols = y.dims[1], k = op::AttrsOf(c.attrs).Int("k", 0);
  const auto elem = static_cast<int64_t>(SizeOf(y.dtype));
  return Staged(c, MakeKernel("fill and set", [=, dtype = y.dtype](const op::RunArgs& args) {
                  char* out = static_cast<char*>(args.outputs[0]);
                  std::memset(out, 0, static_cast<size_t>(rows * cols * elem));
                  // Rows whose diagonal column i + k lies inside; no k overflows.
                  const int64_t begin = k < 0 ? (k < -rows ? rows : -k) : 0;
                  const int64_t end = k > cols ? 0 : std::min(rows, cols - std::max(k, -rows));
                  for (int64_t i = begin; i < end; ++i)
                    WriteElement(out + (i * cols + i + k) * elem, dtype, 1);
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(EyeLike) {
  def.infer = Infer;
  def.plan = Plan;
}
