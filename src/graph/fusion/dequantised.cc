#include "graph/fusion/dequantised.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "device/host.h"
#include "ops/quant/quant_op.h"

namespace opsnn::graph {
namespace {

bool IsByte(DType t) { return t == DType::kS8 || t == DType::kU8; }

// The type of what d dequantises. When a model is loaded, types between its nodes are not known yet: that of
// the zero point is the same.
DType TypeOf(const Rewriter& r, const Dequantised& d) {
  const NodeId maker = r.Producer(d.q);
  if (d.zero != kNoValue && r.Producer(d.zero) < 0) return r.desc(d.zero).dtype;
  const bool plain = maker >= 0 && r.Is(maker, Known().QuantizeLinear);
  return plain && r.desc(d.q).dtype == DType::kF32 ? DType::kU8 : r.desc(d.q).dtype;
}

Dequantised AsDequantised(const Rewriter& r, const Graph& g, ValueId v) {
  Dequantised d;
  const NodeId n = r.Producer(v, Known().DequantizeLinear);
  if (n < 0) return d;
  const Node& node = g.nodes[n];
  d.q = node.inputs[0], d.scale = node.inputs[1];
  if (node.inputs.size() > 2) d.zero = node.inputs[2];
  d.dtype = TypeOf(r, d);
  d.node = n;
  return d;
}

// The values of a constant, or none.
std::vector<double> ValuesOf(const Rewriter& r, ValueId v) {
  if (v == kNoValue) return {0.0};
  const ConstTensor& c = r.desc(v).constant;
  return c ? ToDoubles(*c) : std::vector<double>();
}

// The largest distance from a zero point.
double Farthest(const Dequantised& d, const std::vector<double>& zeros) {
  const ops::IntRange range = ops::RangeOf(d.dtype);
  double most = 0;
  for (double z : zeros) most = std::max({most, range.hi - z, z - range.lo});
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
    const bool gemm = node.op == Known().Gemm;
    if (gemm && (node.attrs.Float("alpha", 1) != 1 || node.attrs.Float("beta", 1) != 1 ||
                 node.attrs.Int("transA", 0)))
      return "integer products have no alpha, beta and transA";
    const ConstTensor& w = r.desc(p.b.q).constant;
    if (!w || w->dims().rank() != 2) return "the second operand is no constant matrix";
    return CheckScales(*w, gemm && node.attrs.Int("transB", 0));
  }

  const char* CheckScales(const HostTensor& w, bool transposed) {
    const int columns = transposed ? 0 : 1;
    const auto sa = ValuesOf(r, p.a.scale), sb = ValuesOf(r, p.b.scale), za = ValuesOf(r, p.a.zero),
               zb = ValuesOf(r, p.b.zero);
    if (sa.empty() || sb.empty() || za.empty() || zb.empty())
      return "a scale or zero point is known only when the model runs";
    if (r.desc(p.a.scale).dtype != DType::kF32 || r.desc(p.b.scale).dtype != DType::kF32)
      return "a scale is no f32";
    if (sa.size() != 1 || za.size() != 1) return "the scale of the first operand varies along the sums";
    const bool varies = sb.size() > 1 || zb.size() > 1;
    if (varies && ops::QuantAxis(&g.nodes[p.b.node].attrs.get(), 2) != columns)
      return "the scale of the weights varies along the sums";
    if (!FitsSums(static_cast<double>(w.dims()[1 - columns]), Farthest(p.a, za), Farthest(p.b, zb)))
      return "the sums may be beyond 32 bits";
    std::vector<float> scales;
    for (double s : sb) {
      const auto f = static_cast<float>(sa[0] * s);
      if (!std::isnormal(f)) return "the product of the scales is no normal f32";
      scales.push_back(f);
    }
    const auto count = static_cast<int64_t>(scales.size());
    p.scale = HostTensor::From<float>(count == 1 ? Dims{} : Dims{count}, scales);
    if (transposed) p.transposed_b = Transposed(w);
    return p.scale && (!transposed || p.transposed_b) ? nullptr : "there is no memory for it";
  }
};

}  // namespace

std::optional<QuantisedProduct> AsQuantisedProduct(const Rewriter& r, NodeId n) {
  const Graph& g = const_cast<Rewriter&>(r).graph();
  const Node& node = g.nodes[n];
  if (node.dead || node.tail || (node.op != Known().MatMul && node.op != Known().Gemm)) return std::nullopt;
  if (node.inputs.size() < 2 || node.outputs.size() != 1) return std::nullopt;
  Found f{g, r, node, {}};
  f.p.a = AsDequantised(r, g, node.inputs[0]), f.p.b = AsDequantised(r, g, node.inputs[1]);
  if (f.p.a.node < 0 && f.p.b.node < 0) return std::nullopt;
  f.p.refusal = f.Check();
  return std::move(f.p);
}

bool MultipliesBytesFaster() {
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  return host.mac(DType::kS8) > host.mac(DType::kF32);
}

}  // namespace opsnn::graph
