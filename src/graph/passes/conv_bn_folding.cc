#include <cmath>
#include <optional>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// y = scale[c] * x + shift[c], per output channel.
struct Affine {
  std::vector<double> scale, shift;

  explicit Affine(int64_t channels) : scale(channels, 1.0), shift(channels, 0.0) {}
  void Then(const std::vector<double>& s, const std::vector<double>& t) {
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] *= s[c];
      shift[c] = shift[c] * s[c] + t[c];
    }
  }
};

struct Convolution {
  bool transposed = false;
  int64_t channels = 0;  // of the output
  int64_t groups = 1;
  int rank = 0;
};

std::optional<Convolution> AsConvolution(const Rewriter& r, const Node& n) {
  if (n.dead || n.tail || (n.op != Known().Conv && n.op != Known().ConvTranspose)) return std::nullopt;
  if (n.inputs.size() < 2 || n.inputs[1] == kNoValue || n.outputs.size() != 1) return std::nullopt;
  const op::TensorDesc& w = r.desc(n.inputs[1]);
  if (!w.constant || w.dtype != DType::kF32 || w.dims.rank() < 3 || w.constant->size() == 0)
    return std::nullopt;
  Convolution c;
  c.transposed = n.op == Known().ConvTranspose;
  c.groups = n.attrs.Int("group", 1);
  // The groups of a valid transposed convolution divide its rows, which bounds the product below.
  if (c.groups < 1 || (c.transposed && w.dims[0] % c.groups != 0)) return std::nullopt;
  c.channels = c.transposed ? w.dims[1] * c.groups : w.dims[0];
  c.rank = w.dims.rank();
  if (n.inputs.size() > 2 && n.inputs[2] != kNoValue && !IsBias(r.desc(n.inputs[2]), c.channels))
    return std::nullopt;
  return c;
}

// A constant that varies along the channels only (or not at all), spread to one value per channel.
std::optional<std::vector<double>> PerChannel(const op::TensorDesc& d, const Convolution& conv) {
  if (!d.constant || d.dtype != DType::kF32 || d.dims.rank() > conv.rank) return std::nullopt;
  const int channel_axis = d.dims.rank() - (conv.rank - 1);  // right-aligned to (N, C, spatial...)
  for (int i = 0; i < d.dims.rank(); ++i)
    if (d.dims[i] != 1 && (i != channel_axis || d.dims[i] != conv.channels)) return std::nullopt;
  std::vector<double> v = ToDoubles(*d.constant);
  if (v.size() == 1) v.resize(conv.channels, v[0]);
  if (static_cast<int64_t>(v.size()) != conv.channels) return std::nullopt;
  return v;
}

std::optional<std::vector<double>> Parameter(const op::TensorDesc& d, const Convolution& conv) {
  if (!d.constant || d.constant->size() != conv.channels) return std::nullopt;
  return ToDoubles(*d.constant);
}

bool AddBatchNorm(const Rewriter& r, const Node& n, const Convolution& conv, Affine* a) {
  if (n.inputs.size() < 5) return false;
  std::optional<std::vector<double>> p[4];
  for (int i = 0; i < 4; ++i)
    if (n.inputs[i + 1] == kNoValue || !(p[i] = Parameter(r.desc(n.inputs[i + 1]), conv))) return false;
  const auto& [gamma, beta, mean, var] = p;
  std::vector<double> s(conv.channels), t(conv.channels);
  for (int64_t c = 0; c < conv.channels; ++c) {
    s[c] = (*gamma)[c] / std::sqrt((*var)[c] + n.attrs.Float("epsilon", 1e-5));
    t[c] = (*beta)[c] - (*mean)[c] * s[c];
    if (!std::isfinite(s[c]) || !std::isfinite(t[c]))
      return false;  // the operator's own NaN stays where it is
  }
  a->Then(s, t);
  return true;
}

