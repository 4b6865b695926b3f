#include "kernels/conv/pair.h"
#include "op/advice.h"
#include "op/pointwise.h"
#include "ops/conv/conv_pair.h"
#include "ops/conv/tail.h"
#include "plan/cost.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;
using ll = long long;

struct NamedAct {
  const char* name;
  RegAct act;
};
constexpr NamedAct kActs[] = {{"none", RegAct::kNone},
                              {"relu", RegAct::kRelu},
                              {"clip", RegAct::kClip},
                              {"hardswish", RegAct::kHardSwish}};

Status CheckVector(const char* what, const TensorDesc* b, int64_t channels) {
  if (!b || !b->known_rank || !IsKnown(b->dims) || channels == kUnknownDim || b->dims == Dims{channels})
    return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: [%lld], one value per output channel", kConvPair,
                         what, ToString(b->dims).c_str(), ll{channels});
}

// Weights of a product of the channels of such images.
Status CheckProduct(const char* name, const Dims& w, const char* what, const Dims& images) {
  const int64_t channels = images.rank() > 1 ? images[1] : kUnknownDim;
  if (w.rank() == 4 && w[2] == 1 && w[3] == 1 && images.rank() == 4 &&
      (channels < 0 || w[1] < 0 || w[1] == channels))
    return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: (O, %lld, 1, 1), %s, beside images of rank 4",
                         kConvPair, name, ToString(w).c_str(), ll{channels}, what);
}

Status InferPair(op::InferContext& c) {
  const auto input = [&c](size_t i) { return i < c.inputs.size() ? c.inputs[i] : nullptr; };
  const TensorDesc &x = *c.inputs[kPairX], &w = *c.inputs[kPairW], &w2 = *c.inputs[kPairW2];
  const TensorDesc* const w0 = input(kPairW0);
  TensorDesc y;
  y.dtype = x.dtype;
  if (!x.known_rank || !w.known_rank || !w2.known_rank || (w0 && !w0->known_rank)) {
    y.known_rank = false;
    c.outputs.assign(1, y);
    return OkStatus();
  }
  Dims image = x.dims;
  if (w0) {
    OPSNN_RETURN_IF_ERROR(CheckProduct("W0", w0->dims, "channels of X", x.dims));
    image[1] = w0->dims[0];
    OPSNN_RETURN_IF_ERROR(CheckVector("B0", input(kPairB0), w0->dims[0]));
  }
  OPSNN_ASSIGN_OR_RETURN(const ConvCall call,
                         ResolveConv(kConvPair, false, image, w.dims, op::AttrsOf(c.attrs)));
  const int64_t channels = call.out[1];
  OPSNN_RETURN_IF_ERROR(CheckProduct("W2", w2.dims, "channels of W", call.out));
  OPSNN_RETURN_IF_ERROR(CheckVector("B", input(kPairB), channels));
  OPSNN_RETURN_IF_ERROR(CheckVector("B2", input(kPairB2), w2.dims[0]));
  y.dims = call.out;
  y.dims[1] = w2.dims[0];
  c.outputs.assign(1, y);
  return OkStatus();
}

}  // namespace

Result<PairShapes> PairShapesOf(const Dims& x, const Dims& w, const Dims& w2, const Dims* w0,
                                const op::Attrs& attrs) {
  Dims image = x;
  if (w0) image[1] = (*w0)[0];
  OPSNN_ASSIGN_OR_RETURN(const conv::ConvShape first, ShapeOfCall(kConvPair, false, image, w, attrs));
  PairShapes s{first, {}, {}};
  if (w0) {
    conv::ConvShape& e = s.expand.emplace();
    e.n = first.n, e.c = x[1], e.oc = first.c;
    e.h = e.oh = first.h, e.w = e.ow = first.w;
  }
  s.second.n = first.n, s.second.c = first.oc, s.second.oc = w2[0];
  s.second.h = s.second.oh = first.oh, s.second.w = s.second.ow = first.ow;
  return s;
}

PairActivation PairActivation::Of(const op::Attrs& attrs, const char* name) {
  PairActivation a;
  const std::string act = attrs.String(name, "none");
  for (const NamedAct& known : kActs)
    if (act == known.name) a.act = known.act;
  const std::vector<double> values = attrs.Floats((std::string(name) + "_values").c_str());
  for (size_t i = 0; i < std::min<size_t>(2, values.size()); ++i) a.imm[i] = static_cast<float>(values[i]);
  return a;
}

void PairActivation::Set(const char* name, op::Attrs* attrs) const {
  for (const NamedAct& known : kActs)
    if (act == known.act) attrs->Set(name, std::string(known.name));
  attrs->Set((std::string(name) + "_values").c_str(), std::vector<double>{double{imm[0]}, double{imm[1]}});
}

