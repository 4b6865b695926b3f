#include "graph/fusion/dequantised.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "device/host.h"
#include "op/advice.h"

namespace opsnn::graph {
namespace {

bool IsByte(DType t) { return t == DType::kS8 || t == DType::kU8; }

// The type of what d dequantises. When a model is loaded, types between its nodes are not known yet: that of
// the zero point is the same.
DType TypeOf(const Rewriter& r, const Graph& g, const Dequantised& d) {
  const NodeId maker = r.Producer(d.q);
  if (d.zero != kNoValue && r.Producer(d.zero) < 0) return r.desc(d.zero).dtype;
  const bool plain = maker >= 0 && r.Is(maker, Known().QuantizeLinear);
  if (!plain || r.desc(d.q).dtype != DType::kF32) return r.desc(d.q).dtype;
  const Node& node = g.nodes[maker];
  std::vector<const op::TensorDesc*> inputs;
  for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? nullptr : &r.desc(v));
  op::InferContext c;
  c.inputs = inputs;
  c.attrs = &node.attrs.get();
  return op::Infer(*node.op, c).ok() ? c.outputs[0].dtype : DType::kF32;
}

Dequantised AsDequantised(const Rewriter& r, const Graph& g, ValueId v) {
  Dequantised d;
  const NodeId n = r.Producer(v, Known().DequantizeLinear);
  if (n < 0) return d;
  const Node& node = g.nodes[n];
  d.q = node.inputs[0], d.scale = node.inputs[1];
  if (node.inputs.size() > 2) d.zero = node.inputs[2];
  d.dtype = TypeOf(r, g, d);
  d.node = n;
  return d;
}

int ScalingAxis(const Node& n, int rank) { return op::AdviceOf(*n.op).scaling_axis(n.attrs, rank); }

// The values of a constant, or none.
std::vector<double> ValuesOf(const Rewriter& r, ValueId v) {
  if (v == kNoValue) return {0.0};
  const ConstTensor& c = r.desc(v).constant;
  return c ? ToDoubles(*c) : std::vector<double>();
}

// The largest distance of a byte from a zero point.
double Farthest(const Dequantised& d, const std::vector<double>& zeros) {
  const double low = d.dtype == DType::kS8 ? -128 : 0, high = low + 255;
  double most = 0;
  for (double z : zeros) most = std::max({most, high - z, z - low});
  return most;
}

ConstTensor Transposed(const HostTensor& t) {
  const int64_t rows = t.dims()[0], columns = t.dims()[1];
  auto out = std::make_shared<HostTensor>(t.dtype(), Dims{columns, rows});
  if (!out->ok()) return nullptr;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out->as<char>()[j * rows + i] = t.as<char>()[i * columns + j];
  return out;
}

// Sums of k products of such distances must fit s32.
bool FitsSums(double k, double a, double b) { return k * a * b < 0x1p31; }

struct Found {
  Graph const& g;
  const Rewriter& r;
  const Node& node;
  QuantisedProduct p;

  // nullptr, or why not.
  const char* Check() {
    if (p.a.node < 0)
      return "only the weights are quantised: they are dequantised once, when the model is loaded";
    if (p.b.node < 0) return "the other operand is not quantised";
    if (!IsByte(p.a.dtype) || !IsByte(p.b.dtype)) return "kernels multiply integers of 8 bits alone";
    if (node.op == Known().Conv) return CheckConv();
    const bool gemm = node.op == Known().Gemm;
    if (gemm && (node.attrs.Float("alpha", 1) != 1 || node.attrs.Float("beta", 1) != 1 ||
                 node.attrs.Int("transA", 0)))
      return "integer products have no alpha, beta and transA";
    const ConstTensor& w = r.desc(p.b.q).constant;
    if (!w || w->dims().rank() != 2) return "the second operand is no constant matrix";
    const bool transposed = gemm && node.attrs.Int("transB", 0);
    const char* why = CheckScales(transposed ? 0 : 1, w->dims(), w->dims()[transposed ? 1 : 0]);
    if (!why && gemm && node.inputs.size() > 2 && node.inputs[2] != kNoValue)
      why = CheckAddend(w->dims()[transposed ? 0 : 1]);
    if (!why && transposed && !(p.transposed_b = Transposed(*w))) why = "there is no memory for it";
    return why;
  }

