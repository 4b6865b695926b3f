#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/loss/nll.h"
#include "ops/norm/axes_norm.h"
#include "vector/canonical_programs.h"
#include "vector/convert.h"
#include "vector/row_template.h"
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

// Nobody asks for the log-probabilities, and classes lie side by side: of each row only the two numbers are
// kept that give the one that counts.
op::KernelPtr PlanRows(const op::PlanContext& c, const NllPlan& nll) {
  const int64_t bytes = nll.classes * static_cast<int64_t>(SizeOf(nll.x_dtype));
  const auto run = [=](const op::RunArgs& args) -> Status {
    auto* const most = static_cast<float*>(args.workspace);
    float* const log_sum = most + nll.batch;
    const auto* const x = static_cast<const char*>(args.inputs[0]);
    constexpr int64_t kTaskBytes = 256 << 10;
    const int64_t rows = std::max<int64_t>(1, kTaskBytes / bytes);
    // With one thread all rows are one task: each row is read while the one before is worked on.
    const int64_t group = ThreadsAvailable() == 1 ? nll.batch : rows;
    ParallelFor(CeilDiv(nll.batch, group), [&](int64_t task, int) {
      const int64_t begin = task * group, count = std::min(group, nll.batch - begin);
      vector::RunLogSums(nll.x_dtype, x + begin * bytes, nll.classes, count, nll.classes, most + begin,
                         log_sum + begin);
    });
    const auto log_prob = [&](int64_t i, int64_t t) -> double {
      float v;
      vector::LoadConvert(nll.x_dtype, x + i * bytes + t * static_cast<int64_t>(SizeOf(nll.x_dtype)), 1,
                          ComputeType::kF32, &v, 1);
      return (v - most[i]) - log_sum[i];
    };
    return nll.Run(kOp, log_prob, args.inputs[1], nll.weighted ? args.inputs[2] : nullptr, args.outputs[0]);
  };
  return Staged(c, MakeKernel("sums of exponentials, pick and reduce", run, 2 * nll.batch * sizeof(float)));
}

// Log-probabilities in f32 or f64 come first, unrounded, in the workspace.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  NllPlan nll = NllPlan::Make(c);
  if (c.outputs.size() == 1 && nll.inner == 1 && nll.batch > 0 && nll.classes > 0 &&
      ComputeTypeOf(x.dtype) == ComputeType::kF32) {
    return PlanRows(c, nll);
  }
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
