#include "ops/pooling/pool_op.h"

#include "base/int_math.h"
#include "kernels/pool/bytes.h"
#include "kernels/pool/inside.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/pooling/image_kernel.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

using op::InferContext;
using op::KernelPtr;
using op::PlanContext;
using op::TensorDesc;
using ll = long long;

const char* NameOf(pool::Kind kind, bool global) {
  if (global) return kind == pool::Kind::kMax ? "GlobalMaxPool" : "GlobalAveragePool";
  return kind == pool::Kind::kMax ? "MaxPool" : "AveragePool";
}

Status InferPool(const char* name, InferContext& c) {
  const TensorDesc& x = *c.inputs[0];
  TensorDesc y;
  y.dtype = x.dtype;
  y.known_rank = x.known_rank;
  if (x.known_rank) {
    OPSNN_ASSIGN_OR_RETURN(const PoolWindow w, ResolvePool(name, x.dims, op::AttrsOf(c.attrs)));
    y.dims = w.out;
  }
  c.outputs.assign(static_cast<size_t>(c.num_outputs > 1 ? 2 : 1), y);
  if (c.outputs.size() > 1) c.outputs[1].dtype = DType::kS64;
  return OkStatus();
}

// Height and width first; the depth of 3-D images after them, on planes that were pooled already. The mean
// over a box is the mean over its depth of the means over its slices, as each slice counts the same.
class PoolKernel : public ImageKernel {
 public:
  // p > 0: sums of |x|^p, whose p-th root is the result; kind is kAverage then.
  Status Plan(const char* name, pool::Kind kind, const PlanContext& c, const PoolWindow& window, int64_t p) {
    const TensorDesc& x = *c.inputs[0];
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    // Halves are exact in f32; f64 and integers are computed as they are.
    dtype_ = IsHalf(x.dtype) ? DType::kF32 : x.dtype;
    const bool deep = x.dims.rank() == 5, tall = x.dims.rank() >= 4;
    const int last = x.dims.rank() - 1;
    const op::Window& w = window.plane;
    pool::PoolShape& s = shape_;
    s.kind = kind;
    s.n = x.dims[0], s.c = x.dims[1] * (deep ? x.dims[2] : 1);
    s.h = tall ? x.dims[last - 1] : 1, s.w = x.dims[last];
    s.oh = tall ? window.out[last - 1] : 1, s.ow = window.out[last];
    s.kh = w.kernel[0], s.kw = w.kernel[1], s.sh = w.stride[0], s.sw = w.stride[1];
    s.dh = w.dilation[0], s.dw = w.dilation[1];
    s.pt = w.pad_begin[0], s.pl = w.pad_begin[1], s.pb = w.pad_end[0], s.pr = w.pad_end[1];
    s.include_pad = attrs.Int("count_include_pad", 0) != 0;
    s.sum = p > 0;
    if (deep) {
      PlanDepth(x.dims, window);
      slices_bytes_ = RoundUp(static_cast<size_t>(s.n * s.c * s.oh * s.ow) * SizeOf(dtype_), kAlignment);
    }
    x_size_ = x.View(nullptr).size();
    y_size_ = c.outputs[0].View(nullptr).size();
    if (p > 0) OPSNN_RETURN_IF_ERROR(PlanPowers(p));
    const size_t powers = p > 0 ? static_cast<size_t>(x_size_) * SizeOf(dtype_) : 0;
    OPSNN_RETURN_IF_ERROR(Bind(name, c, dtype_, slices_bytes_ + powers));
    s.x_blocked = x_blocked(), s.y_blocked = y_blocked();
    return OkStatus();
  }
  std::string variant() const override {
    const std::string depth = depth_.planes > 0 ? StrFormat("%lldx", ll{depth_.k}) : "";
    const char* kind = power_ != nullptr ? "Lp" : shape_.kind == pool::Kind::kMax ? "max" : "average";
    return StrFormat("%s pool %s%lldx%lld s%lldx%lld %s", kind, depth.c_str(), ll{shape_.kh}, ll{shape_.kw},
                     ll{shape_.sh}, ll{shape_.sw}, Name(dtype_)) +
           CopyNote();
  }