  // A row of the columns, whose fit does not depend on A: an Add would also take one that widens the result.
  const char* CheckAddend(int64_t columns) {
    const ValueId v = node.inputs[2];
    const NodeId maker = r.Producer(v, Known().DequantizeLinear);
    const op::TensorDesc& d = r.desc(maker < 0 ? v : g.nodes[maker].inputs[0]);
    const auto values = Bias(v);
    const auto count = static_cast<int64_t>(values.size());
    const bool row = d.dims.rank() <= 1 || (d.dims.rank() == 2 && d.dims[0] == 1);
    if (count == 0 || (maker < 0 && d.dtype != DType::kF32)) return "the bias is no constant";
    if (!row || (count != 1 && count != columns)) return "the bias is no row of the columns";
    p.bias = HostTensor::From<float>(count == 1 ? Dims{} : Dims{count}, values);
    return p.bias ? nullptr : "there is no memory for it";
  }

  // Few products of a group load more than they multiply, which vectors of floats do as fast; where a group
  // has one channel, bytes are a quarter of what is moved.
  const char* CheckConv() {
    constexpr int64_t kLeastChannels = 8, kLeastDepth = 16;
    const ConstTensor& w = r.desc(p.b.q).constant;
    if (!w || w->dims().rank() < 3 || w->size() == 0) return "the weights are no constant";
    const int64_t channels = w->dims()[0], depth = w->size() / channels;
    const int64_t groups = std::max<int64_t>(1, node.attrs.Int("group", 1));
    const bool depthwise = groups > 1 && w->dims()[1] == 1;
    if (!depthwise && (channels / groups < kLeastChannels || depth < kLeastDepth))
      return "groups of so few channels are no faster in integers";
    if (const char* why = CheckScales(0, w->dims(), depth)) return why;
    if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return nullptr;
    const auto values = Bias(node.inputs[2]);
    if (static_cast<int64_t>(values.size()) != channels) return "the bias is no constant";
    p.bias = HostTensor::From<float>(p.scale->size() > 1 ? p.scale->dims() : Channels(w->dims()), values);
    return p.bias ? nullptr : "there is no memory for it";
  }

  static Dims Channels(const Dims& w) {
    Dims d = Dims::Filled(w.rank() - 1, 1);
    d[0] = w[0];
    return d;
  }

  // A constant, or a dequantised one.
  std::vector<float> Bias(ValueId v) const {
    std::vector<float> values;
    if (const ConstTensor& c = r.desc(v).constant) {
      for (double b : ToDoubles(*c)) values.push_back(static_cast<float>(b));
      return values;
    }
    const Dequantised d = AsDequantised(r, g, v);
    if (d.node < 0 || !r.desc(d.q).constant) return values;
    const auto q = ToDoubles(*r.desc(d.q).constant), scales = ValuesOf(r, d.scale),
               zeros = ValuesOf(r, d.zero);
    if (!OneOrEach(scales, q.size()) || !OneOrEach(zeros, q.size())) return values;
    for (size_t i = 0; i < q.size(); ++i) {
      const double centred = q[i] - zeros[zeros.size() > 1 ? i : 0];
      values.push_back(static_cast<float>(centred) * static_cast<float>(scales[scales.size() > 1 ? i : 0]));
    }
    return values;
  }

  static bool OneOrEach(const std::vector<double>& values, size_t each) {
    return values.size() == 1 || (!values.empty() && values.size() == each);
  }

