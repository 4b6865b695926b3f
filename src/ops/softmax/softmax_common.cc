#include "ops/softmax/softmax_common.h"

#include <algorithm>

#include "kernels/reduce/column_softmax.h"
#include "op/pointwise.h"
#include "vector/canonical_programs.h"
#include "vector/row_template.h"

namespace opsnn::ops {
namespace {

using op::InferContext;
using op::KernelPtr;
using op::PlanContext;

// A scalar is a row of one element.
Result<int> Axis(const std::string& op, const op::Attrs* attrs, int rank) {
  auto axis = NormalizeAxis(op::AttrsOf(attrs).Int("axis", -1), std::max(rank, 1));
  return axis.ok() ? axis : Result<int>(axis.status().WithContext(op + ": attribute axis"));
}

Status InferSoftmax(const op::OpDef& def, InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (x.known_rank) OPSNN_RETURN_IF_ERROR(Axis(def.name, c.attrs, x.dims.rank()).status());
  op::TensorDesc y;
  y.dtype = x.dtype;
  y.dims = x.dims;
  y.known_rank = x.known_rank;
  c.outputs.assign(1, y);
  return OkStatus();
}

Program RowProgram(ComputeType type, bool log) {
  if (type == ComputeType::kF32) return log ? vector::LogSoftmaxProgram() : vector::SoftmaxProgram();
  ProgramBuilder b;  // the same in f64
  const SlotId x = b.Input(type);
  const SlotId d = b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x));
  const SlotId e = b.Unary(StageOp::kExp, d);
  const SlotId sum = b.Unary(StageOp::kRowSum, e);
  b.Output(log ? b.Binary(StageOp::kSub, d, b.Unary(StageOp::kLog, sum))
               : b.Binary(StageOp::kMul, e, b.Unary(StageOp::kReciprocal, sum)));
  return std::move(b).Build();
}

class ColumnKernel : public op::Kernel {
 public:
  explicit ColumnKernel(std::shared_ptr<const kernels::ColumnSoftmaxPlan> plan) : plan_(std::move(plan)) {}
  Status Run(const op::RunArgs& args) const override { return plan_->Run(args.inputs[0], args.outputs[0]); }
  std::string variant() const override { return "column softmax"; }

 private:
  std::shared_ptr<const kernels::ColumnSoftmaxPlan> plan_;
};

// Dims other than `axis`, from the outside in; those of size 1 do not count, adjacent ones merge where both
// tensors allow.
struct OtherDims {
  Dims size, x_stride, y_stride;
};

OtherDims CollectOthers(const TensorView& x, const TensorView& y, int axis) {
  OtherDims o;
  int last_dim = -1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis || x.dims[i] == 1) continue;
    const int n = o.size.rank();
    const bool merges = n > 0 && (last_dim < axis) == (i < axis) &&
                        o.x_stride[n - 1] == x.dims[i] * x.strides[i] &&
                        o.y_stride[n - 1] == y.dims[i] * y.strides[i];
    if (merges) {
      o.size[n - 1] *= x.dims[i];
      o.x_stride[n - 1] = x.strides[i];
      o.y_stride[n - 1] = y.strides[i];
    } else {
      o.size.push_back(x.dims[i]);
      o.x_stride.push_back(x.strides[i]);
      o.y_stride.push_back(y.strides[i]);
    }
    last_dim = i;
  }
  return o;
}

Result<KernelPtr> PlanColumns(const TensorView& x, const TensorView& y, int axis, OtherDims o, bool log) {
  kernels::ColumnSoftmax p;
  p.log = log;
  p.x_dtype = x.dtype;
  p.y_dtype = y.dtype;
  p.rows = x.dims[axis];
  p.x_row_stride = x.strides[axis];
  p.y_row_stride = y.strides[axis];
  const int columns = o.size.rank() - 1;
  p.cols = o.size[columns];
  p.x_col_stride = o.x_stride[columns];
  p.y_col_stride = o.y_stride[columns];
  for (Dims* d : {&o.size, &o.x_stride, &o.y_stride}) d->resize(columns);
  p.outer = o.size;
  p.x_outer_strides = o.x_stride;
  p.y_outer_strides = o.y_stride;
  OPSNN_ASSIGN_OR_RETURN(auto plan, kernels::ColumnSoftmaxPlan::Make(p));
  return KernelPtr(std::make_shared<ColumnKernel>(std::move(plan)));
}

// The same tensor with `axis` last.
TensorView AxisLast(TensorView v, int axis) {
  const int64_t size = v.dims[axis], stride = v.strides[axis];
  v.dims.erase(axis);
  v.strides.erase(axis);
  v.dims.push_back(size);
  v.strides.push_back(stride);
  return v;
}

Result<KernelPtr> PlanSoftmax(const op::OpDef& def, bool log, const PlanContext& c) {
  TensorView x = c.inputs[0]->View(nullptr), y = c.outputs[0].View(nullptr);
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(def.name, c.attrs, x.rank()));
  if (x.rank() == 0) {
    for (TensorView* v : {&x, &y}) {
      v->dims = {1};
      v->strides = {1};
    }
  }
  bool innermost = true;
  for (int i = axis + 1; i < x.rank(); ++i) innermost = innermost && x.dims[i] == 1;
  const OtherDims others = CollectOthers(x, y, axis);
  if (!innermost && x.size() > 0) return PlanColumns(x, y, axis, others, log);
  const bool in_registers = x.dtype == DType::kF32 && y.dtype == DType::kF32 && x.strides[axis] == 1 &&
                            y.strides[axis] == 1 && x.dims[axis] <= vector::LongestShortRow();
  return op::MakeProgramKernel(RowProgram(ComputeTypeOf(x.dtype), log), AxisLast(y, axis).dims,
                               {{0, AxisLast(x, axis)}}, {{0, AxisLast(y, axis)}}, 1,
                               in_registers ? "row program, rows in registers" : "row program");
}

}  // namespace

void DefineSoftmax(op::OpDef& def, bool log) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](InferContext& c) { return InferSoftmax(*self, c); };
  def.plan = [self, log](const PlanContext& c) { return PlanSoftmax(*self, log, c); };
}

}  // namespace opsnn::ops
