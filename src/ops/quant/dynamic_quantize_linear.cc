#include <algorithm>
#include <cmath>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  op::TensorDesc y = Desc(DType::kU8, c.inputs[0]->dims);
  y.known_rank = c.inputs[0]->known_rank;
  c.outputs = {y, Desc(DType::kF32, {}), Desc(DType::kU8, {})};
  c.outputs.resize(static_cast<size_t>(std::clamp(c.num_outputs, 1, 3)));
  return OkStatus();
}

class DynamicQuantizeKernel : public op::Kernel {
 public:
  static Result<op::KernelPtr> Make(const op::PlanContext& c) {
    auto k = std::make_shared<DynamicQuantizeKernel>();
    k->size_ = NumElements(c.inputs[0]->dims);
    k->outputs_ = c.outputs.size();
    ProgramBuilder range;
    const SlotId x = range.Input();
    range.Output(range.Unary(StageOp::kRowMin, x));
    range.Output(range.Unary(StageOp::kRowMax, x));
    OPSNN_ASSIGN_OR_RETURN(k->range_, vector::Compile(std::move(range).Build()));
    ProgramBuilder b;
    const SlotId in = b.Input(), scale = b.Input(), zero = b.Input();
    const SlotId q = b.Unary(StageOp::kRound, b.Binary(StageOp::kDiv, in, scale));
    b.Output(b.Unary(StageOp::kClip, b.Binary(StageOp::kAdd, q, zero), 0, 255));
    OPSNN_ASSIGN_OR_RETURN(k->quantize_, vector::Compile(std::move(b).Build()));
    return op::KernelPtr(std::move(k));
  }

  Status Run(const op::RunArgs& args) const override {
    float lo = 0, hi = 0;  // the range always includes 0
    const Dims row = {1, size_};
    const TensorView x = TensorView::Contiguous(args.inputs[0], DType::kF32, row);
    if (size_ > 0) {
      const TensorView bounds[2] = {TensorView::Contiguous(&lo, DType::kF32, {1, 1}),
                                    TensorView::Contiguous(&hi, DType::kF32, {1, 1})};
      vector::RunTensors(*range_, {&x, 1}, bounds, 1);
      lo = std::min(lo, 0.0f);
      hi = std::max(hi, 0.0f);
    }
    float scale = (hi - lo) / 255.0f;
    if (scale == 0) scale = 1;  // all zeros: any scale will do
    float zero = std::clamp(std::nearbyint(-lo / scale), 0.0f, 255.0f);
    if (size_ > 0) {
      TensorView in[3] = {x, TensorView::Contiguous(&scale, DType::kF32, {1, 1}),
                          TensorView::Contiguous(&zero, DType::kF32, {1, 1})};
      for (int i = 1; i < 3; ++i) in[i] = BroadcastTo(in[i], row);
      const TensorView y = TensorView::Contiguous(args.outputs[0], DType::kU8, row);
      vector::RunTensors(*quantize_, in, {&y, 1});
    }
    if (outputs_ > 1 && args.outputs[1] != nullptr) *static_cast<float*>(args.outputs[1]) = scale;
    if (outputs_ > 2 && args.outputs[2] != nullptr) {
      *static_cast<uint8_t*>(args.outputs[2]) = static_cast<uint8_t>(zero == zero ? zero : 0);
    }
    return OkStatus();
  }
  std::string variant() const override { return "range, then a program"; }

 private:
  int64_t size_ = 0;
  size_t outputs_ = 1;
  std::shared_ptr<const vector::CompiledProgram> range_, quantize_;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DynamicQuantizeLinear) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    OPSNN_ASSIGN_OR_RETURN(op::KernelPtr kernel, DynamicQuantizeKernel::Make(c));
    return Staged(c, std::move(kernel));
  };
}
