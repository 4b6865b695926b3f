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

Status InferPair(op::InferContext& c) {
  const TensorDesc &x = *c.inputs[0], &w = *c.inputs[1], &w2 = *c.inputs[2];
  TensorDesc y;
  y.dtype = x.dtype;
  if (!x.known_rank || !w.known_rank || !w2.known_rank) {
    y.known_rank = false;
    c.outputs.assign(1, y);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const ConvCall call,
                         ResolveConv(kConvPair, false, x.dims, w.dims, op::AttrsOf(c.attrs)));
  const int64_t channels = call.out[1];
  if (w2.dims.rank() != 4 || w2.dims[2] != 1 || w2.dims[3] != 1 ||
      (channels >= 0 && w2.dims[1] >= 0 && w2.dims[1] != channels)) {
    return InvalidArgument("%s: W2 has shape %s; allowed: (O, %lld, 1, 1)", kConvPair,
                           ToString(w2.dims).c_str(), ll{channels});
  }
  const auto input = [&c](size_t i) { return i < c.inputs.size() ? c.inputs[i] : nullptr; };
  OPSNN_RETURN_IF_ERROR(CheckVector("B", input(3), channels));
  OPSNN_RETURN_IF_ERROR(CheckVector("B2", input(4), w2.dims[0]));
  y.dims = call.out;
  y.dims[1] = w2.dims[0];
  c.outputs.assign(1, y);
  return OkStatus();
}

}  // namespace

Result<PairShapes> PairShapesOf(const Dims& x, const Dims& w, const Dims& w2, const op::Attrs& attrs) {
  OPSNN_ASSIGN_OR_RETURN(const conv::ConvShape first, ShapeOfCall(kConvPair, false, x, w, attrs));
  PairShapes s{first, {}};
  s.second.n = first.n, s.second.c = first.oc, s.second.oc = w2[0];
  s.second.h = s.second.oh = first.oh, s.second.w = s.second.ow = first.ow;
  return s;
}

PairActivation PairActivation::Of(const op::Attrs& attrs) {
  PairActivation a;
  const std::string name = attrs.String("activation", "none");
  for (const NamedAct& known : kActs)
    if (name == known.name) a.act = known.act;
  const std::vector<double> values = attrs.Floats("activation_values");
  for (size_t i = 0; i < std::min<size_t>(2, values.size()); ++i) a.imm[i] = static_cast<float>(values[i]);
  return a;
}

void PairActivation::Set(op::Attrs* attrs) const {
  for (const NamedAct& known : kActs)
    if (act == known.act) attrs->Set("activation", std::string(known.name));
  attrs->Set("activation_values", std::vector<double>{double{imm[0]}, double{imm[1]}});
}

std::optional<PairActivation> PairActivation::FromTail(const Program& program) {
  if (program.num_inputs != 1 || program.outputs.size() != 1) return std::nullopt;
  const Result<ConvTail> t = CutTail(program, {false});
  if (!t.ok() || t->rest || t->affine || t->residual >= 0) return std::nullopt;
  for (const NamedAct& known : kActs)
    if (t->act == known.act) return PairActivation{t->act, {t->act_imm[0], t->act_imm[1]}};
  return std::nullopt;
}

std::optional<PairShapes> MatchPair(const TensorDesc& x, const TensorDesc& w, const op::Attrs& attrs,
                                    const TensorDesc& w2, const op::Attrs& attrs2, const plan::PairRoom& room,
                                    const char** why) {
  *why = nullptr;
  for (const TensorDesc* d : {&x, &w, &w2})
    if (!d->known_rank || !IsKnown(d->dims) || d->dims.rank() != 4 || d->dtype != DType::kF32)
      return std::nullopt;
  const Result<PairShapes> s = PairShapesOf(x.dims, w.dims, w2.dims, attrs);
  if (!s.ok()) return std::nullopt;
  const Result<conv::ConvShape> second =
      ShapeOfCall("Conv", false, {s->first.n, s->first.oc, s->first.oh, s->first.ow}, w2.dims, attrs2);
  if (!second.ok()) return std::nullopt;
  const char* const refusal = conv::PairRefusal(s->first, *second, {room.strip_bytes, room.weight_bytes});
  if (!refusal && !second->im2col && !s->first.im2col) return *s;
  const bool both = !conv::PairRefusal(s->first, *second, {room.strip_bytes, int64_t{1} << 62});
  if (both) *why = refusal ? refusal : "im2col is asked for";
  return std::nullopt;
}

plan::PairEdge EdgeOf(const PairShapes& s, int threads, const plan::PairRoom& room) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  const conv::ConvShape& a = s.first;
  plan::PairEdge e;
  e.images = a.n, e.rows = a.oh, e.columns = a.ow;
  e.channels = a.oc, e.taps = a.taps(), e.out_channels = s.second.oc;
  e.input_bytes = a.n * a.c * a.plane() * kSize;
  e.strip_rows = conv::PairStripRows(a, threads, room.strip_bytes);
  e.overlap_bytes = std::max<int64_t>(0, (a.kh - 1) * a.dh + 1 - a.sh) * a.w * a.c * kSize;
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
    const auto s = MatchPair(p.x, p.first_weights, p.first, p.second_weights, p.second, room, why);
    if (s) *e = EdgeOf(*s, cores, room);
    return s.has_value();
  };
  advice.pair_attrs = [](const op::Attrs& first, const Program* between) -> std::optional<op::Attrs> {
    const auto act = between ? PairActivation::FromTail(*between) : PairActivation{};
    if (!act) return std::nullopt;
    op::Attrs attrs = first;
    attrs.Erase("im2col"), attrs.Erase("winograd");  // not attributes of the operator
    act->Set(&attrs);
    return attrs;
  };
}
