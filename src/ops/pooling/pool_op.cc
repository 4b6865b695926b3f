#include "ops/pooling/pool_op.h"

#include "op/pointwise.h"
#include "op/window.h"
#include "ops/pooling/image_kernel.h"

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

struct PoolCall {
  op::Window window;
  Dims out;
};

Result<PoolCall> Resolve(const char* name, const Dims& x, const op::Attrs& attrs) {
  if (x.rank() == 5) {
    return Errorf(Code::kNotImplemented,
                  "%s: X has shape %s; 3-D pooling is not implemented, 1-D and 2-D are", name,
                  ToString(x).c_str());
  }
  if (x.rank() != 3 && x.rank() != 4) {
    return InvalidArgument("%s: X has shape %s; allowed: rank 3 (N, C, L) or 4 (N, C, H, W)", name,
                           ToString(x).c_str());
  }
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  const int spatial = x.rank() - 2;
  if (static_cast<int>(kernel.size()) != spatial) {
    return InvalidArgument(
        "%s: attribute kernel_shape has %zu values; allowed: %d, one per spatial dimension", name,
        kernel.size(), spatial);
  }
  PoolCall call;
  OPSNN_ASSIGN_OR_RETURN(call.window, op::ReadWindow(name, attrs, Dims(kernel)));
  call.out = Dims{x[0], x[1]};
  for (int axis = 2 - spatial; axis < 2; ++axis) {
    const op::Window& w = call.window;
    if (w.pad_begin[axis] >= w.Extent(axis) || w.pad_end[axis] >= w.Extent(axis)) {
      return InvalidArgument(
          "%s: pads %lld and %lld of spatial dimension %d; allowed: less than %lld, the size of the window",
          name, ll{w.pad_begin[axis]}, ll{w.pad_end[axis]}, axis - (2 - spatial), ll{w.Extent(axis)});
    }
    const int64_t in = x[axis + x.rank() - 2];
    if (in < 0) {
      call.out.push_back(kUnknownDim);
      continue;
    }
    Result<int64_t> out = op::WindowOutput(name, &call.window, axis, in);
    if (!out.ok()) return out.status();
    call.out.push_back(*out);
  }
  return call;
}

Status InferPool(const char* name, InferContext& c) {
  if (c.num_outputs > 1) {
    return Errorf(Code::kNotImplemented, "%s: output Indices is asked for; it is not implemented", name);
  }
  const TensorDesc& x = *c.inputs[0];
  TensorDesc y;
  y.dtype = x.dtype;
  y.known_rank = x.known_rank;
  if (x.known_rank) {
    OPSNN_ASSIGN_OR_RETURN(const PoolCall call, Resolve(name, x.dims, op::AttrsOf(c.attrs)));
    y.dims = call.out;
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

class PoolKernel : public ImageKernel {
 public:
  Status Plan(const char* name, pool::Kind kind, const PlanContext& c) {
    const TensorDesc& x = *c.inputs[0];
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    OPSNN_ASSIGN_OR_RETURN(const PoolCall call, Resolve(name, x.dims, attrs));
    // Halves are exact in f32; f64 and integers are compared as they are.
    dtype_ = IsHalf(x.dtype) ? DType::kF32 : x.dtype;
    OPSNN_RETURN_IF_ERROR(Bind(name, c, dtype_));
    const bool two = x.dims.rank() == 4;
    const int last = x.dims.rank() - 1;
    const op::Window& w = call.window;
    pool::PoolShape& s = shape_;
    s.kind = kind;
    s.n = x.dims[0], s.c = x.dims[1], s.h = two ? x.dims[2] : 1, s.w = x.dims[last];
    s.oh = two ? call.out[2] : 1, s.ow = call.out[last];
    s.kh = w.kernel[0], s.kw = w.kernel[1], s.sh = w.stride[0], s.sw = w.stride[1];
    s.dh = w.dilation[0], s.dw = w.dilation[1];
    s.pt = w.pad_begin[0], s.pl = w.pad_begin[1], s.pb = w.pad_end[0], s.pr = w.pad_end[1];
    s.include_pad = attrs.Int("count_include_pad", 0) != 0;
    s.x_blocked = x_blocked(), s.y_blocked = y_blocked();
    return OkStatus();
  }
  std::string variant() const override {
    return StrFormat("%s pool %lldx%lld s%lldx%lld %s", shape_.kind == pool::Kind::kMax ? "max" : "average",
                     ll{shape_.kh}, ll{shape_.kw}, ll{shape_.sh}, ll{shape_.sw}, Name(dtype_)) +
           CopyNote();
  }

 private:
  void Compute(const void* x, void* y) const override {
    if (dtype_ == DType::kF32) {
      pool::RunPool(shape_, static_cast<const float*>(x), static_cast<float*>(y));
    } else {
      pool::RunMaxPoolAny(shape_, dtype_, x, y);
    }
  }
  pool::PoolShape shape_;
  DType dtype_ = DType::kF32;
};

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
  void Compute(const void* x, void* y) const override {
    pool::RunGlobalPool(kind_, n_, c_, pixels_, x_blocked(), y_blocked(), static_cast<const float*>(x),
                        static_cast<float*>(y));
  }
  pool::Kind kind_ = pool::Kind::kMax;
  int64_t n_ = 0, c_ = 0, pixels_ = 1;
};

template <class K>
Result<KernelPtr> MakeKernel(const char* name, pool::Kind kind, const PlanContext& c) {
  auto kernel = std::make_shared<K>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(name, kind, c));
  return KernelPtr(std::move(kernel));
}

}  // namespace

void DefinePool(op::OpDef& def, pool::Kind kind) {
  const char* name = NameOf(kind, false);
  def.infer = [name](InferContext& c) { return InferPool(name, c); };
  def.plan = [name, kind](const PlanContext& c) { return MakeKernel<PoolKernel>(name, kind, c); };
}

void DefineGlobalPool(op::OpDef& def, pool::Kind kind) {
  const char* name = NameOf(kind, true);
  def.infer = [name](InferContext& c) { return InferGlobal(name, c); };
  def.plan = [name, kind](const PlanContext& c) { return MakeKernel<GlobalPoolKernel>(name, kind, c); };
}

}  // namespace opsnn::ops