std::optional<PairActivation> PairActivation::FromTail(const Program& program) {
  if (program.num_inputs != 1 || program.outputs.size() != 1) return std::nullopt;
  const Result<ConvTail> t = CutTail(program, {false});
  if (!t.ok() || t->rest || t->affine || t->residual >= 0) return std::nullopt;
  for (const NamedAct& known : kActs)
    if (t->act == known.act) return PairActivation{t->act, {t->act_imm[0], t->act_imm[1]}};
  return std::nullopt;
}

std::optional<PairShapes> MatchPair(const op::ConvPair& p, const plan::PairRoom& room, const char** why) {
  *why = nullptr;
  for (const TensorDesc* d : {&p.x, &p.first_weights, &p.second_weights, p.expand_weights})
    if (d && (!d->known_rank || !IsKnown(d->dims) || d->dims.rank() != 4 || d->dtype != DType::kF32))
      return std::nullopt;
  const Dims* const w0 = p.expand_weights ? &p.expand_weights->dims : nullptr;
  const Result<PairShapes> s =
      PairShapesOf(p.x.dims, p.first_weights.dims, p.second_weights.dims, w0, p.first);
  if (!s.ok()) return std::nullopt;
  const conv::ConvShape& a = s->first;
  const Result<conv::ConvShape> second =
      ShapeOfCall("Conv", false, {a.n, a.oc, a.oh, a.ow}, p.second_weights.dims, p.second);
  if (!second.ok()) return std::nullopt;
  conv::PairShape shape{a, *second, nullptr};
  bool im2col = second->im2col || a.im2col;
  std::optional<conv::ConvShape> expand;
  if (w0) {
    Result<conv::ConvShape> e = ShapeOfCall("Conv", false, p.x.dims, *w0, *p.expand);
    if (!e.ok()) return std::nullopt;
    expand = *std::move(e);
    im2col = im2col || expand->im2col;
    shape.expand = &*expand;
  }
  conv::PairLimits limits{room.strip_bytes, room.expanded_bytes, room.weight_bytes};
  const char* const refusal = conv::PairRefusal(shape, limits);
  if (!refusal && !im2col) return *s;
  limits.weight_bytes = int64_t{1} << 62;
  if (!w0 && !conv::PairRefusal(shape, limits)) *why = refusal ? refusal : "im2col is asked for";
  return std::nullopt;
}

plan::PairEdge EdgeOf(const PairShapes& s, int threads, const plan::PairRoom& room) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  const conv::ConvShape& a = s.first;
  const conv::PairCut cut =
      conv::CutPair(a, s.expand.has_value(), threads, {room.strip_bytes, room.expanded_bytes, 0});
  plan::PairEdge e;
  e.images = a.n, e.rows = a.oh, e.columns = a.ow;
  e.channels = a.oc, e.taps = a.taps(), e.out_channels = s.second.oc;
  e.input_bytes = a.n * (s.expand ? s.expand->c : a.c) * a.plane() * kSize;
  e.strip_rows = cut.rows, e.pieces = cut.pieces;
  const int64_t overlap = std::max<int64_t>(0, conv::RowsUnder(a, 1) - a.sh);
  e.overlap_bytes = overlap * a.w * a.c * kSize;
  if (s.expand) {
    e.expand_channels = s.expand->c;
    e.expanded_rows = a.h, e.expanded_columns = a.w;
    e.expanded_strip_rows = std::min(a.h, conv::RowsUnder(a, cut.rows));
  }
  return e;
}

}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DepthwisePointwise) {
  def.infer = [](op::InferContext& c) { return ops::InferPair(c); };
  def.plan = [](const op::PlanContext& c) { return ops::PlanConvolutionPair(c); };
}

OPSNN_DEFINE_ADVICE(DepthwisePointwise) {
  advice.pair = [](const op::ConvPair& p, const device::DeviceProfile& device, plan::PairEdge* e,
                   const char** why) {
    const int cores = plan::ActiveCores(device, 0);
    const plan::PairRoom room = plan::RoomOfPair(device, cores);
    const auto s = MatchPair(p, room, why);
    if (s) *e = EdgeOf(*s, cores, room);
    return s.has_value();
  };
  advice.pair_attrs = [](const op::Attrs& first, const Program* between,
                         const Program* expanded) -> std::optional<op::Attrs> {
    const auto of = [](const Program* p) -> std::optional<PairActivation> {
      return p ? PairActivation::FromTail(*p) : PairActivation{};
    };
    const auto act = of(between), expand_act = of(expanded);
    if (!act || !expand_act) return std::nullopt;
    op::Attrs attrs = first;
    attrs.Erase("im2col"), attrs.Erase("winograd");  // not attributes of the operator
    act->Set("activation", &attrs);
    if (expanded) expand_act->Set("expand_activation", &attrs);
    return attrs;
  };
}