  // `axis` of the weights, of these dims, is that of the columns; `depth` products make a sum.
  const char* CheckScales(int axis, const Dims& weights, int64_t depth) {
    const int rank = weights.rank();
    const auto sa = ValuesOf(r, p.a.scale), sb = ValuesOf(r, p.b.scale), za = ValuesOf(r, p.a.zero),
               zb = ValuesOf(r, p.b.zero);
    if (sa.empty() || sb.empty() || za.empty() || zb.empty())
      return "a scale or zero point is known only when the model runs";
    if (r.desc(p.a.scale).dtype != DType::kF32 || r.desc(p.b.scale).dtype != DType::kF32)
      return "a scale is no f32";
    if (sa.size() != 1 || za.size() != 1) return "the scale of the first operand varies along the sums";
    const bool varies = sb.size() > 1 || zb.size() > 1;
    if (varies && ScalingAxis(g.nodes[p.b.node], rank) != axis)
      return "the scale of the weights varies along the sums";
    // What is no such list is refused by DequantizeLinear itself.
    const auto columns = static_cast<size_t>(weights[axis]);
    const auto is_list = [&](ValueId v) { return v == kNoValue || r.desc(v).dims.rank() <= 1; };
    if (!OneOrEach(sb, columns) || !OneOrEach(zb, columns) || !is_list(p.a.scale) || !is_list(p.a.zero) ||
        !is_list(p.b.scale) || !is_list(p.b.zero))
      return "a scale or zero point has another number of values than there are slices";
    if (!FitsSums(static_cast<double>(depth), Farthest(p.a, za), Farthest(p.b, zb)))
      return "the sums may be beyond 32 bits";
    std::vector<float> scales;
    for (double s : sb) {
      const auto f = static_cast<float>(sa[0] * s);
      if (!std::isnormal(f)) return "the product of the scales is no normal f32";
      scales.push_back(f);
    }
    const auto count = static_cast<int64_t>(scales.size());
    Dims dims = count == 1 ? Dims{} : Dims{count};
    for (int i = 2; count > 1 && node.op == Known().Conv && i < rank; ++i) dims.push_back(1);
    p.scale = HostTensor::From<float>(dims, scales);
    return p.scale ? nullptr : "there is no memory for it";
  }
};

}  // namespace

std::optional<QuantisedProduct> AsQuantisedProduct(const Rewriter& r, NodeId n) {
  const Graph& g = const_cast<Rewriter&>(r).graph();
  const Node& node = g.nodes[n];
  if (node.dead || node.tail ||
      (node.op != Known().MatMul && node.op != Known().Gemm && node.op != Known().Conv))
    return std::nullopt;
  if (node.inputs.size() < 2 || node.outputs.size() != 1) return std::nullopt;
  Found f{g, r, node, {}};
  f.p.a = AsDequantised(r, g, node.inputs[0]), f.p.b = AsDequantised(r, g, node.inputs[1]);
  if (f.p.a.node < 0 && f.p.b.node < 0) return std::nullopt;
  f.p.refusal = f.Check();
  return std::move(f.p);
}

std::optional<op::BoundProgram> DequantisingProgram(const Graph& g, const Node& n) {
  if (n.dead || n.tail || n.op != Known().DequantizeLinear || n.outputs.size() != 1 ||
      n.outputs[0] == kNoValue)
    return std::nullopt;
  const op::TensorDesc &x = g.values[n.inputs[0]].desc, &y = g.values[n.outputs[0]].desc;
  const bool has_zero = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  if (IsFloat(x.dtype) || SizeOf(x.dtype) > 2 || y.dtype != DType::kF32 || !IsKnown(y.dims) ||
      NumElements(y.dims) == 0)
    return std::nullopt;
  op::BoundProgram bound;
  bound.operands = has_zero ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1};
  for (size_t i = 1; i < bound.operands.size(); ++i) {
    const Dims& d = g.values[n.inputs[i]].desc.dims;
    if (!IsKnown(d) || NumElements(d) != 1 || d.rank() > y.dims.rank()) return std::nullopt;
  }
  bound.program = op::AdviceOf(*n.op).scaling(x.dtype, y.dtype, has_zero);
  return bound;
}

bool MultipliesBytesFaster() {
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  return host.mac(DType::kS8) > host.mac(DType::kF32);
}

}  // namespace opsnn::graph
