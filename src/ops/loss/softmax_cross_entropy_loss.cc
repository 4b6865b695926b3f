#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/loss/nll.h"
#include "ops/norm/axes_norm.h"
#include "vector/canonical_programs.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "SoftmaxCrossEntropyLoss";

Status Infer(op::InferContext& c) {
  const int wanted = c.num_outputs;
  OPSNN_RETURN_IF_ERROR(InferNll(kOp, c));
  if (wanted < 2) return OkStatus();
  const op::TensorDesc& x = *c.inputs[0];
  c.outputs.push_back(x.known_rank ? Desc(x.dtype, x.dims) : UnknownRank(x.dtype));
  return OkStatus();
}

Program LogSoftmax(ComputeType type) {
  if (type == ComputeType::kF32) return vector::LogSoftmaxProgram();
  ProgramBuilder b;  // the same in f64
  const SlotId x = b.Input(type);
  const SlotId d = b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x));
  b.Output(b.Binary(StageOp::kSub, d,
                    b.Unary(StageOp::kLog, b.Unary(StageOp::kRowSum, b.Unary(StageOp::kExp, d)))));
  return std::move(b).Build();
}

// Log-probabilities in f32 or f64 come first, unrounded, in the workspace.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  NllPlan nll = NllPlan::Make(c);
  const ComputeType type = ComputeTypeOf(x.dtype);
  nll.x_dtype = type == ComputeType::kF64 ? DType::kF64 : DType::kF32;
  const TensorView from = AxesLast(TensorView::Contiguous(nullptr, x.dtype, x.dims), {1});
  const TensorView probs = TensorView::Contiguous(nullptr, nll.x_dtype, x.dims);
  const TensorView to = AxesLast(probs, {1});
  OPSNN_ASSIGN_OR_RETURN(
      const op::KernelPtr softmax,
      op::MakeProgramKernel(LogSoftmax(type), to.dims, {{0, from}}, {{0, to}}, 1, "row program"));
  const TensorView log_prob = TensorView::Contiguous(nullptr, x.dtype, x.dims);
  const bool keeps = c.outputs.size() > 1;
  const auto run = [=](const op::RunArgs& args) -> Status {
    void* const out[] = {args.workspace};
    OPSNN_RETURN_IF_ERROR(softmax->Run({args.inputs, out, nullptr}));
    if (keeps && args.outputs[1] != nullptr) {
      TensorView a = probs, b = log_prob;
      a.data = args.workspace;
      b.data = args.outputs[1];
      vector::CopyConvert(a, b);
    }
    return nll.Run(kOp, args.workspace, args.inputs[1], nll.weighted ? args.inputs[2] : nullptr,
                   args.outputs[0]);
  };
  return Staged(c, MakeKernel("log softmax, pick and reduce", run, probs.bytes()));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(SoftmaxCrossEntropyLoss) {
  def.infer = Infer;
  def.plan = Plan;
}
