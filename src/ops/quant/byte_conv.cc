#include "ops/quant/byte_conv.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/conv/bytes/bytes.h"
#include "kernels/gemm/int8_chain.h"
#include "op/pointwise.h"
#include "op/window.h"
#include "ops/data/data_op.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

bool IsByte(DType t) { return t == DType::kU8 || t == DType::kS8; }
bool IsBlocked(const op::TensorDesc& d) { return d.layout.format == Format::kNC1HWC0; }

// What a call is to the kernels, but for packed weights.
class Call {
 public:
  explicit Call(const op::PlanContext& c) : c_(c) {}

  // Null, or why the kernels do not do it.
  const char* Read() {
    if (const char* why = ReadShape()) return why;
    if (const char* why = conv::ByteConvRefusal(shape)) return why;
    return ReadChain();
  }

  conv::ByteConvShape shape;
  conv::ByteRescale rescale;  // without terms

 private:
  const op::TensorDesc& x() const { return *c_.inputs[0]; }
  const op::TensorDesc& w() const { return *c_.inputs[1]; }

  const char* ReadShape() {
    const Dims &xd = x().dims, &wd = w().dims;
    if (xd.rank() != 4 || wd.rank() != 4) return "images of two dims alone are kept in blocks of channels";
    if (!w().constant || w().dtype != DType::kS8) return "its weights are no constant s8";
    const op::TensorDesc *x_zero = InputOrNull(c_.inputs, 2), *w_zero = InputOrNull(c_.inputs, 3);
    if (x_zero && !x_zero->constant) return "a zero point is no constant";
    if (w_zero) {
      if (!w_zero->constant) return "a zero point is no constant";
      for (double z : ToDoubles(*w_zero->constant))
        if (z != 0) return "its weights have a zero point";
    }
    const op::Attrs& attrs = op::AttrsOf(c_.attrs);
    const int64_t groups = attrs.Int("group", 1);
    conv::ByteConvShape& s = shape;
    s.n = xd[0], s.c = xd[1], s.h = xd[2], s.w = xd[3], s.m = wd[0], s.kh = wd[2], s.kw = wd[3];
    s.depthwise = groups > 1 && groups == s.c && wd[1] == 1;
    if (groups != 1 && !s.depthwise) return "its groups have several channels";
    s.x_blocked = s.c > conv::kFewByteChannels || IsBlocked(x());
    s.x_dtype = x().dtype, s.y_dtype = c_.outputs[0].dtype;
    if (!IsByte(s.x_dtype) || !IsByte(s.y_dtype)) return "its result is no image of bytes";
    s.x_zero = x_zero ? static_cast<int32_t>(ToDoubles(*x_zero->constant)[0]) : 0;
    s.oh = c_.outputs[0].dims[2], s.ow = c_.outputs[0].dims[3];
    Dims kernel = {wd[2], wd[3]};
    auto window = op::ReadWindow("ConvInteger", attrs, kernel);
    if (!window.ok()) return "its window is none";
    for (int i = 0; i < 2; ++i) {
      const auto out = op::WindowOutput("ConvInteger", &*window, window->AxisOf(i), xd[2 + i]);
      if (!out.ok()) return "its window is none";
    }
    s.sh = window->stride[0], s.sw = window->stride[1], s.dh = window->dilation[0],
    s.dw = window->dilation[1];
    s.pt = window->pad_begin[0], s.pl = window->pad_begin[1];
    return nullptr;
  }

  // The value of each output channel.
  bool Values(const gemm::Int8Chain::Value& v, std::vector<float>* to) const {
    to->assign(static_cast<size_t>(shape.m), v.constant);
    if (v.arg < 0) return true;
    const ConstTensor& t = c_.tail_inputs[static_cast<size_t>(v.arg)]->constant;
    if (!t || (t->size() != 1 && t->size() != shape.m)) return false;
    for (int64_t m = 0; m < shape.m; ++m)
      (*to)[static_cast<size_t>(m)] = t->as<float>()[t->size() == 1 ? 0 : m];
    return true;
  }

  const char* ReadChain() {
    constexpr const char* kOther = "its chain is no scale, bias, clip and quantising by constants";
    if (!c_.tail || c_.outputs.size() != 1 || c_.tail->program.HasRowReduction()) return kOther;
    const Dims& y = c_.outputs[0].dims;
    std::vector<vector::EpilogueArg> args;
    for (const op::TensorDesc* d : c_.tail_inputs) {
      if (d->dims.rank() > 4 || !d->constant) return kOther;
      const TensorView v = BroadcastTo(TensorView::Contiguous(nullptr, d->dtype, d->dims), y);
      for (const int axis : {0, 2, 3})
        if (v.strides[axis] != 0 && y[axis] > 1) return kOther;
      args.push_back({nullptr, d->dtype, 0, 0, v.strides[1], 0});
    }
    args.push_back({nullptr, c_.outputs[0].dtype, 1, 0, 1, 1});
    const auto program = vector::Compile(c_.tail->program);
    if (!program.ok()) return kOther;
    const auto chain = gemm::MatchInt8Chain(**program, args);
    if (!chain || chain->residual >= 0 || !chain->quantises) return kOther;
    return Take(*chain) ? nullptr : kOther;
  }

