// Gradients of convolutions. That of the input is the other kind of convolution with the same weights; that
// of the weights an operator of its own; that of the bias a sum per channel.
#include <algorithm>

#include "capi/adapters/conv/conv_args.h"

namespace opsnn::capi {
namespace {

using ll = long long;

struct Gradients {
  Operand dy, x, w;    // in the dims of Conv
  Operand dx, dw, db;  // absent: not wanted
  op::Attrs attrs;     // strides, dilations, pads, group
  bool transposed = false;
};

// The result's size along a spatial dim; below 1 when the kernel does not fit.
int64_t ResultSize(const Gradients& g, int dim, int64_t output_padding) {
  const auto i = static_cast<size_t>(dim);
  const int spatial = g.x.desc.dims.rank() - 2;
  const std::vector<int64_t> pads = g.attrs.Ints("pads");
  const int64_t in = g.x.desc.dims[2 + dim], stride = g.attrs.Ints("strides")[i];
  const int64_t extent = (g.w.desc.dims[2 + dim] - 1) * g.attrs.Ints("dilations")[i] + 1;
  const int64_t pad = pads[i] + pads[i + static_cast<size_t>(spatial)];
  if (g.transposed) return (in - 1) * stride + extent + output_padding - pad;
  return in + pad < extent ? 0 : (in + pad - extent) / stride + 1;
}

Status CheckResult(const Call& call, const Gradients& g, const std::vector<int64_t>& output_padding) {
  const int spatial = g.x.desc.dims.rank() - 2;
  const int64_t groups = g.attrs.Int("group", 1);
  Dims want{g.x.desc.dims[0], g.transposed ? g.w.desc.dims[1] * groups : g.w.desc.dims[0]};
  for (int i = 0; i < spatial; ++i) {
    want.push_back(ResultSize(g, i, output_padding.empty() ? 0 : output_padding[static_cast<size_t>(i)]));
    if (want.back() < 1 && g.x.desc.dims[2 + i] > 0) {
      return InvalidArgument(
          "%s: the kernel of weight, of shape %s, does not fit the padded input, of shape %s; "
          "allowed: results of 1 or more along every dim",
          call.function().api, ToString(g.w.desc.dims).c_str(), ToString(g.x.desc.dims).c_str());
    }
  }
  return RequireShape(call, g.dy, want, "the result of the convolution");
}

// What plain convolutions take.
op::Attrs PlainAttributes(const Gradients& g) {
  op::Attrs attrs;
  for (const char* list : {"strides", "dilations", "pads"}) attrs.Set(list, g.attrs.Ints(list));
  attrs.Set("group", g.attrs.Int("group", 1));
  return attrs;
}

OpCall InputGradient(const Gradients& g) {
  op::Attrs attrs = PlainAttributes(g);
  if (g.transposed) return ConvCall("Conv", std::move(attrs), {g.dy, g.w}, g.dx);
  // Input positions behind the last window: as many as output_padding adds.
  std::vector<int64_t> behind;
  const int spatial = g.x.desc.dims.rank() - 2;
  const std::vector<int64_t> strides = attrs.Ints("strides"), dilations = attrs.Ints("dilations"),
                             pads = attrs.Ints("pads");
  for (int i = 0; i < spatial; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t extent = (g.w.desc.dims[2 + i] - 1) * dilations[k] + 1;
    behind.push_back((g.x.desc.dims[2 + i] + pads[k] + pads[k + static_cast<size_t>(spatial)] - extent) %
                     strides[k]);
  }
  attrs.Set("output_padding", behind);
  return ConvCall("ConvTranspose", std::move(attrs), {g.dy, g.w}, g.dx);
}

OpCall WeightGradient(const Gradients& g) {
  op::Attrs attrs = PlainAttributes(g);
  std::vector<int64_t> kernel;
  for (int i = 2; i < g.w.desc.dims.rank(); ++i) kernel.push_back(g.w.desc.dims[i]);
  attrs.Set("kernel_shape", kernel);
  // In a transposed convolution every input position meets a window of the result.
  return ConvCall("ConvWeightGrad", std::move(attrs), {g.transposed ? g.dy : g.x, g.transposed ? g.x : g.dy},
                  g.dw, false);
}

OpCall BiasGradient(const Gradients& g) {
  std::vector<int64_t> dims = {0};
  for (int i = 2; i < g.dy.desc.dims.rank(); ++i) dims.push_back(i);
  OpCall c;
  Reduce("ReduceSum", g.dy, DType::kF32, g.db, dims, false, &c);
  return c;
}

Status TakeGradients(const Call& call, const Gradients& g, OpCall* out) {
  std::vector<OpCall> calls;
  if (g.dx.given()) calls.push_back(InputGradient(g));
  if (g.dw.given()) calls.push_back(WeightGradient(g));
  if (g.db.given()) calls.push_back(BiasGradient(g));
  if (calls.empty()) return BadValue(call, "outputMask", "without a true value", "one or more");
  return TakeAll(std::move(calls), out);
}

// A gradient that outputMask asks for must have somewhere to go, of the shape of what it belongs to.
Result<Operand> Wanted(const Call& call, bool wanted, const char* name, const Dims& dims, const char* whose) {
  if (!wanted) return Operand{};
  if (!call.Given(name)) {
    return Errorf(Code::kNull, "%s: %s is null; outputMask asks for it", call.function().api, name);
  }
  const Operand o = Arg(call, name);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, o, dims, whose));
  return o;
}

}  // namespace