 private:
  void PlanDepth(const Dims& x, const PoolWindow& window) {
    const PoolWindow::Axis a = window.axis(0);
    depth_ = {x[0] * x[1], x[2],     window.out[2], shape_.oh * shape_.ow,
              a.kernel,    a.stride, a.dilation,    a.pad_begin};
    if (shape_.kind == pool::Kind::kMax) return;
    const int64_t before = shape_.include_pad ? a.pad_begin : 0, after = shape_.include_pad ? a.pad_end : 0;
    for (int64_t o = 0; o < depth_.od; ++o) {
      const auto in = pool::Inside(o * a.stride - a.pad_begin, a.kernel, a.dilation, -before, x[2] + after);
      counts_.push_back(shape_.sum ? 1 : in.end - in.begin);
    }
  }

  // x -> |x|^p and y -> y^(1/p).
  Status PlanPowers(int64_t p) {
    const ComputeType type = ComputeTypeOf(dtype_);
    ProgramBuilder a, b;
    const SlotId x = a.Input(type), y = b.Input(type);
    const SlotId magnitude = a.Unary(StageOp::kAbs, x);
    a.Output(p == 1   ? magnitude
             : p == 2 ? a.Unary(StageOp::kSquare, x)
                      : a.Binary(StageOp::kPow, magnitude, a.Const(static_cast<double>(p), type)));
    b.Output(p == 1   ? b.Unary(StageOp::kCopy, y)
             : p == 2 ? b.Unary(StageOp::kSqrt, y)
                      : b.Binary(StageOp::kPow, y, b.Const(1.0 / static_cast<double>(p), type)));
    OPSNN_ASSIGN_OR_RETURN(power_, vector::Compile(std::move(a).Build()));
    OPSNN_ASSIGN_OR_RETURN(root_, vector::Compile(std::move(b).Build()));
    return OkStatus();
  }

  void Map(const vector::CompiledProgram& program, const void* x, void* y, int64_t n) const {
    const TensorView from = TensorView::Contiguous(const_cast<void*>(x), dtype_, {n});
    const TensorView to = TensorView::Contiguous(y, dtype_, {n});
    vector::RunTensors(program, {&from, 1}, {&to, 1});
  }

  Status Planes(const void* x, void* y) const {
    if (dtype_ == DType::kF32) {
      return pool::RunPool(shape_, static_cast<const float*>(x), static_cast<float*>(y));
    }
    pool::RunPoolAny(shape_, dtype_, x, y);
    return OkStatus();
  }

  Status Compute(const void* x, void* y, void* scratch) const override {
    if (power_ != nullptr) {
      void* powers = static_cast<char*>(scratch) + slices_bytes_;
      Map(*power_, x, powers, x_size_);
      x = powers;
    }
    if (depth_.planes == 0) {
      OPSNN_RETURN_IF_ERROR(Planes(x, y));
    } else {
      OPSNN_RETURN_IF_ERROR(Planes(x, scratch));
      pool::RunDepthPool(depth_, dtype_, counts_.empty() ? nullptr : counts_.data(), scratch, y);
    }
    if (root_ != nullptr) Map(*root_, y, y, y_size_);
    return OkStatus();
  }

  pool::PoolShape shape_;
  pool::DepthShape depth_{.planes = 0};
  std::vector<int64_t> counts_;  // average: slices that each output slice divides by
  DType dtype_ = DType::kF32;
  int64_t x_size_ = 0, y_size_ = 0;
  size_t slices_bytes_ = 0;
  std::shared_ptr<const vector::CompiledProgram> power_, root_;
};

pool::PoolShape PlaneShape(const Dims& x, const PoolWindow& window) {
  const op::Window& w = window.plane;
  pool::PoolShape s;
  s.n = x[0], s.c = x[1], s.h = x[2], s.w = x[3], s.oh = window.out[2], s.ow = window.out[3];
  s.kh = w.kernel[0], s.kw = w.kernel[1], s.sh = w.stride[0], s.sw = w.stride[1];
  s.dh = w.dilation[0], s.dw = w.dilation[1], s.pt = w.pad_begin[0], s.pl = w.pad_begin[1];
  return s;
}

bool InBlocksOfBytes(const TensorDesc& d) {
  return (d.dtype == DType::kU8 || d.dtype == DType::kS8) && d.dims.rank() == 4 && d.IsContiguous() &&
         d.layout == Layout{Format::kNC1HWC0, pool::kByteC0};
}