// Add, Sub, Mul or Div of the convolution's result `x` with a per-channel constant.
bool AddArithmetic(const Rewriter& r, NodeId id, const Node& n, ValueId x, const Convolution& conv,
                   Affine* a) {
  const op::OpDef* op = n.op;
  const KnownOps& k = Known();
  const bool commutes = op == k.Add || op == k.Mul;
  if ((!commutes && op != k.Sub && op != k.Div) || (!commutes && n.inputs[0] != x)) return false;
  const ValueId other = r.Other(id, x);
  if (other == kNoValue || other == x) return false;
  const auto v = PerChannel(r.desc(other), conv);
  if (!v) return false;
  std::vector<double> s(conv.channels, 1.0), t(conv.channels, 0.0);
  for (int64_t c = 0; c < conv.channels; ++c) {
    if (op == k.Add) t[c] = (*v)[c];
    if (op == k.Sub) t[c] = -(*v)[c];
    if (op == k.Mul) s[c] = (*v)[c];
    if (op == k.Div) s[c] = 1.0 / (*v)[c];
    if (!std::isfinite(s[c]) || !std::isfinite(t[c])) return false;
  }
  a->Then(s, t);
  return true;
}

ConstTensor ScaledWeights(const HostTensor& w, const Convolution& conv, const Affine& a) {
  auto out = std::make_shared<HostTensor>(w.dtype(), w.dims());
  if (!out->ok()) return nullptr;
  const float* from = w.as<float>();
  float* to = out->as<float>();
  const int64_t outer = w.dims()[0], per_outer = w.size() / outer;
  for (int64_t o = 0; o < outer; ++o) {
    // Conv: one output channel per row. ConvTranspose: row = input channel, whose group picks the outputs.
    const int64_t inner = conv.transposed ? w.dims()[1] : 1, run = per_outer / inner;
    const int64_t base = conv.transposed ? o / (outer / conv.groups) * inner : o;
    for (int64_t j = 0; j < inner; ++j) {
      const double s = a.scale[base + j];
      for (int64_t i = 0; i < run; ++i, ++from, ++to) *to = static_cast<float>(*from * s);
    }
  }
  return out;
}

ConstTensor ShiftedBias(const ConstTensor& bias, const Convolution& conv, const Affine& a) {
  std::vector<float> b(conv.channels);
  const std::vector<double> old = bias ? ToDoubles(*bias) : std::vector<double>(conv.channels, 0.0);
  for (int64_t c = 0; c < conv.channels; ++c) b[c] = static_cast<float>(old[c] * a.scale[c] + a.shift[c]);
  return HostTensor::From<float>({conv.channels}, b);
}

}  // namespace

Status ConvBnFolding(Graph& g, PassContext& c) {
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId id = 0; id < count; ++id) {
    const auto conv = AsConvolution(r, g.nodes[id]);
    if (!conv) continue;
    Affine a(conv->channels);
    int absorbed = 0;
    while (r.SingleUse(g.nodes[id].outputs[0])) {
      const ValueId x = g.nodes[id].outputs[0];
      const NodeId user = r.Users(x)[0];
      const Node& n = g.nodes[user];
      if (n.tail || n.outputs.size() != 1) break;
      const bool is_bn = n.op == Known().BatchNormalization && n.inputs[0] == x;
      if (is_bn ? !AddBatchNorm(r, n, *conv, &a) : !AddArithmetic(r, user, n, x, *conv, &a)) break;
      r.Absorb(id, user);
      ++absorbed;
    }
    c.matches += absorbed;
    c.effects += absorbed;
    if (!absorbed) continue;
    const ValueId w = g.nodes[id].inputs[1];
    const ConstTensor weights = ScaledWeights(*r.desc(w).constant, *conv, a);
    if (!weights) return Errorf(Code::kRuntime, "no memory for folded weights.");
    const bool has_bias = g.nodes[id].inputs.size() > 2 && g.nodes[id].inputs[2] != kNoValue;
    const ConstTensor bias =
        ShiftedBias(has_bias ? r.desc(g.nodes[id].inputs[2]).constant : nullptr, *conv, a);
    const ValueId folded = r.AddConstant(g.values[w].name + ":folded", weights);
    const ValueId folded_bias = r.AddConstant(g.values[w].name + ":bias", bias);
    r.SetInput(id, 1, folded);
    Node& n = g.nodes[id];
    if (n.inputs.size() < 3) n.inputs.resize(3, kNoValue);
    n.num_op_inputs = 3;
    r.SetInput(id, 2, folded_bias);
  }
  return OkStatus();
}

}  // namespace opsnn::graph