Status Adapt_ConvolutionBackward(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 3));
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {"gradOutput", "input", "weight", "gradInput", "gradWeight"}));
  Gradients g;
  g.dy = Arg(call, "gradOutput"), g.x = Arg(call, "input"), g.w = Arg(call, "weight");
  g.transposed = call.Int("transposed") != 0;
  const Dims &x = g.x.desc.dims, &w = g.w.desc.dims;
  const int64_t groups = call.Int("groups");
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, "input", x, w, groups, g.transposed));
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  OPSNN_ASSIGN_OR_RETURN(g.attrs, ConvAttributes(call, spatial, groups, g.transposed));
  const std::vector<int64_t>& extra = call.Ints("outputPadding");
  if (extra.size() != spatial) {
    return BadValue(call, "outputPadding", Listed(call, "outputPadding"),
                    "one value per spatial dim of input");
  }
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t limit = g.transposed ? call.Ints("stride")[i] : 1;
    if (extra[i] < 0 || extra[i] >= limit) {
      return BadValue(call, "outputPadding", Listed(call, "outputPadding"),
                      g.transposed ? "values below those of stride" : "zeros where transposed is false");
    }
  }
  OPSNN_RETURN_IF_ERROR(CheckResult(call, g, extra));

  const auto& mask =
      static_cast<const BoolArray*>(call.arguments()[call.Index("outputMask")].object.get())->values;
  if (mask.size() != 3)
    return BadValue(call, "outputMask", StrFormat("a list of %zu", mask.size()), "3 values");
  const int64_t channels = g.dy.desc.dims[1];
  if (mask[2] != 0 && !call.Given("biasSizes")) {
    return Errorf(Code::kNull, "%s: biasSizes is null; outputMask asks for gradBias", call.function().api);
  }
  if (call.Given("biasSizes") && mask[2] != 0 && call.Ints("biasSizes") != std::vector<int64_t>{channels}) {
    return BadValue(call, "biasSizes", Listed(call, "biasSizes"),
                    StrFormat("[%lld], the output channels", ll{channels}));
  }
  OPSNN_ASSIGN_OR_RETURN(g.dx, Wanted(call, mask[0] != 0, "gradInput", x, "that of input"));
  OPSNN_ASSIGN_OR_RETURN(g.dw, Wanted(call, mask[1] != 0, "gradWeight", w, "that of weight"));
  OPSNN_ASSIGN_OR_RETURN(
      g.db, Wanted(call, mask[2] != 0, "gradBias", Dims{channels}, "one value per output channel"));
  return TakeGradients(call, g, &out);
}

// self: the gradient of the result, (T', B, O); input (T, B, C), weight (K, C, O).
Status Adapt_ConvTbcBackward(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 3));
  const Operand dy = Arg(call, "self"), x = Arg(call, "input"), w = Arg(call, "weight");
  const Operand dx = Arg(call, "gradInput"), dw = Arg(call, "gradWeight"), db = Arg(call, "gradBias");
  for (const Operand* o : {&dy, &x, &w, &dx, &dw}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  if (!call.Given("bias")) return Errorf(Code::kNull, "%s: bias is null", call.function().api);
  const Operand bias = Arg(call, "bias");
  for (const Operand* o : {&x, &w, &bias})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, dy.desc.dtype, "self"));
  constexpr int64_t kMostPad = int64_t{1} << 30;
  const int64_t pad = call.Int("pad");
  if (pad < 0 || pad > kMostPad) return BadValue(call, "pad", std::to_string(pad), "0 to 2^30");
  if (w.desc.dims[1] != x.desc.dims[2] || w.desc.dims[0] < 1) {
    return BadValue(call, "weight", "of shape " + ToString(w.desc.dims),
                    "(K, C, O) with K above 0 and the C of input, of shape " + ToString(x.desc.dims));
  }
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, w.desc.dims[2]));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, dx, x.desc.dims, "that of input"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, dw, w.desc.dims, "that of weight"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, db, bias.desc.dims, "that of bias"));
  const Dims result{x.desc.dims[0] + 2 * pad + 1 - w.desc.dims[0], x.desc.dims[1], w.desc.dims[2]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, dy, result, "the result of the convolution"));

  Gradients g;
  g.attrs.Set("pads", std::vector<int64_t>{pad, pad});
  g.attrs.Set("strides", std::vector<int64_t>{1});
  g.attrs.Set("dilations", std::vector<int64_t>{1});
  g.attrs.Set("group", int64_t{1});
  const std::vector<int> images = {1, 2, 0}, weights = {2, 1, 0};
  g.dy = Permuted(dy, images), g.x = Permuted(x, images), g.w = Permuted(w, weights);
  g.dx = Permuted(dx, images), g.dw = Permuted(dw, weights), g.db = db;
  return TakeGradients(call, g, &out);
}

}  // namespace opsnn::capi
