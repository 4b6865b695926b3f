// Planning and running: a convolution call bound to kernels/conv.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "device/profile.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/pair.h"
#include "kernels/transpose/strided_copy.h"
#include "op/pointwise.h"
#include "ops/conv/conv_op.h"
#include "ops/conv/conv_pair.h"
#include "ops/conv/tail.h"
#include "plan/pair.h"
#include "vector/convert.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

using op::KernelPtr;
using op::PlanContext;
using op::RunArgs;
using op::TensorDesc;

// Memory inside the call's workspace.
class WorkspaceLayout {
 public:
  size_t Reserve(size_t bytes) {
    const size_t at = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    bytes_ = at + bytes;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// An operand that the kernels cannot read where it lies: copied to the workspace first, broadcast to `dims`.
struct Staged {
  int input = 0;  // of RunArgs::inputs
  TensorView from, to;
  size_t offset = 0;
};

// A pointer of the epilogue: an input or output of the call, or memory of the workspace.
struct BoundArg {
  enum class Source : uint8_t { kInput, kOutput, kWorkspace } source = Source::kInput;
  size_t index = 0;  // operand, or byte offset
  vector::EpilogueArg arg;
};

// An operand in a half type that the kernels want in f32: converted into the workspace.
struct Widened {
  BoundArg from;
  DType dtype = DType::kF16;
  int64_t count = 0;
  size_t offset = 0;
};

// Weights and bias of one convolution.
struct BoundWeights {
  std::shared_ptr<const void> packed;  // null: packed on every run into the workspace
  size_t packed_offset = 0;
  BoundArg plain, bias;
  bool has_bias = false;
};

// A depthwise convolution whose rows go on to the other while they are in the cache, and the pointwise one
// whose rows it reads there.
struct Front {
  conv::PairPlan pair;
  BoundWeights weights, expand_weights;
  PairActivation activation, expand_activation;
};

// dst[i] = src[i], in f32.
void Widen(DType dtype, const void* src, int64_t count, float* dst) {
  constexpr int64_t kPiece = int64_t{64} << 10;
  ParallelFor((count + kPiece - 1) / kPiece, [&](int64_t i, int) {
    const char* from = static_cast<const char*>(src) + i * kPiece * static_cast<int64_t>(SizeOf(dtype));
    vector::LoadConvert(dtype, from, 1, ComputeType::kF32, dst + i * kPiece,
                        std::min(kPiece, count - i * kPiece));
  });
}

bool IsBlocked(const TensorDesc& d) { return d.layout.format == Format::kNC1HWC0; }

class ConvKernel : public op::Kernel {
 public:
  Status Plan(const char* name, bool transposed, const PlanContext& c);
  Status PlanPair(const PlanContext& c);
  Status Run(const RunArgs& args) const override;
  size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string variant() const override;

 private:
  Status CheckLayouts(const char* name, const PlanContext& c) const;
  Status MakeShape(const char* name, bool transposed, const PlanContext& c);
  Status MakePair(const PlanContext& c);
  Status PlanRest(const char* name, const PlanContext& c);
  Status PlanTail(const char* name, const PlanContext& c);
  void PlanOutputs(const PlanContext& c);
  // Inputs `weights` and `bias` of the call, the latter where it is given.
  BoundWeights PlanWeights(const PlanContext& c, const conv::ConvPlan& plan, size_t weights, size_t bias);
  static void BindWeights(const BoundWeights& w, const RunArgs& args, conv::ConvArgs* a);
  void RunFront(const RunArgs& args, const conv::ConvArgs& second) const;
  // Stages operand `input` unless it is contiguous; returns where to read it.
  BoundArg Stage(const TensorDesc& d, int input, const Dims& dims);
  // Stages it in f32.
  BoundArg StageFloats(const TensorDesc& d, int input);
  static char* Pointer(const BoundArg& b, const RunArgs& args);

  conv::ConvPlan plan_;
  std::unique_ptr<const Front> front_;
  BoundWeights weights_;
  BoundArg x_, residual_, y_;
  bool has_residual_ = false, has_y_ = true;
  ConvTail tail_;
  std::vector<BoundArg> tail_args_;
  std::vector<Staged> staged_;
  std::vector<Widened> widened_;
  bool copy_out_ = false;  // Y is a view with gaps: computed in the workspace, then copied
  TensorView out_view_;
  size_t out_offset_ = 0;
  WorkspaceLayout workspace_;
};

BoundArg ConvKernel::Stage(const TensorDesc& d, int input, const Dims& dims) {
  BoundArg b;
  b.index = static_cast<size_t>(input);
  if (d.IsContiguous() && (IsBlocked(d) || d.dims == dims)) return b;
  Staged s;
  s.input = input;
  s.from = BroadcastTo(d.View(nullptr), dims);
  s.to = TensorView::Contiguous(nullptr, d.dtype, dims);
  s.offset = workspace_.Reserve(s.to.bytes());
  b.source = BoundArg::Source::kWorkspace;
  b.index = s.offset;
  staged_.push_back(s);
  return b;
}

BoundArg ConvKernel::StageFloats(const TensorDesc& d, int input) {
  const BoundArg b = Stage(d, input, d.dims);
  if (d.dtype == DType::kF32) return b;
  const int64_t count = NumElements(d.dims);
  const size_t offset = workspace_.Reserve(static_cast<size_t>(count) * sizeof(float));
  widened_.push_back({b, d.dtype, count, offset});
  return {BoundArg::Source::kWorkspace, offset, {}};
}

Status ConvKernel::MakeShape(const char* name, bool transposed, const PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(conv::ConvShape s,
                         ShapeOfCall(name, transposed, c.inputs[0]->dims, c.inputs[1]->dims, attrs));
  s.x_blocked = IsBlocked(*c.inputs[0]);
  s.x_dtype = c.inputs[0]->dtype;
  s.y_blocked = IsBlocked(c.outputs[0]);
  s.winograd = static_cast<int>(attrs.Int("winograd", 0));
  plan_ = conv::PlanConv(s);
  workspace_.Reserve(plan_.workspace_bytes);
  return OkStatus();
}

Status ConvKernel::MakePair(const PlanContext& c) {
  auto front = std::make_unique<Front>();
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const TensorDesc* const w0 = c.inputs.size() > kPairW0 ? c.inputs[kPairW0] : nullptr;
  OPSNN_ASSIGN_OR_RETURN(PairShapes s,
                         PairShapesOf(c.inputs[kPairX]->dims, c.inputs[kPairW]->dims, c.inputs[kPairW2]->dims,
                                      w0 ? &w0->dims : nullptr, attrs));
  (s.expand ? *s.expand : s.first).x_blocked = IsBlocked(*c.inputs[kPairX]);
  s.second.y_blocked = IsBlocked(c.outputs[0]);
  // Whether the caches have room is the graph's question; the call runs either way.
  const plan::PairRoom room = plan::RoomOfPair(device::HostProfileUnmeasured(), ThreadsAvailable());
  constexpr int64_t kAny = int64_t{1} << 62;
  if (const char* refusal = conv::PairRefusal(s.views(), {room.strip_bytes, kAny, kAny}))
    return Errorf(Code::kNotImplemented, "%s: %s", kConvPair, refusal);
  front->pair = conv::PlanPair(s.views(), {room.strip_bytes, room.expanded_bytes, kAny});
  front->activation = PairActivation::Of(attrs, "activation");
  plan_ = front->pair.second;
  workspace_.Reserve(front->pair.workspace_bytes);
  front->weights = PlanWeights(c, front->pair.first, kPairW, kPairB);
  weights_ = PlanWeights(c, plan_, kPairW2, kPairB2);
  if (s.expand) {
    front->expand_activation = PairActivation::Of(attrs, "expand_activation");
    front->expand_weights = PlanWeights(c, *front->pair.expand, kPairW0, kPairB0);
  }
  front_ = std::move(front);
  return OkStatus();
}

// Packed once per constant and packing; the key names everything that the packed order depends on.
BoundWeights ConvKernel::PlanWeights(const PlanContext& c, const conv::ConvPlan& plan, size_t weights,
                                     size_t bias) {
  const TensorDesc& w = *c.inputs[weights];
  const size_t bytes = static_cast<size_t>(plan.packed_floats) * sizeof(float);
  BoundWeights b;
  if (c.inputs.size() > bias && c.inputs[bias]) {
    b.has_bias = true;
    b.bias = StageFloats(*c.inputs[bias], static_cast<int>(bias));
  }
  const auto at_run_time = [&] {
    b.packed_offset = workspace_.Reserve(bytes);
    b.plain = StageFloats(w, static_cast<int>(weights));
    return b;
  };
  if (c.packs == nullptr || w.constant == nullptr) return at_run_time();
  b.packed = c.packs->GetOrMake(w.constant, conv::PackKey(plan), [&]() -> std::shared_ptr<const void> {
    auto buffer = std::make_shared<AlignedBuffer>(std::max(bytes, sizeof(float)));
    if (!*buffer) return nullptr;
    if (w.dtype == DType::kF32) {
      conv::PackWeights(plan, w.constant->as<float>(), buffer->as<float>());
    } else {
      const int64_t count = w.constant->size();
      const AlignedBuffer floats(static_cast<size_t>(std::max<int64_t>(1, count)) * sizeof(float));
      if (!floats) return nullptr;
      Widen(w.dtype, w.constant->data(), count, floats.as<float>());
      conv::PackWeights(plan, floats.as<float>(), buffer->as<float>());
    }
    return {buffer, buffer->data()};
  });
  return b.packed ? b : at_run_time();
}

void ConvKernel::BindWeights(const BoundWeights& w, const RunArgs& args, conv::ConvArgs* a) {
  if (w.packed) {
    a->weights = static_cast<const float*>(w.packed.get());
  } else {
    a->plain_weights = reinterpret_cast<const float*>(Pointer(w.plain, args));
    a->packing = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + w.packed_offset);
  }
  if (w.has_bias) a->epilogue.bias = reinterpret_cast<const float*>(Pointer(w.bias, args));
}

Status ConvKernel::PlanTail(const char* name, const PlanContext& c) {
  const Dims& out = c.outputs[0].dims;
  const Program& program = c.tail->program;
  std::vector<bool> residual_ok(static_cast<size_t>(program.num_inputs));
  for (size_t i = 0; i < c.tail_inputs.size(); ++i) {
    const TensorDesc& d = *c.tail_inputs[i];
    residual_ok[i + 1] =
        d.dtype == DType::kF32 && plan_.shape.y_blocked && IsBlocked(d) && d.dims == out && d.IsContiguous();
  }
  OPSNN_ASSIGN_OR_RETURN(tail_, CutTail(program, residual_ok));
  const int first = static_cast<int>(c.inputs.size());
  if (tail_.residual > 0) {
    has_residual_ = true;
    residual_.index = static_cast<size_t>(first + tail_.residual - 1);
  }
  for (int i : tail_.rest_inputs) {
    const TensorDesc& d = *c.tail_inputs[static_cast<size_t>(i - 1)];
    const TailShape shape = ShapeOf(d, out);
    if (IsBlocked(d) && (shape == TailShape::kOther || d.layout.c0 != conv::kC0)) {
      return Errorf(Code::kNotImplemented,
                    "%s: fused operand %d has shape %s in layout %s; a fused operand that varies "
                    "along rows or columns alone must be ND",
                    name, i, ToString(d.dims).c_str(), ToString(d.layout).c_str());
    }
    TensorDesc read = d;  // as staged: contiguous, and with full rows where it varies along them
    if (shape == TailShape::kOther) {
      Dims full = Dims::Filled(out.rank(), 1);
      for (int k = 0; k < d.dims.rank(); ++k) full[out.rank() - d.dims.rank() + k] = d.dims[k];
      for (int k = 2; k < out.rank(); ++k) full[k] = out[k];
      read.dims = full;
    }
    BoundArg b = Stage(d, first + i - 1, read.dims);
    b.arg = ArgFor(read, out);
    tail_args_.push_back(b);
  }
  return OkStatus();
}

// Where the kernel's f32 result goes and what the rest of the tail writes.
void ConvKernel::PlanOutputs(const PlanContext& c) {
  const TensorDesc& y = c.outputs[0];
  y_.source = BoundArg::Source::kOutput;
  if (c.outputs.size() == 1 && y.dtype == DType::kF32) {
    if (!y.IsContiguous()) {
      copy_out_ = true;
      out_view_ = y.View(nullptr);
      out_offset_ = workspace_.Reserve(TensorView::Contiguous(nullptr, y.dtype, y.dims).bytes());
      y_ = {BoundArg::Source::kWorkspace, out_offset_, {}};
    }
    if (tail_.rest) {  // in place on the blocked result, before any conversion to NCHW
      BoundArg b = y_;
      if (!plan_.shape.y_blocked) {
        b = {BoundArg::Source::kWorkspace, static_cast<size_t>(plan_.y_offset) * sizeof(float), {}};
      }
      TensorDesc blocked = y;
      blocked.layout = {Format::kNC1HWC0, conv::kC0};
      b.arg = ArgFor(blocked, y.dims);
      tail_args_.push_back(b);
    }
    return;
  }
  if (plan_.shape.y_blocked) {
    const Layout layout{Format::kNC1HWC0, conv::kC0};
    y_ = {BoundArg::Source::kWorkspace,
          workspace_.Reserve(static_cast<size_t>(StoredElements(y.dims, layout)) * sizeof(float)),
          {}};
  } else {
    has_y_ = false;  // the workspace's blocked copy is all there is
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    tail_args_.push_back({BoundArg::Source::kOutput, i, ArgFor(c.outputs[i], y.dims)});
  }
}

Status ConvKernel::CheckLayouts(const char* name, const PlanContext& c) const {
  for (const TensorDesc* d : {c.inputs[0], &c.outputs[0]}) {
    const bool good =
        IsBlocked(*d) ? d->layout.c0 == conv::kC0 && d->dims.rank() == 4 : d->layout.format != Format::kNHWC;
    if (!good) {
      return Errorf(Code::kNotImplemented,
                    "%s: layout %s of shape %s; implemented: ND, and NC1HWC0:16 for rank 4", name,
                    ToString(d->layout).c_str(), ToString(d->dims).c_str());
    }
  }
  if ((IsBlocked(*c.inputs[0]) && c.inputs[0]->dtype != DType::kF32) ||
      (!c.outputs[0].IsContiguous() && c.outputs[0].dtype != DType::kF32)) {
    return Errorf(Code::kNotImplemented,
                  "%s: dtype %s; implemented for blocked inputs and strided outputs: f32", name,
                  Name(c.inputs[0]->dtype));
  }
  return OkStatus();
}

Status ConvKernel::Plan(const char* name, bool transposed, const PlanContext& c) {
  OPSNN_RETURN_IF_ERROR(CheckLayouts(name, c));
  OPSNN_RETURN_IF_ERROR(MakeShape(name, transposed, c));
  weights_ = PlanWeights(c, plan_, 1, 2);
  return PlanRest(name, c);
}

Status ConvKernel::PlanPair(const PlanContext& c) {
  OPSNN_RETURN_IF_ERROR(CheckLayouts(kConvPair, c));
  OPSNN_RETURN_IF_ERROR(MakePair(c));
  return PlanRest(kConvPair, c);
}

Status ConvKernel::PlanRest(const char* name, const PlanContext& c) {
  x_ = Stage(*c.inputs[0], 0, c.inputs[0]->dims);
  if (c.tail) OPSNN_RETURN_IF_ERROR(PlanTail(name, c));
  if (!tail_.rest && c.outputs[0].dtype != DType::kF32) {  // stored by a program, which rounds
    ProgramBuilder copy;
    copy.Output(copy.Unary(StageOp::kCopy, copy.Input()));
    OPSNN_ASSIGN_OR_RETURN(tail_.rest, vector::Compile(std::move(copy).Build()));
  }
  PlanOutputs(c);
  return OkStatus();
}

char* ConvKernel::Pointer(const BoundArg& b, const RunArgs& args) {
  switch (b.source) {
    case BoundArg::Source::kInput:
      return static_cast<char*>(args.inputs[b.index]);
    case BoundArg::Source::kOutput:
      return static_cast<char*>(args.outputs[b.index]);
    case BoundArg::Source::kWorkspace:
      return static_cast<char*>(args.workspace) + b.index;
  }
  return nullptr;
}

// The convolutions in front, then the one that `second` is of.
void ConvKernel::RunFront(const RunArgs& args, const conv::ConvArgs& second) const {
  conv::PairArgs all;
  all.second = second;
  all.workspace = args.workspace;
  const auto bind = [&](const BoundWeights& weights, const PairActivation& act, conv::ConvArgs* a) {
    BindWeights(weights, args, a);
    a->epilogue.act = act.act;
    std::copy(act.imm, act.imm + 2, a->epilogue.act_imm);
  };
  bind(front_->weights, front_->activation, &all.first);
  if (front_->pair.expand) {
    bind(front_->expand_weights, front_->expand_activation, &all.expand);
    all.expand.x = second.x;
  } else {
    all.first.x = second.x;
  }
  conv::RunPair(front_->pair, all);
}

Status ConvKernel::Run(const RunArgs& args) const {
  char* ws = static_cast<char*>(args.workspace);
  for (Staged s : staged_) {
    s.from.data = args.inputs[s.input];
    s.to.data = ws + s.offset;
    kernels::CopyView(s.from, s.to);
  }
  conv::ConvArgs a;
  a.workspace = ws;
  for (const Widened& w : widened_)
    Widen(w.dtype, Pointer(w.from, args), w.count, reinterpret_cast<float*>(ws + w.offset));
  a.half_x = Pointer(x_, args);
  a.x = plan_.shape.x_dtype == DType::kF32 ? static_cast<const float*>(a.half_x) : nullptr;
  BindWeights(weights_, args, &a);
  if (has_residual_) a.residual = reinterpret_cast<const float*>(Pointer(residual_, args));
  if (has_y_) a.y = reinterpret_cast<float*>(Pointer(y_, args));
  a.epilogue.act = tail_.act;
  std::copy(tail_.act_imm, tail_.act_imm + 2, a.epilogue.act_imm);
  a.affine = tail_.affine;
  a.scale = tail_.scale;
  a.shift = tail_.shift;
  std::vector<vector::EpilogueArg> tail_args;
  if (tail_.rest) {
    tail_args.reserve(tail_args_.size());
    for (const BoundArg& b : tail_args_) {
      tail_args.push_back(b.arg);
      tail_args.back().data = Pointer(b, args);
    }
    a.epilogue.program = tail_.rest.get();
    a.epilogue.args = tail_args;
  }
  const vector::ScratchCheck scratch;
  if (front_) {
    RunFront(args, a);
  } else {
    conv::RunConv(plan_, a);
  }
  OPSNN_RETURN_IF_ERROR(scratch.Check("convolution"));
  if (copy_out_) {
    TensorView to = out_view_;
    to.data = args.outputs[0];
    kernels::CopyView(TensorView::Contiguous(ws + out_offset_, to.dtype, to.dims), to);
  }
  return OkStatus();
}

std::string ConvKernel::variant() const {
  std::string v = front_ ? front_->pair.Describe() : plan_.Describe();
  if (has_residual_) v += ", +residual";
  if (tail_.affine) v += ", +affine";
  if (tail_.rest) v += ", +program";
  if (!weights_.packed) v += ", weights packed at run time";
  if (!plan_.refused.empty()) v += "; not " + plan_.refused;
  return v;
}

}  // namespace

int WinogradTile(const TensorDesc& x, const TensorDesc& w, const op::Attrs& attrs) {
  if (!x.known_rank || !w.known_rank || !IsKnown(x.dims) || !IsKnown(w.dims) || x.dtype != DType::kF32)
    return 0;
  const Result<conv::ConvShape> s = ShapeOfCall("Conv", false, x.dims, w.dims, attrs);
  return s.ok() && s->flat() && !s->im2col ? conv::ChooseWinograd(*s) : 0;
}

Result<KernelPtr> PlanConvolution(const char* name, bool transposed, const PlanContext& c) {
  auto kernel = std::make_shared<ConvKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(name, transposed, c));
  return KernelPtr(std::move(kernel));
}

Result<KernelPtr> PlanConvolutionPair(const PlanContext& c) {
  auto kernel = std::make_shared<ConvKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->PlanPair(c));
  return KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