  // The bits of the chain: where x / step is rounded without dividing, and clips of x are those of what it
  // becomes, as rounding keeps the order.
  bool Take(const gemm::Int8Chain& chain) {
    std::vector<float> scale, bias;
    if (chain.step.arg >= 0 || !chain.quotient.exact || !Values(chain.scale, &scale) ||
        !Values(chain.bias, &bias))
      return false;
    constexpr float kMost = 0x1p30f, kMostSum = 0x1p31f, kProduct = 255.0f * 128;
    const float step = chain.step.constant, sum = static_cast<float>(shape.depth()) * kProduct;
    if (!(sum < kMostSum)) return false;
    for (size_t m = 0; m < scale.size(); ++m)
      if (!(sum * std::fabs(scale[m]) + std::fabs(bias[m]) < kMost * step)) return false;
    rescale.scale = conv::KernelOrder(shape, scale), rescale.bias = conv::KernelOrder(shape, bias);
    rescale.high = chain.quotient.high, rescale.low = chain.quotient.low;
    rescale.zero = static_cast<int32_t>(chain.zero.constant);
    const auto bound = [&](float clip) {
      const float q = std::nearbyint(clip / step) + chain.zero.constant;
      return static_cast<int32_t>(std::clamp(q, chain.least, chain.most));
    };
    rescale.lo = bound(chain.clip_lo), rescale.hi = bound(chain.clip_hi);
    return true;
  }

  const op::PlanContext& c_;
};

struct Packed {
  std::shared_ptr<const AlignedBuffer> weights;
  std::vector<int32_t> terms;
};

class ByteConvKernel : public op::Kernel {
 public:
  Status Plan(const op::PlanContext& c) {
    Call call(c);
    if (const char* why = call.Read()) return Errorf(Code::kNotImplemented, "ConvInteger in blocks: %s", why);
    shape_ = call.shape, rescale_ = std::move(call.rescale);
    const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
    const bool good = IsBlocked(x) == shape_.x_blocked && IsBlocked(y) && y.layout.c0 == conv::kByteC0 &&
                      (!IsBlocked(x) || x.layout.c0 == conv::kByteC0) && x.IsContiguous() && y.IsContiguous();
    if (!good) {
      return Errorf(Code::kNotImplemented,
                    "ConvInteger: layouts %s and %s; implemented: contiguous NC1HWC0:32 for x (of up to four "
                    "channels: ND) and y",
                    ToString(x.layout).c_str(), ToString(y.layout).c_str());
    }
    return Pack(c);
  }

  Status Run(const op::RunArgs& args) const override {
    const vector::ScratchCheck scratch;
    conv::RunByteConv(shape_, packed_->weights->as<uint8_t>(), rescale_,
                      static_cast<const uint8_t*>(args.inputs[0]), args.workspace,
                      static_cast<uint8_t*>(args.outputs[0]));
    return scratch.Check("convolution of bytes");
  }
  size_t workspace_bytes() const override { return conv::ByteConvWorkspace(shape_); }
  std::string variant() const override {
    return std::string(shape_.depthwise ? "depthwise" : "pixels") +
           " in blocks of bytes, int8 dot products, +requantise";
  }

 private:
  Status Pack(const op::PlanContext& c) {
    const ConstTensor& w = c.inputs[1]->constant;
    const auto make = [&]() -> std::shared_ptr<const void> {
      auto packed = std::make_shared<Packed>();
      packed->weights = conv::PackByteWeights(shape_, w->as<int8_t>());
      packed->terms = conv::ByteTerms(shape_, w->as<int8_t>());
      return packed->weights ? packed : nullptr;
    };
    const std::string key =
        StrFormat("bytes in blocks %d %d %lld %d %d", shape_.x_blocked, shape_.depthwise,
                  static_cast<long long>(shape_.dw), shape_.x_zero, static_cast<int>(shape_.x_dtype));
    packed_ = std::static_pointer_cast<const Packed>(c.packs ? c.packs->GetOrMake(w, key, make) : make());
    if (!packed_) return Errorf(Code::kRuntime, "ConvInteger: no memory for its packed weights.");
    rescale_.terms = packed_->terms;
    return OkStatus();
  }

  conv::ByteConvShape shape_;
  conv::ByteRescale rescale_;
  std::shared_ptr<const Packed> packed_;
};

}  // namespace

const char* ByteConvRefusal(const op::PlanContext& c) { return Call(c).Read(); }

Result<op::KernelPtr> PlanByteConv(const op::PlanContext& c) {
  auto kernel = std::make_shared<ByteConvKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(c));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
