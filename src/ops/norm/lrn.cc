#include <algorithm>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/norm/axes_norm.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "LRN";
constexpr int64_t kColumns = 1024;  // of a plane at a time: a running sum that stays in L1

Status Infer(op::InferContext& c) {
  const int64_t size = op::AttrsOf(c.attrs).Int("size", 1);
  if (size < 1) {
    return InvalidArgument("%s: attribute size is %lld; allowed: 1 and above", kOp,
                           static_cast<long long>(size));
  }
  if (c.inputs[0]->known_rank) {
    OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", c.inputs[0]->dims, 2, kMaxRank));
  }
  return InferLikeInput(c);
}

// y = x / (bias + alpha / size * sums)^beta; sums of squares over the window of channels come first, in the
// compute type. Every window is summed anew in channel order: no rounding is carried from window to window.
template <typename T>
class LrnKernel : public op::Kernel {
 public:
  static Result<op::KernelPtr> Make(const op::PlanContext& c, ComputeType type) {
    auto k = std::make_shared<LrnKernel>();
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    k->x_ = c.inputs[0]->View(nullptr);
    k->y_ = c.outputs[0].View(nullptr);
    const DType dtype = type == ComputeType::kF64 ? DType::kF64 : DType::kF32;
    k->copy_ = TensorView::Contiguous(nullptr, dtype, k->x_.dims);
    k->size_ = attrs.Int("size", 1);
    const double scale = attrs.Float("alpha", 1e-4) / static_cast<double>(k->size_);
    ProgramBuilder b;
    const SlotId x = b.Input(type), sums = b.Input(type);
    const SlotId base = b.Unary(StageOp::kAffine, sums, scale, attrs.Float("bias", 1));
    const SlotId power = b.Binary(StageOp::kPow, base, b.Const(attrs.Float("beta", 0.75), type));
    b.Output(b.Binary(StageOp::kDiv, x, power));
    OPSNN_ASSIGN_OR_RETURN(k->program_, vector::Compile(std::move(b).Build()));
    return op::KernelPtr(std::move(k));
  }

  Status Run(const op::RunArgs& args) const override {
    if (x_.size() == 0) return OkStatus();
    TensorView x = x_, y = y_, copy = copy_, sums = copy_;
    x.data = args.inputs[0];
    y.data = args.outputs[0];
    copy.data = args.workspace;
    sums.data = static_cast<T*>(args.workspace) + copy_.size();
    vector::CopyConvert(x, copy);
    SumSquares(copy.as<T>(), sums.as<T>());
    const TensorView in[2] = {copy, sums};
    vector::RunTensors(*program_, in, {&y, 1});
    return OkStatus();
  }
  size_t workspace_bytes() const override { return 2 * copy_.bytes(); }
  std::string variant() const override { return "window sums, then a program"; }

 private:
  void SumSquares(const T* x, T* sums) const {
    const int64_t channels = x_.dims[1], inner = copy_.strides[1];
    const int64_t groups = (inner + kColumns - 1) / kColumns, before = (size_ - 1) / 2;
    ParallelFor(x_.dims[0] * channels * groups, [&](int64_t task, int) {
      const int64_t begin = task % groups * kColumns, width = std::min(kColumns, inner - begin);
      const int64_t c = task / groups % channels, first = task / groups / channels * channels;
      T* to = sums + (first + c) * inner + begin;
      std::fill(to, to + width, T{0});
      for (int64_t k = std::max<int64_t>(0, c - before); k < std::min(channels, c - before + size_); ++k) {
        const T* from = x + (first + k) * inner + begin;
        for (int64_t i = 0; i < width; ++i) to[i] += from[i] * from[i];
      }
    });
  }

  TensorView x_, y_, copy_;
  int64_t size_ = 1;
  std::shared_ptr<const vector::CompiledProgram> program_;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(LRN) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) {
    const ComputeType type = ComputeTypeOf(c.inputs[0]->dtype);
    return type == ComputeType::kF64 ? LrnKernel<double>::Make(c, type) : LrnKernel<float>::Make(c, type);
  };
}