Result<KernelPtr> PlanPool(const char* name, pool::Kind kind, const PlanContext& c, int64_t p = 0) {
  OPSNN_ASSIGN_OR_RETURN(const PoolWindow w, ResolvePool(name, c.inputs[0]->dims, op::AttrsOf(c.attrs)));
  if (c.outputs.size() > 1) return PlanMaxIndices(c, w);
  if (kind == pool::Kind::kMax && InBlocksOfBytes(*c.inputs[0]) && InBlocksOfBytes(c.outputs[0])) {
    const pool::PoolShape s = PlaneShape(c.inputs[0]->dims, w);
    const bool is_signed = c.inputs[0]->dtype == DType::kS8;
    return MakeKernel("max pool in blocks of bytes", [s, is_signed](const op::RunArgs& args) {
      pool::RunByteMaxPool(s, is_signed, args.inputs[0], args.outputs[0]);
      return OkStatus();
    });
  }
  auto kernel = std::make_shared<PoolKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(name, kind, c, w, p));
  return KernelPtr(std::move(kernel));
}

Status InferGlobal(const char* name, InferContext& c) {
  const TensorDesc& x = *c.inputs[0];
  TensorDesc y;
  y.dtype = x.dtype;
  y.known_rank = x.known_rank;
  if (x.known_rank) {
    if (x.dims.rank() < 3) {
      return InvalidArgument("%s: X has shape %s; allowed: rank 3 or more (N, C, spatial...)", name,
                             ToString(x.dims).c_str());
    }
    y.dims = Dims::Filled(x.dims.rank(), 1);
    y.dims[0] = x.dims[0];
    y.dims[1] = x.dims[1];
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

class GlobalPoolKernel : public ImageKernel {
 public:
  Status Plan(const char* name, pool::Kind kind, const PlanContext& c) {
    kind_ = kind;
    const Dims& d = c.inputs[0]->dims;
    n_ = d[0], c_ = d[1];
    for (int i = 2; i < d.rank(); ++i) pixels_ *= d[i];
    return Bind(name, c, DType::kF32);
  }
  std::string variant() const override {
    return std::string(kind_ == pool::Kind::kMax ? "global max pool" : "global average pool") + CopyNote();
  }

 private:
  Status Compute(const void* x, void* y, void*) const override {
    pool::RunGlobalPool(kind_, n_, c_, pixels_, x_blocked(), y_blocked(), static_cast<const float*>(x),
                        static_cast<float*>(y));
    return OkStatus();
  }
  pool::Kind kind_ = pool::Kind::kMax;
  int64_t n_ = 0, c_ = 0, pixels_ = 1;
};

Result<KernelPtr> PlanGlobal(const char* name, pool::Kind kind, const PlanContext& c) {
  const TensorDesc& x = *c.inputs[0];
  if (x.dtype == DType::kF64) {
    ProgramBuilder b;
    const SlotId in = b.Input(ComputeType::kF64);
    b.Output(b.Unary(kind == pool::Kind::kMax ? StageOp::kRowMax : StageOp::kRowMean, in));
    return op::MakeProgramKernel(std::move(b).Build(), x.dims, {{0, x.View(nullptr)}},
                                 {{0, c.outputs[0].View(nullptr)}}, x.dims.rank() - 2, "row program");
  }
  auto kernel = std::make_shared<GlobalPoolKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(name, kind, c));
  return KernelPtr(std::move(kernel));
}

}  // namespace

void DefinePool(op::OpDef& def, pool::Kind kind) {
  const char* name = NameOf(kind, false);
  def.infer = [name](InferContext& c) { return InferPool(name, c); };
  def.plan = [name, kind](const PlanContext& c) { return PlanPool(name, kind, c); };
}

void DefineLpPool(op::OpDef& def) {
  def.infer = [](InferContext& c) -> Status {
    const int64_t p = op::AttrsOf(c.attrs).Int("p", 2);
    if (p < 1) return InvalidArgument("LpPool: attribute p is %lld; allowed: 1 and above", ll{p});
    return InferPool("LpPool", c);
  };
  def.plan = [](const PlanContext& c) {
    return PlanPool("LpPool", pool::Kind::kAverage, c, op::AttrsOf(c.attrs).Int("p", 2));
  };
}

void DefineGlobalPool(op::OpDef& def, pool::Kind kind) {
  const char* name = NameOf(kind, true);
  def.infer = [name](InferContext& c) { return InferGlobal(name, c); };
  def.plan = [name, kind](const PlanContext& c) { return PlanGlobal(name, kind, c); };
}

}  // namespace opsnn::ops
