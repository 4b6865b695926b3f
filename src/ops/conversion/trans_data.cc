#include "kernels/transpose/layout_convert.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

// The layout and, where it differs, the dtype of the output are set by whoever builds the node.
Status Infer(op::InferContext& c) {
  op::TensorDesc y = Desc(c.inputs[0]->dtype, c.inputs[0]->dims);
  y.known_rank = c.inputs[0]->known_rank;
  return SetOutput(c, std::move(y));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  if (x.dims != y.dims) {
    return Errorf(Code::kInternal, "TransData: output has shape %s; allowed: the input's, %s",
                  opsnn::ToString(y.dims).c_str(), opsnn::ToString(x.dims).c_str());
  }
  kernels::LayoutConvertParams p;
  p.src_dtype = x.dtype;
  p.src_layout = x.layout;
  p.dst_dtype = y.dtype;
  p.dst_layout = y.layout;
  p.dims = x.dims;
  const std::string variant = opsnn::ToString(x.layout) + " " + Name(x.dtype) + " to " +
                              opsnn::ToString(y.layout) + " " + Name(y.dtype);
  return Staged(c, MakeKernel(variant, [p](const op::RunArgs& args) {
                  kernels::LayoutConvertParams q = p;
                  q.src = args.inputs[0];
                  q.dst = args.outputs[0];
                  kernels::ConvertLayout(q);
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(TransData) {
  def.infer = Infer;
  def.plan = Plan;
}
