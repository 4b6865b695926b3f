#include "ops/quant/integer_conv.h"

#include <algorithm>

#include "base/int_math.h"
#include "isa/tier.h"
#include "kernels/gemm/int8_conv.h"
#include "op/pointwise.h"
#include "op/window.h"
#include "ops/data/data_op.h"
#include "ops/matmul/product_kernel.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

using ll = long long;

struct ConvShape {
  op::Window window;
  int64_t group = 1;
  Dims out;
};

Result<ConvShape> Resolve(const char* op, const Dims& x, const Dims& w, const op::Attrs& attrs) {
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "X", x, 3, 5));
  const int spatial = x.rank() - 2;
  Dims kernel;
  for (int i = 2; i < w.rank(); ++i) kernel.push_back(w[i]);
  const std::vector<int64_t> named = attrs.Ints("kernel_shape");
  ConvShape s;
  s.group = attrs.Int("group", 1);
  if (w.rank() != x.rank() || s.group < 1 || x[1] != w[1] * s.group || w[0] % s.group != 0 ||
      (!named.empty() && !std::equal(named.begin(), named.end(), kernel.begin(), kernel.end()))) {
    return InvalidArgument(
        "%s: X has shape %s, W %s, group is %lld and kernel_shape %s; allowed: W of [M, C / group, "
        "kernel...] with "
        "both C and M divisible by group",
        op, opsnn::ToString(x).c_str(), opsnn::ToString(w).c_str(), ll{s.group}, ToString(named).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(s.window, op::ReadWindow(op, attrs, kernel));
  s.out = {x[0], w[0]};
  for (int i = 0; i < spatial; ++i) {
    OPSNN_ASSIGN_OR_RETURN(const int64_t n, op::WindowOutput(op, &s.window, s.window.AxisOf(i), x[2 + i]));
    s.out.push_back(n);
  }
  return s;
}

// Do the dims of an image lie so that its pixels are one behind the other, `step` elements apart (0: one
// value for all of them)?
bool PixelsInLine(const Dims& dims, const Dims& strides, int64_t* step) {
  int64_t next = -1;
  *step = 0;
  for (int i = dims.rank() - 1; i >= 2; --i) {
    if (dims[i] == 1) continue;
    if (next < 0) *step = strides[i], next = *step;
    if (strides[i] != next) return false;
    next = strides[i] * dims[i];
  }
  return true;
}

class IntegerConvKernel : public op::Kernel {
 public:
  Status Plan(const char* op, const op::PlanContext& c, const IntegerOperands& o, const Rescale* rescale) {
    const op::TensorDesc &x = *c.inputs[static_cast<size_t>(o.a)], &w = *c.inputs[static_cast<size_t>(o.b)];
    OPSNN_ASSIGN_OR_RETURN(const ConvShape s, Resolve(op, x.dims, w.dims, op::AttrsOf(c.attrs)));
    x_ = o.a, w_ = o.b, w_view_ = w.View(nullptr);
    x_zero_ = QuantParam::Of(c, o.a_zero), w_zero_ = QuantParam::OfZero(c, o.b_zero);
    p_.images = x.dims[0], p_.groups = s.group, p_.m = w.dims[0] / s.group;
    p_.x_dtype = x.dtype, p_.w_dtype = w.dtype;
    SetWindows(s, x, w.dims[1]);
    depth_ = RoundUp(p_.windows.depth(), gemm::kInt8Group);
    in_place_ = w.IsContiguous() && depth_ == p_.windows.depth();
    return PlanBehind(c, rescale);
  }

  Status Run(const op::RunArgs& args) const override {
    gemm::Int8ConvParams p = p_;
    char* at = static_cast<char*>(args.workspace);
    const auto take = [&at](size_t bytes) {
      char* mine = at;
      at += RoundUp(bytes, kAlignment);
      return mine;
    };
    p.windows.x = static_cast<const uint8_t*>(args.inputs[x_]);
    p.w = in_place_ ? static_cast<const uint8_t*>(args.inputs[w_])
                    : ArrangeWeights(args, reinterpret_cast<uint8_t*>(take(WeightBytes())));
    p.x_zero = static_cast<int32_t>(x_zero_.At(args, 0));
    p.windows.fill = static_cast<uint8_t>(p.x_zero);
    auto* zeros = reinterpret_cast<int32_t*>(take(ZeroBytes(w_zero_)));
    p.w_zero = LoadZeros(w_zero_, args, zeros);
    void* y = in_line_ ? args.outputs[0] : take(ResultBytes());
    const vector::ScratchCheck scratch;
    gemm::Requantise q = requantise_;
    std::vector<vector::EpilogueArg> bound = args_;
    if (requantises_) {
      auto* factors = reinterpret_cast<double*>(take(FactorBytes()));
      factors_.Load(args, factors);
      q.factor = factors, q.zero = factors_.Zero(args);
      if (bias_ >= 0) q.bias = static_cast<const int32_t*>(args.inputs[bias_]);
      q.y = y;
      p.requantise = &q;
    } else if (program_) {
      for (size_t i = 0; i < inputs_.size(); ++i) bound[i].data = args.inputs[inputs_[i]];
      bound.back().data = y;
      p.args = bound;
    } else {
      p.c = static_cast<int32_t*>(y);
    }
    gemm::RunInt8Conv(p);
    if (!in_line_) {
      TensorView to = y_;
      to.data = args.outputs[0];
      vector::CopyConvert(TensorView::Contiguous(y, to.dtype, to.dims), to);
    }
    return scratch.Check("integer convolution");
  }
  size_t workspace_bytes() const override {
    size_t bytes = RoundUp(ZeroBytes(w_zero_), kAlignment);
    if (!in_place_) bytes += RoundUp(WeightBytes(), kAlignment);
    if (requantises_) bytes += RoundUp(FactorBytes(), kAlignment);
    if (!in_line_) bytes += RoundUp(ResultBytes(), kAlignment);
    return bytes;
  }
  std::string variant() const override {
    return std::string(isa::HasVnni() ? "columns, int8 dot products" : "columns, int8 in 16 bits") +
           (requantises_ ? ", +requantise"
            : chain_     ? ", +chain in tiles"
            : program_   ? ", +program"
                         : "");
  }

 private:
  void SetWindows(const ConvShape& s, const op::TensorDesc& x, int64_t channels) {
    const TensorView v = x.View(nullptr);
    gemm::ByteWindows& w = p_.windows;
    w.channels = channels;
    p_.image_stride = v.strides[0], w.channel_stride = v.strides[1];
    for (int axis = 0; axis < 3; ++axis) {
      w.kernel[axis] = s.window.kernel[axis], w.stride[axis] = s.window.stride[axis];
      w.dilation[axis] = s.window.dilation[axis], w.pad[axis] = s.window.pad_begin[axis];
    }
    for (int i = 0; i < s.window.spatial; ++i) {
      const int axis = s.window.AxisOf(i);
      w.in[axis] = x.dims[2 + i], w.in_stride[axis] = v.strides[2 + i], w.out[axis] = s.out[2 + i];
    }
  }

  // The product's columns are pixels one behind the other, and so lies what is stored; other results are
  // moved when they are there.
  Status PlanBehind(const op::PlanContext& c, const Rescale* rescale) {
    y_ = c.outputs[0].View(nullptr);
    int64_t step = 0;
    in_line_ = PixelsInLine(y_.dims, y_.strides, &step) && (step == 1 || p_.windows.pixels() == 1);
    const Dims strides = in_line_ ? y_.strides : ContiguousStrides(y_.dims);
    p_.c_row_stride = strides[1], p_.c_batch_stride = strides[0];
    if (!rescale && !c.tail) return OkStatus();
    if (rescale && !c.tail) {
      factors_ = RescaleFactors::Of(c, *rescale);
      requantises_ = true;
      requantise_.to = y_.dtype;
      requantise_.y_row_stride = strides[1], requantise_.y_batch_stride = strides[0];
      requantise_.factor_row_stride = factors_.varies() ? 1 : 0;
      const QuantParam bias = QuantParam::Of(c, rescale->bias);
      if (bias.input >= 0) bias_ = bias.input, requantise_.bias_row_stride = bias.count > 1 ? bias.stride : 0;
      return OkStatus();
    }
    if (rescale || c.tail->program.HasRowReduction())
      return Errorf(Code::kNotImplemented, "integer convolution: such a chain behind it");
    for (size_t i = 0; i < c.tail_inputs.size(); ++i) {
      const TensorView v = BroadcastTo(c.tail_inputs[i]->View(nullptr), y_.dims);
      if (!PixelsInLine(v.dims, v.strides, &step))
        return Errorf(Code::kNotImplemented,
                      "integer convolution: an operand that varies along one dim of the image");
      args_.push_back({nullptr, c.tail_inputs[i]->dtype, v.strides[0], 0, v.strides[1], step});
      inputs_.push_back(static_cast<int>(c.inputs.size() + i));
    }
    args_.push_back({nullptr, y_.dtype, strides[0], 0, strides[1], 1});
    OPSNN_RETURN_IF_ERROR(CheckEpilogueArgs("integer convolution", args_.size()));
    OPSNN_ASSIGN_OR_RETURN(program_, vector::Compile(c.tail->program));
    p_.program = program_.get();
    chain_ = gemm::MatchInt8Chain(*program_, args_);
    p_.chain = chain_.get();
    return OkStatus();
  }

  size_t WeightBytes() const { return static_cast<size_t>(p_.groups * p_.m * depth_); }
  size_t ResultBytes() const { return static_cast<size_t>(NumElements(y_.dims)) * SizeOf(y_.dtype); }
  size_t FactorBytes() const { return static_cast<size_t>(factors_.count()) * sizeof(double); }

  // Rows of whole groups, contiguous.
  const uint8_t* ArrangeWeights(const op::RunArgs& args, uint8_t* to) const {
    const int64_t rows = p_.groups * p_.m, depth = p_.windows.depth();
    TensorView from = w_view_;
    from.data = args.inputs[w_];
    Dims strides = ContiguousStrides(from.dims);
    strides[0] = depth_;
    TensorView rows_view = from;
    rows_view.data = to, rows_view.strides = strides;
    vector::CopyConvert(from, rows_view);
    for (int64_t r = 0; r < rows; ++r) std::fill(to + r * depth_ + depth, to + (r + 1) * depth_, uint8_t{0});
    return to;
  }

  int x_ = 0, w_ = 0, bias_ = -1;
  TensorView w_view_, y_;  // without data
  QuantParam x_zero_, w_zero_;
  RescaleFactors factors_;
  bool requantises_ = false, in_place_ = false, in_line_ = true;
  int64_t depth_ = 0;       // rows of weights, padded to whole groups
  gemm::Int8ConvParams p_;  // without pointers
  gemm::Requantise requantise_;
  std::shared_ptr<const vector::CompiledProgram> program_;
  std::shared_ptr<const gemm::Int8Chain> chain_;
  std::vector<vector::EpilogueArg> args_;
  std::vector<int> inputs_;
};

}  // namespace

