#include "ops/data/data_op.h"

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "base/int_math.h"

namespace opsnn::ops {
namespace {

class MovesKernel : public op::Kernel {
 public:
  MovesKernel(std::vector<Move> moves, std::string variant)
      : moves_(std::move(moves)), variant_(std::move(variant)) {}

  Status Run(const op::RunArgs& args) const override {
    alignas(8) static constexpr char kZeros[8] = {};
    for (const Move& m : moves_) {
      const char* base = m.from == Move::kZero         ? kZeros
                         : m.from == Move::kFromOutput ? static_cast<const char*>(args.outputs[m.to])
                                                       : static_cast<const char*>(args.inputs[m.from]);
      const char* from = base + m.from_byte;
      char* to = static_cast<char*>(args.outputs[m.to]) + m.to_byte;
      if (from != to) m.plan.Run(from, to);
    }
    return OkStatus();
  }
  std::string variant() const override { return variant_; }

 private:
  std::vector<Move> moves_;
  std::string variant_;
};

class StagedKernel : public op::Kernel {
 public:
  struct Staging {
    int operand;
    kernels::CopyPlan plan;
    size_t at;  // in the workspace
  };
  StagedKernel(op::KernelPtr inner, std::vector<Staging> inputs, std::vector<Staging> outputs,
               size_t num_inputs, size_t num_outputs, size_t staging_bytes)
      : inner_(std::move(inner)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        num_inputs_(num_inputs),
        num_outputs_(num_outputs),
        staging_bytes_(staging_bytes) {}

  Status Run(const op::RunArgs& args) const override {
    char* workspace = static_cast<char*>(args.workspace);
    std::vector<void*> in(args.inputs, args.inputs + num_inputs_),
        out(args.outputs, args.outputs + num_outputs_);
    for (const Staging& s : inputs_) {
      in[s.operand] = workspace + s.at;
      s.plan.Run(args.inputs[s.operand], in[s.operand]);
    }
    for (const Staging& s : outputs_) out[s.operand] = workspace + s.at;
    OPSNN_RETURN_IF_ERROR(inner_->Run({in.data(), out.data(), workspace + staging_bytes_}));
    for (const Staging& s : outputs_) s.plan.Run(out[s.operand], args.outputs[s.operand]);
    return OkStatus();
  }
  size_t workspace_bytes() const override { return staging_bytes_ + inner_->workspace_bytes(); }
  std::string variant() const override { return inner_->variant() + ", strided operands staged"; }

 private:
  op::KernelPtr inner_;
  std::vector<Staging> inputs_, outputs_;
  size_t num_inputs_, num_outputs_, staging_bytes_;
};

}  // namespace

const op::TensorDesc* InputOrNull(op::InputDescs inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

bool IsGiven(op::InputDescs inputs, size_t i) { return InputOrNull(inputs, i) != nullptr; }

std::optional<std::vector<int64_t>> ConstantInts(op::InputDescs inputs, size_t i) {
  const op::TensorDesc* x = InputOrNull(inputs, i);
  if (x == nullptr || x->constant == nullptr) return std::nullopt;
  return ToInts(*x->constant);
}

Result<std::vector<int64_t>> RequireInts(const char* op, const char* argument, op::InputDescs inputs,
                                         size_t i) {
  if (auto v = ConstantInts(inputs, i)) return std::move(*v);
  return InvalidArgument("%s: %s depends on the data; it must be known before running", op, argument);
}

std::string ToString(const std::vector<int64_t>& v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s + "]";
}

Result<int> NormalizeAxisOf(const char* op, const char* argument, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return InvalidArgument("%s: %s is %lld; allowed: [%d, %d]", op, argument, static_cast<long long>(axis),
                         -rank, rank - 1);
}

Result<std::vector<int>> NormalizeAxes(const char* op, const char* argument, const std::vector<int64_t>& axes,
                                       int rank) {
  std::vector<int> out;
  for (const int64_t a : axes) {
    OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(op, argument, a, rank));
    if (std::find(out.begin(), out.end(), axis) != out.end()) {
      return InvalidArgument("%s: %s %s names axis %d twice; allowed: each axis once", op, argument,
                             ToString(axes).c_str(), axis);
    }
    out.push_back(axis);
  }
  return out;
}

Status CheckRank(const char* op, const char* argument, const Dims& dims, int lo, int hi) {
  if (dims.rank() >= lo && dims.rank() <= hi) return OkStatus();
  return InvalidArgument("%s: %s has rank %d (%s); allowed: %d to %d", op, argument, dims.rank(),
                         opsnn::ToString(dims).c_str(), lo, hi);
}

op::TensorDesc Desc(DType dtype, const Dims& dims) {
  op::TensorDesc d;
  d.dtype = dtype;
  d.dims = dims;
  return d;
}

op::TensorDesc UnknownRank(DType dtype) {
  op::TensorDesc d;
  d.dtype = dtype;
  d.known_rank = false;
  return d;
}

Status SetOutput(op::InferContext& c, op::TensorDesc desc) {
  c.outputs.assign(1, std::move(desc));
  return OkStatus();
}

Status CheckMaxRank(const char* op, int64_t rank) {
  if (rank <= kMaxRank) return OkStatus();
  return InvalidArgument("%s: the result has rank %lld; allowed: at most %d", op,
                         static_cast<long long>(rank), kMaxRank);
}

op::KernelPtr MakeMovesKernel(std::vector<Move> moves, std::string variant) {
  if (variant.empty()) variant = moves.empty() ? "empty" : moves.front().plan.variant();
  return std::make_shared<MovesKernel>(std::move(moves), std::move(variant));
}

Box Box::Whole(const Dims& extent) {
  const Dims zeros = Dims::Filled(extent.rank(), 0);
  return {extent, zeros, Dims::Filled(extent.rank(), 1), zeros};
}

Move MoveBox(const TensorView& from, const TensorView& to, const Box& box, int from_operand, int to_operand) {
  Move m;
  m.from = from_operand;
  m.to = to_operand;
  Dims steps = from.strides;
  const auto e = static_cast<int64_t>(SizeOf(to.dtype));
  for (int i = 0; i < steps.rank(); ++i) {
    m.from_byte += box.from_start[i] * from.strides[i] * e;
    m.to_byte += box.to_start[i] * to.strides[i] * e;
    steps[i] *= box.steps[i];
  }
  m.plan = kernels::CopyPlan(static_cast<int>(e), box.extent, steps, to.strides);
  return m;
}

bool IsBlocked(const op::TensorDesc& d) { return d.layout.format == Format::kNC1HWC0 && d.dims.rank() == 4; }

Status CheckSameBlocks(const char* op, const op::TensorDesc& a, const op::TensorDesc& b) {
  if (a.layout == b.layout || (!IsBlocked(a) && !IsBlocked(b))) return OkStatus();
  return Errorf(Code::kInternal, "%s: operands are stored as %s and %s; allowed: the same layout", op,
                opsnn::ToString(a.layout).c_str(), opsnn::ToString(b.layout).c_str());
}

op::KernelPtr Staged(const op::PlanContext& c, op::KernelPtr inner) {
  std::vector<StagedKernel::Staging> in, out;
  size_t bytes = 0;
  const auto stage = [&bytes](const op::TensorDesc& d, int i, bool is_input) {
    const TensorView v = d.View(nullptr);
    const Dims dense = ContiguousStrides(v.dims);
    const int e = static_cast<int>(SizeOf(d.dtype));
    StagedKernel::Staging s = {i,
                               is_input ? kernels::CopyPlan(e, v.dims, v.strides, dense)
                                        : kernels::CopyPlan(e, v.dims, dense, v.strides),
                               bytes};
    bytes += RoundUp(v.bytes(), kAlignment);
    return s;
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i] != nullptr && !c.inputs[i]->View(nullptr).IsContiguous()) {
      in.push_back(stage(*c.inputs[i], static_cast<int>(i), true));
    }
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (!c.outputs[i].View(nullptr).IsContiguous()) {
      out.push_back(stage(c.outputs[i], static_cast<int>(i), false));
    }
  }
  if (in.empty() && out.empty()) return inner;
  return std::make_shared<StagedKernel>(std::move(inner), std::move(in), std::move(out), c.inputs.size(),
                                        c.outputs.size(), bytes);
}

Result<op::KernelPtr> PlanView(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  const TensorView from = x.View(nullptr), to = y.View(nullptr);
  const int e = static_cast<int>(SizeOf(x.dtype));
  // The elements in order, on the sides' own dims: equal dims copy in one go, others need one side
  // contiguous.
  if (from.dims == to.dims) {
    Move m;
    m.plan = kernels::CopyPlan(e, from.dims, from.strides, to.strides);
    return MakeMovesKernel({m}, "view");
  }
  Move m;
  if (from.IsContiguous()) {
    m.plan = kernels::CopyPlan(e, to.dims, ContiguousStrides(to.dims), to.strides);
    return MakeMovesKernel({m}, "view");
  }
  if (to.IsContiguous()) {
    m.plan = kernels::CopyPlan(e, from.dims, from.strides, ContiguousStrides(from.dims));
    return MakeMovesKernel({m}, "view");
  }
  const Dims flat = {x.View(nullptr).size()};
  m.plan = kernels::CopyPlan(e, flat, {1}, {1});
  return Staged(c, MakeMovesKernel({m}, "view"));
}

}  // namespace opsnn::ops
