#include "ops/signal/window_function.h"

#include <cmath>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

Status InferWindow(const char* name, op::InferContext& c) {
  constexpr int64_t kMost = int64_t{1} << 40;
  OPSNN_ASSIGN_OR_RETURN(const DType t,
                         DTypeAttr(name, op::AttrsOf(c.attrs), "output_datatype", DType::kF32));
  const auto size = ConstantInts(c.inputs, 0);
  if (!size) return SetOutput(c, Desc(t, {kUnknownDim}));
  if (size->size() != 1 || (*size)[0] < 0 || (*size)[0] > kMost) {
    return InvalidArgument("%s: size is %s; allowed: one value from 0 to %lld", name, ToString(*size).c_str(),
                           static_cast<long long>(kMost));
  }
  return SetOutput(c, Desc(t, {(*size)[0]}));
}

}  // namespace

void DefineWindow(op::OpDef& def, double a0, double a1, double a2) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](op::InferContext& c) { return InferWindow(self->name.c_str(), c); };
  def.plan = [=](const op::PlanContext& c) -> Result<op::KernelPtr> {
    const int64_t n = c.outputs[0].dims[0];
    const bool periodic = op::AttrsOf(c.attrs).Int("periodic", 1) != 0;
    const auto elem = static_cast<int64_t>(SizeOf(c.outputs[0].dtype));
    return Staged(c, MakeKernel("cosines", [=, dtype = c.outputs[0].dtype](const op::RunArgs& args) {
                    const double step = 2 * M_PI / static_cast<double>(periodic || n == 1 ? n : n - 1);
                    for (int64_t i = 0; i < n; ++i) {
                      const double x = step * static_cast<double>(i);
                      WriteElement(static_cast<char*>(args.outputs[0]) + i * elem, dtype,
                                   a0 - a1 * std::cos(x) + a2 * std::cos(2 * x));
                    }
                    return OkStatus();
                  }));
  };
}

}  // namespace opsnn::ops