Result<op::TensorDesc> InferIntegerConv(const char* op, op::InputDescs inputs, const op::Attrs* attrs,
                                        const IntegerOperands& o, DType out) {
  const op::TensorDesc &x = *inputs[static_cast<size_t>(o.a)], &w = *inputs[static_cast<size_t>(o.b)];
  if (!x.known_rank || !w.known_rank || !IsKnown(x.dims) || !IsKnown(w.dims)) {
    return x.known_rank ? Desc(out, Dims::Filled(x.dims.rank(), kUnknownDim)) : UnknownRank(out);
  }
  OPSNN_ASSIGN_OR_RETURN(const ConvShape s, Resolve(op, x.dims, w.dims, op::AttrsOf(attrs)));
  for (const bool is_x : {true, false}) {
    const op::TensorDesc* z = InputOrNull(inputs, static_cast<size_t>(is_x ? o.a_zero : o.b_zero));
    if (z == nullptr || !z->known_rank || !IsKnown(z->dims) || NumElements(z->dims) == 1) continue;
    if (!is_x && z->dims == Dims{w.dims[0]}) continue;
    return InvalidArgument("%s: the zero point of %s has shape %s; allowed: one value%s", op,
                           is_x ? "X" : "W", opsnn::ToString(z->dims).c_str(),
                           is_x ? "" : ", or one per output channel");
  }
  return Desc(out, s.out);
}

Result<op::KernelPtr> PlanIntegerConv(const char* op, const op::PlanContext& c, const IntegerOperands& o,
                                      const Rescale* rescale) {
  auto kernel = std::make_shared<IntegerConvKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(op, c, o, rescale));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
