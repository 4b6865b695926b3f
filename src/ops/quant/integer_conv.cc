#include "ops/quant/integer_conv.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "op/pointwise.h"
#include "op/window.h"
#include "ops/data/data_op.h"
#include "ops/quant/integer_product.h"
#include "ops/quant/quant_op.h"
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

class IntegerConvKernel : public op::Kernel {
 public:
  Status Plan(const char* op, const op::PlanContext& c, const IntegerOperands& o,
              const ProductFinish* finish) {
    const op::TensorDesc &x = *c.inputs[static_cast<size_t>(o.a)], &w = *c.inputs[static_cast<size_t>(o.b)];
    OPSNN_ASSIGN_OR_RETURN(const ConvShape s, Resolve(op, x.dims, w.dims, op::AttrsOf(c.attrs)));
    OPSNN_ASSIGN_OR_RETURN(x_, PlanCentred(c, o.a, o.a_zero, x.View(nullptr), 0));
    OPSNN_ASSIGN_OR_RETURN(w_, PlanCentred(c, o.b, o.b_zero, w.View(nullptr), 0));
    window_ = s.window;
    group_ = s.group;
    n_ = x.dims[0], channels_ = w.dims[1];
    for (int i = 0; i < window_.spatial; ++i) {
      in_[window_.AxisOf(i)] = x.dims[2 + i];
      out_[window_.AxisOf(i)] = s.out[2 + i];
    }
    p_.m = w.dims[0] / s.group;
    p_.k = channels_ * window_.kernel[0] * window_.kernel[1] * window_.kernel[2];
    p_.n = out_[0] * out_[1] * out_[2];
    const auto bytes = [](int64_t n) { return RoundUp(static_cast<size_t>(n) * sizeof(float), kAlignment); };
    const size_t sizes[] = {bytes(NumElements(x.dims)), bytes(NumElements(w.dims)), bytes(NumElements(s.out)),
                            bytes(p_.k * p_.n), bytes(p_.m * p_.n)};
    for (size_t i = 0; i < 5; ++i) {
      at_[i] = total_;
      total_ += sizes[i];
    }
    const TensorView product = TensorView::Contiguous(nullptr, DType::kS32, s.out);
    const TensorView y = c.outputs[0].View(nullptr);
    ProgramBuilder copy;
    copy.Output(copy.Unary(StageOp::kCopy, copy.Input(ComputeType::kS32)));
    const Program last = finish ? finish->program : std::move(copy).Build();
    std::vector<op::KernelOperand> inputs = {{0, product}};
    for (size_t i = 0; finish && i < finish->inputs.size(); ++i) {
      const int from = finish->inputs[i];
      inputs_.push_back(from);
      inputs.push_back({static_cast<int>(inputs_.size()),
                        AlongAxis(*c.inputs[static_cast<size_t>(from)], 1, s.out.rank())});
    }
    OPSNN_ASSIGN_OR_RETURN(finish_,
                           op::MakeProgramKernel(last, y.dims, std::move(inputs), {{0, y}}, 0, "requantise"));
    return OkStatus();
  }

  Status Run(const op::RunArgs& args) const override {
    char* base = static_cast<char*>(args.workspace);
    void *x = base + at_[0], *w = base + at_[1], *c = base + at_[2];
    OPSNN_RETURN_IF_ERROR(x_->Run({args.inputs, &x, nullptr}));
    OPSNN_RETURN_IF_ERROR(w_->Run({args.inputs, &w, nullptr}));
    IntegerProduct p = p_;
    auto* columns = reinterpret_cast<float*>(base + at_[3]);
    p.b = columns;
    p.part = reinterpret_cast<float*>(base + at_[4]);
    const vector::ScratchCheck scratch;
    for (int64_t i = 0; i < n_ * group_ && p.n > 0; ++i) {
      Columns(static_cast<const float*>(x) + i * channels_ * in_[0] * in_[1] * in_[2], columns);
      p.a = static_cast<const float*>(w) + i % group_ * p.m * p.k;
      p.c = static_cast<int32_t*>(c) + i * p.m * p.n;
      RunIntegerProduct(p);
    }
    OPSNN_RETURN_IF_ERROR(scratch.Check("integer convolution"));
    std::vector<void*> in = {c};
    for (const int i : inputs_) in.push_back(args.inputs[i]);
    return finish_->Run({in.data(), args.outputs, nullptr});
  }
  size_t workspace_bytes() const override { return total_; }
  std::string variant() const override { return "columns and f32 products of exact parts"; }

 private:
  // Row (channel, kernel position) holds what that position meets at every output position; 0 in the padding,
  // as the values are centred.
  void Columns(const float* x, float* columns) const {
    const op::Window& w = window_;
    ParallelFor(p_.k, [&](int64_t row, int) {
      const int64_t kx = row % w.kernel[1], ky = row / w.kernel[1] % w.kernel[0],
                    kz = row / (w.kernel[1] * w.kernel[0]) % w.kernel[2];
      const float* plane = x + row / (w.kernel[0] * w.kernel[1] * w.kernel[2]) * in_[0] * in_[1] * in_[2];
      float* to = columns + row * p_.n;
      for (int64_t line = 0; line < out_[2] * out_[0]; ++line, to += out_[1]) {
        const int64_t iz = line / out_[0] * w.stride[2] - w.pad_begin[2] + kz * w.dilation[2],
                      iy = line % out_[0] * w.stride[0] - w.pad_begin[0] + ky * w.dilation[0];
        if (iz < 0 || iz >= in_[2] || iy < 0 || iy >= in_[0]) {
          std::fill(to, to + out_[1], 0.0f);
          continue;
        }
        const float* from = plane + (iz * in_[0] + iy) * in_[1];
        for (int64_t ox = 0; ox < out_[1]; ++ox) {
          const int64_t ix = ox * w.stride[1] - w.pad_begin[1] + kx * w.dilation[1];
          to[ox] = ix >= 0 && ix < in_[1] ? from[ix] : 0.0f;
        }
      }
    });
  }

  op::KernelPtr x_, w_, finish_;
  std::vector<int> inputs_;
  op::Window window_;
  int64_t n_ = 0, group_ = 1, channels_ = 0;
  int64_t in_[3] = {1, 1, 1}, out_[3] = {1, 1, 1};  // sizes by axis of the window
  IntegerProduct p_;
  size_t at_[5] = {}, total_ = 0;
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
                                      const ProductFinish* finish) {
  auto kernel = std::make_shared<IntegerConvKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(op, c, o, finish));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
