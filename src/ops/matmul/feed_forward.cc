// Two products in a chain. In blocks of rows each block runs through both, so that what lies between them is
// a buffer that never leaves the caches.
#include <algorithm>
#include <optional>

#include "base/int_math.h"
#include "device/profile.h"
#include "op/advice.h"
#include "op/operator.h"
#include "op/pointwise.h"
#include "ops/matmul/product.h"
#include "ops/matmul/product_kernel.h"
#include "plan/judge.h"

namespace opsnn::ops {
namespace {

using ll = long long;
using op::TensorDesc;

constexpr StageOp kActivations[] = {StageOp::kRelu, StageOp::kGeluErf, StageOp::kGeluTanh,
                                    StageOp::kSilu, StageOp::kSigmoid, StageOp::kTanh};

std::optional<StageOp> ActivationOf(const op::Attrs& attrs) {
  const std::string name = attrs.String("activation", "copy");
  for (StageOp op : kActivations) {
    if (name == Info(op).name) return op;
  }
  return std::nullopt;
}

Status CheckWeight(const char* what, const TensorDesc& w, int64_t rows) {
  if (!w.known_rank) return OkStatus();
  if (w.dims.rank() == 2 && (w.dims[0] < 0 || rows < 0 || w.dims[0] == rows)) return OkStatus();
  return InvalidArgument("FeedForward: %s has shape %s; allowed: [%lld, any]", what, ToString(w.dims).c_str(),
                         ll{rows});
}

Status InferFeedForward(op::InferContext& c) {
  const TensorDesc &x = *c.inputs[0], &w1 = *c.inputs[1], &w2 = *c.inputs[2];
  TensorDesc y;
  y.dtype = x.dtype;
  y.known_rank = x.known_rank;
  if (x.known_rank) {
    if (x.dims.rank() < 2) {
      return InvalidArgument("FeedForward: X has shape %s; allowed: rank 2 and up", ToString(x.dims).c_str());
    }
    y.dims = x.dims;
    OPSNN_RETURN_IF_ERROR(CheckWeight("W1", w1, x.dims.back()));
    OPSNN_RETURN_IF_ERROR(CheckWeight("W2", w2, w1.known_rank ? w1.dims[1] : kUnknownDim));
    y.dims[y.dims.rank() - 1] = w2.known_rank ? w2.dims[1] : kUnknownDim;
    const TensorDesc* b = c.inputs.size() > 3 ? c.inputs[3] : nullptr;
    if (b && b->known_rank && w1.known_rank && b->dims != Dims{w1.dims[1]}) {
      return InvalidArgument("FeedForward: B1 has shape %s; allowed: [%lld]", ToString(b->dims).c_str(),
                             ll{w1.dims[1]});
    }
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

// act(product + B1), the chain between.
std::optional<op::FusedTail> Between(bool bias, std::optional<StageOp> act) {
  if (!bias && !act) return std::nullopt;
  ProgramBuilder b;
  SlotId x = b.Input();
  const SlotId addend = bias ? b.Input() : kNoSlot;
  if (bias) x = b.Binary(StageOp::kAdd, x, addend);
  if (act) x = b.Unary(*act, x);
  b.Output(x);
  return op::FusedTail{std::move(b).Build(), {}};
}

// Products of so few rows sum in another order (gemm.h, kGemv): no block is as short.
constexpr int64_t kLeastRows = 9;

// An operand of the tail: how far it moves with each row.
struct TailOperand {
  TensorDesc block;  // its desc for one block
  int64_t row_bytes = 0;
};

class FeedForward : public op::Kernel {
 public:
  Status Plan(const op::PlanContext& c);
  Status Run(const op::RunArgs& args) const override;
  size_t workspace_bytes() const override { return between_bytes_ + inner_bytes_; }
  std::string variant() const override {
    const std::string how = block_ < m_
                                ? StrFormat("blocks of rows, %lld of %lld at a time", ll{block_}, ll{m_})
                                : std::string("one product behind the other");
    return how + "; " + first_[0]->variant() + "; " + second_[0]->variant();
  }

 private:
  bool Blocks(const op::PlanContext& c);
  void ChooseBlock(const op::PlanContext& c);
  void SetBlock(int64_t rows);
  Status PlanRows(const op::PlanContext& c, int64_t rows, int which);

  int64_t m_ = 1, k_ = 0, hidden_ = 0, n_ = 0, block_ = 0, last_ = 0, size_ = 4;
  std::optional<op::FusedTail> between_;
  std::vector<TailOperand> tail_;
  op::KernelPtr first_[2], second_[2];  // of a block, and of the last where it has other rows
  size_t num_inputs_ = 0, between_bytes_ = 0, inner_bytes_ = 0;
  int64_t x_bytes_ = 0;
  std::vector<int64_t> output_bytes_;
};

// Rows can be told apart where X and Y are contiguous, and the tail's operands as well or the same for all
// rows.
bool FeedForward::Blocks(const op::PlanContext& c) {
  const TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  if (!x.IsContiguous() || !y.IsContiguous()) return false;
  std::vector<TailOperand> tail;
  for (const TensorDesc* d : c.tail_inputs) {
    TailOperand t;
    t.block = *d;
    t.block.constant = nullptr;
    const int64_t elements = NumElements(d->dims);
    const bool per_column = elements == 1 || (elements == d->dims.back() && d->dims.back() == n_);
    if (!per_column && (d->dims != y.dims || !d->IsContiguous())) return false;
    if (!per_column) t.row_bytes = n_ * static_cast<int64_t>(SizeOf(d->dtype));
    tail.push_back(std::move(t));
  }
  tail_ = std::move(tail);
  return true;
}

void FeedForward::ChooseBlock(const op::PlanContext& c) {
  const int64_t rows = op::AttrsOf(c.attrs).Int("rows", 0);
  block_ = last_ = std::max<int64_t>(1, m_);
  if (m_ <= kLeastRows || !Blocks(c)) return;
  if (rows > 0) return SetBlock(rows);
  plan::ChainedEdge e;
  e.m = m_, e.k = k_, e.hidden = hidden_, e.n = n_, e.dtype = c.inputs[0]->dtype;
  e.between = between_ ? &between_->program : nullptr;
  const plan::Decision d = plan::JudgeChained(e, device::HostProfileUnmeasured(), GetKnobs());
  if (d.verdict == plan::Verdict::kFuse) SetBlock(d.regions.front().block);
}

void FeedForward::SetBlock(int64_t rows) {
  block_ = std::clamp(rows, kLeastRows, m_);
  last_ = m_ % block_ == 0 ? block_ : m_ % block_;
  if (last_ < kLeastRows) last_ = std::min(m_, last_ + block_);
}

Status FeedForward::PlanRows(const op::PlanContext& c, int64_t rows, int which) {
  const bool whole = rows == m_;
  const DType t = c.inputs[0]->dtype;
  const auto matrix = [&](int64_t cols) {
    TensorDesc d;
    d.dtype = t;
    d.dims = {rows, cols};
    return d;
  };
  TensorDesc x = whole ? *c.inputs[0] : matrix(k_), y = whole ? c.outputs[0] : matrix(n_),
             h = matrix(hidden_);
  if (whole) {
    h.dims = x.dims;
    h.dims[h.dims.rank() - 1] = hidden_;
  }
  op::PlanContext first = c, second = c;
  const TensorDesc* first_in[] = {&x, c.inputs[1]};
  const TensorDesc* bias[] = {c.inputs.size() > 3 ? c.inputs[3] : nullptr};
  first.inputs = first_in;
  first.outputs = {&h, 1};
  first.attrs = nullptr;
  first.tail = between_ ? &*between_ : nullptr;
  first.tail_inputs = {bias, bias[0] ? size_t{1} : 0};
  OPSNN_ASSIGN_OR_RETURN(first_[which], PlanProduct("FeedForward", first, {}));

  const TensorDesc* second_in[] = {&h, c.inputs[2]};
  std::vector<TensorDesc> blocks;
  std::vector<const TensorDesc*> tail;
  for (const TailOperand& o : tail_) {
    blocks.push_back(o.block);
    if (o.row_bytes == 0) continue;
    blocks.back().dims = {rows, n_};
    blocks.back().strides = Dims();
  }
  for (const TensorDesc& d : blocks) tail.push_back(&d);
  second.inputs = second_in;
  second.outputs = {&y, 1};
  second.attrs = nullptr;
  if (!whole) second.tail_inputs = tail;
  OPSNN_ASSIGN_OR_RETURN(second_[which], PlanProduct("FeedForward", second, {}));
  inner_bytes_ =
      std::max({inner_bytes_, first_[which]->workspace_bytes(), second_[which]->workspace_bytes()});
  return OkStatus();
}

Status FeedForward::Plan(const op::PlanContext& c) {
  const TensorDesc& x = *c.inputs[0];
  k_ = x.dims.back(), hidden_ = c.inputs[1]->dims[1], n_ = c.inputs[2]->dims[1];
  for (int i = 0; i + 1 < x.dims.rank(); ++i) m_ *= x.dims[i];
  size_ = static_cast<int64_t>(SizeOf(x.dtype));
  num_inputs_ = c.inputs.size();
  tail_.resize(c.tail_inputs.size());
  between_ = Between(c.inputs.size() > 3 && c.inputs[3], ActivationOf(op::AttrsOf(c.attrs)));
  ChooseBlock(c);
  OPSNN_RETURN_IF_ERROR(PlanRows(c, m_ == 0 ? 0 : block_, 0));
  if (last_ != block_) OPSNN_RETURN_IF_ERROR(PlanRows(c, last_, 1));
  between_bytes_ = RoundUp(static_cast<size_t>(std::max(block_, last_) * hidden_ * size_), kAlignment);
  const ByteRange read = TouchedBytes(x.View(nullptr)), written = TouchedBytes(c.outputs[0].View(nullptr));
  x_bytes_ = read.end - read.begin;
  output_bytes_ = {written.end - written.begin};
  return OkStatus();
}

Status FeedForward::Run(const op::RunArgs& args) const {
  if (m_ == 0) return OkStatus();
  AliasGuard guard;
  const char* x = static_cast<const char*>(guard.Protect(args.inputs[0], x_bytes_, args, output_bytes_));
  if (!x && x_bytes_ > 0) {
    return Errorf(Code::kRuntime, "FeedForward: no memory for a copy of X, which overlaps the output");
  }
  char* between = static_cast<char*>(args.workspace);
  std::vector<void*> second_in = {between, args.inputs[2]};
  second_in.resize(2 + tail_.size());
  void* bias = num_inputs_ > 3 ? args.inputs[3] : nullptr;
  for (int64_t row = 0; row < m_;) {
    const int which = m_ - row <= last_ && last_ != block_;
    void* first_in[] = {const_cast<char*>(x) + row * k_ * size_, args.inputs[1], bias};
    void* h[] = {between};
    OPSNN_RETURN_IF_ERROR(first_[which]->Run({first_in, h, between + between_bytes_}));
    for (size_t i = 0; i < tail_.size(); ++i) {
      second_in[2 + i] = static_cast<char*>(args.inputs[num_inputs_ + i]) + row * tail_[i].row_bytes;
    }
    void* y[] = {static_cast<char*>(args.outputs[0]) + row * n_ * size_};
    OPSNN_RETURN_IF_ERROR(second_[which]->Run({second_in.data(), y, between + between_bytes_}));
    row += which ? last_ : block_;
  }
  return OkStatus();
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(FeedForward) {
  def.infer = opsnn::ops::InferFeedForward;
  def.plan = [](const opsnn::op::PlanContext& c) -> opsnn::Result<opsnn::op::KernelPtr> {
    auto kernel = std::make_shared<opsnn::ops::FeedForward>();
    OPSNN_RETURN_IF_ERROR(kernel->Plan(c));
    return opsnn::op::KernelPtr(std::move(kernel));
  };
}

OPSNN_DEFINE_ADVICE(FeedForward) {
  advice.steps = [](op::InputDescs in, std::span<const op::TensorDesc* const> out, const op::Attrs& attrs) {
    const auto count = [](const op::TensorDesc& d) { return static_cast<double>(NumElements(d.dims)); };
    const double hidden = in[1]->dims.rank() > 0 ? static_cast<double>(in[1]->dims.back()) : 1;
    const auto between = Between(in.size() > 3 && in[3], ActivationOf(attrs));
    const double width =
        in[0]->dims.rank() > 0 ? static_cast<double>(std::max<int64_t>(1, in[0]->dims.back())) : 1;
    return 2 * hidden * (count(*in[0]) + count(*out[0]))  // X, W1, W2
           + (between ? between->program.CostPerElement() * hidden * count(*in[0]) / width : 0);
  };
}
