// aclnnRotaryPositionEmbedding, aclnnFusedInferAttentionScoreV2 and aclnnFlashAttentionScore, put together
// from programs, products and views.
#include <algorithm>
#include <limits>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// ---- rotation --------------------------------------------------------------------------------------------
// How the last dim falls into pairs (a, b) that turn together: y_a = a cos - b sin, y_b = b cos + a sin.
struct Pairs {
  int64_t outer = 1, inner, outer_step = 0, inner_step, b_offset;
};

// The a's of the last dim of `o`, one dim more than o has; `offset` elements on, the b's.
Operand PairView(Operand o, const Pairs& p, bool second) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  const int last = dims.rank() - 1;
  const int64_t step = strides[last];
  dims[last] = p.outer, strides[last] = p.outer_step * step;
  dims.push_back(p.inner), strides.push_back(p.inner_step * step);
  o.offset += second ? p.b_offset * step : 0;
  return WithView(o, dims, strides);
}

Program Rotate() {
  ProgramBuilder b;
  SlotId in[6];  // a, b, cos and sin at a, cos and sin at b
  for (SlotId& s : in) s = b.Input();
  b.Output(
      b.Binary(StageOp::kSub, b.Binary(StageOp::kMul, in[0], in[2]), b.Binary(StageOp::kMul, in[1], in[3])));
  b.Output(
      b.Binary(StageOp::kAdd, b.Binary(StageOp::kMul, in[1], in[4]), b.Binary(StageOp::kMul, in[0], in[5])));
  return std::move(b).Build();
}

}  // namespace

Status Adapt_RotaryPositionEmbedding(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), cos = Arg(call, "cos"), sin = Arg(call, "sin"), y = Arg(call, "out");
  const Dims& dims = x.desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 4));
  for (const Operand* o : {&cos, &sin, &y}) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 4, 4));
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, sin, cos));
  const int64_t mode = call.Int("mode"), d = dims[3];
  if (mode < 0 || mode > 3) return BadValue(call, "mode", std::to_string(mode), "0 to 3");
  for (int i = 0; i < 4; ++i) {
    if (cos.desc.dims[i] == dims[i] || (i < 3 && cos.desc.dims[i] == 1)) continue;
    return InvalidArgument("%s: cos has shape %s; allowed: dims of %s, the first three of them or 1",
                           call.function().api, ToString(cos.desc.dims).c_str(), ToString(dims).c_str());
  }
  const int64_t parts = mode == 2 ? 4 : 2;
  if (d % parts != 0) {
    return InvalidArgument("%s: x has shape %s; allowed: a last dim that %lld divides", call.function().api,
                           ToString(dims).c_str(), ll{parts});
  }
  const Pairs halves = {1, d / 2, 0, 1, d / 2}, neighbours = {1, d / 2, 0, 2, 1};
  const Pairs quarters = {2, d / 4, d / 2, 1, d / 4};
  const Pairs& from = mode == 0 ? halves : mode == 2 ? quarters : neighbours;
  const Pairs& to = mode == 3 ? halves : from;
  OpCall c = ProgramCall(Rotate(),
                         {PairView(x, from, false), PairView(x, from, true), PairView(cos, to, false),
                          PairView(sin, to, false), PairView(cos, to, true), PairView(sin, to, true)},
                         {PairView(y, to, false), PairView(y, to, true)});
  out = std::move(c);
  return OkStatus();
}

namespace {

// ---- attention -------------------------------------------------------------------------------------------
struct Heads {
  int64_t b, n, s, d;
};

// q, k, v or the result under (B, N, S, D), as the layout says.
Result<Operand> AsHeads(const Call& call, const Operand& o, const std::string& layout, int64_t heads) {
  const Dims &d = o.desc.dims, s = StridesOf(o.desc);
  const bool flat = layout == "BSH" || layout == "SBH";
  const int rank = flat ? 3 : 4, batch = layout == "SBH" ? 1 : 0, time = 1 - batch;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, o, rank, rank));
  if (flat) {
    if (d[2] % heads != 0) {
      return InvalidArgument("%s: %s has shape %s; allowed: a last dim that the %lld heads divide",
                             call.function().api, NameOf(call, o).c_str(), ToString(d).c_str(), ll{heads});
    }
    const int64_t size = d[2] / heads;
    return WithView(o, {d[batch], heads, d[time], size}, {s[batch], size * s[2], s[time], s[2]});
  }
  const Operand view = layout == "BSND" ? Permuted(o, {0, 2, 1, 3}) : o;
  if (view.desc.dims[1] == heads) return view;
  return InvalidArgument("%s: %s has shape %s; allowed: %lld heads, layout is %s", call.function().api,
                         NameOf(call, o).c_str(), ToString(d).c_str(), ll{heads}, layout.c_str());
}

// (B, N, S, D) with the heads as (kv heads, heads that share one).
Operand Grouped(const Operand& o, int64_t kv_heads) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  const int64_t group = dims[1] / kv_heads;
  dims.insert(1, kv_heads), strides.insert(1, strides[1] * group);
  dims[2] = group;
  return WithView(o, dims, strides);
}

// The lengths of the sequences; empty where none are given.
Result<std::vector<int64_t>> Lengths(const Call& call, const char* param, int64_t batch, int64_t longest) {
  std::vector<int64_t> v;
  if (!call.Given(param)) return v;
  v = call.Ints(param);
  if (v.empty()) return v;
  if (v.size() != 1 && static_cast<int64_t>(v.size()) < batch) {
    return InvalidArgument("%s: %s has %zu values; allowed: 1, or one for each of %lld", call.function().api,
                           param, v.size(), ll{batch});
  }
  v.resize(static_cast<size_t>(batch), v[0]);
  for (int64_t n : v) {
    if (n < 0 || n > longest) {
      return BadValue(call, param, "a list with " + std::to_string(n), StrFormat("0 to %lld", ll{longest}));
    }
  }
  return v;
}

// 1 where a key is out of reach: by length, and by the band that the mode, preTokens and nextTokens name.
// Absent where every key is in reach.
Result<Operand> OutOfBand(const Call& call, int64_t b, int64_t s1, int64_t s2, int64_t mode,
                          const std::vector<int64_t>& keys, const std::vector<int64_t>& queries) {
  const bool banded = mode >= 2;
  const bool short_keys = std::any_of(keys.begin(), keys.end(), [s2](int64_t n) { return n < s2; });
  if (!banded && !short_keys) return Operand{};
  const int64_t batches = keys.empty() && queries.empty() ? 1 : b, rows = banded ? s1 : 1;
  OPSNN_ASSIGN_OR_RETURN(const auto mask, NewConstant(call, DType::kBool, {batches, 1, 1, rows, s2}));
  auto* bits = static_cast<uint8_t*>(mask->data());
  for (int64_t i = 0; i < batches; ++i) {
    const int64_t length = keys.empty() ? s2 : keys[static_cast<size_t>(i)];
    // The diagonal ends in the last query and key of the sequence; in mode 2 it starts in the first ones.
    const int64_t query_length = queries.empty() ? s1 : queries[static_cast<size_t>(i)];
    const int64_t shift = mode == 2 ? 0 : length - query_length;
    const int64_t before = mode == 4 ? call.Int("preTokens") : std::numeric_limits<int32_t>::max();
    const int64_t behind = mode == 4 ? call.Int("nextTokens") : 0;
    for (int64_t q = 0; q < rows; ++q) {
      for (int64_t k = 0; k < s2; ++k, ++bits) {
        const int64_t ahead = k - (q + shift);
        *bits = k >= length || (banded && (ahead > behind || -ahead > before));
      }
    }
  }
  return Constant(mask);
}

Result<Operand> OutOfReach(const Call& call, int64_t b, int64_t s1, int64_t s2) {
  OPSNN_ASSIGN_OR_RETURN(const auto keys, Lengths(call, "actualSeqLengthsKvOptional", b, s2));
  OPSNN_ASSIGN_OR_RETURN(const auto queries, Lengths(call, "actualSeqLengthsOptional", b, s1));
  return OutOfBand(call, b, s1, s2, s1 == 1 ? 0 : call.Int("sparseMode"), keys, queries);
}

// attenMaskOptional as (B or 1, 1, 1, S1 or 1, S2), the surplus of padded sizes cut off.
Result<Operand> GivenMask(const Call& call, int64_t b, int64_t s1, int64_t s2, int64_t mode) {
  const Operand m = Arg(call, "attenMaskOptional");
  if (!m.given()) {
    if (mode == 0) return m;
    return Errorf(Code::kNull, "%s: attenMaskOptional is null; it is required where sparseMode is %lld",
                  call.function().api, ll{mode});
  }
  if (mode >= 2) return Operand{};  // a fixed pattern that the mode says as well
  OPSNN_RETURN_IF_ERROR(RequireRank(call, m, 2, 4));
  Dims dims = m.desc.dims, strides = StridesOf(m.desc);
  if (dims.rank() == 2) {  // (S1, S2), or (B, S2) for single queries
    const int at = s1 == 1 ? 1 : 0;
    dims.insert(at, 1), strides.insert(at, 0);
  }
  if (dims.rank() == 3) dims.insert(1, 1), strides.insert(1, 0);
  const bool fits = (dims[0] == 1 || dims[0] == b) && dims[1] == 1 && dims[3] >= s2 &&
                    (dims[2] >= s1 || (s1 == 1 && dims[2] == 1));
  if (!fits) {
    return InvalidArgument(
        "%s: attenMaskOptional has shape %s; allowed: (S1, S2) = (%lld, %lld), batches of "
        "%lld or 1 before it",
        call.function().api, ToString(m.desc.dims).c_str(), ll{s1}, ll{s2}, ll{b});
  }
  dims[2] = s1, dims[3] = s2;
  dims.insert(1, 1), strides.insert(1, 0);
  return WithView(m, dims, strides);
}

// pseShiftOptional as (B or 1, kv heads, group, S1, S2).
Result<Operand> Shift(const Call& call, const Heads& q, int64_t kv_heads, int64_t s2) {
  Operand p = Arg(call, "pseShiftOptional");
  if (!p.given()) return p;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, p, 4, 4));
  const Dims& d = p.desc.dims;
  if ((d[0] != 1 && d[0] != q.b) || d[1] != q.n || d[2] < q.s || d[3] < s2) {
    return InvalidArgument("%s: pseShiftOptional has shape %s; allowed: (%lld or 1, %lld, %lld, %lld)",
                           call.function().api, ToString(d).c_str(), ll{q.b}, ll{q.n}, ll{q.s}, ll{s2});
  }
  p = WithView(p, {d[0], d[1], q.s, s2}, StridesOf(p.desc));
  return Grouped(p, kv_heads);
}

// What of the softmax is wanted besides the probabilities, per row.
enum class Saved : uint8_t { kNothing, kLogSum, kMaxAndSum };

// scale * scores (+ shift), masked, as probabilities; rows without a key in reach are 0.
Program Probabilities(double scale, bool shift, int masks, Saved saved) {
  ProgramBuilder b;
  const SlotId scores = b.Input();
  const SlotId shift_in = shift ? b.Input() : kNoSlot;
  SlotId mask_in[2] = {kNoSlot, kNoSlot};
  for (int i = 0; i < masks; ++i) mask_in[i] = b.Input(ComputeType::kS32);
  SlotId masked = kNoSlot;
  for (int i = 0; i < masks; ++i) {
    const SlotId m = b.Convert(mask_in[i], ComputeType::kF32);
    masked = i ? b.Binary(StageOp::kMax, masked, m) : m;
  }
  SlotId x = b.Unary(StageOp::kAffine, scores, scale, 0);
  if (shift) x = b.Binary(StageOp::kAdd, x, shift_in);
  const double lowest = -double{std::numeric_limits<float>::max()};
  if (masks) x = b.Ternary(StageOp::kSelect, masked, b.Const(lowest), x);
  const SlotId max = b.Unary(StageOp::kRowMax, x);
  SlotId e = b.Unary(StageOp::kExp, b.Binary(StageOp::kSub, x, max));
  if (masks) e = b.Ternary(StageOp::kSelect, masked, b.Const(0), e);
  const SlotId sum = b.Unary(StageOp::kRowSum, e);
  // A sum of no exponentials stays above 0, so that such rows give 0 and not NaN.
  const SlotId floor = b.Const(double{std::numeric_limits<float>::min()}, ComputeType::kF32, true);
  b.Output(b.Binary(StageOp::kDiv, e, b.Binary(StageOp::kMax, sum, floor)));
  if (saved == Saved::kLogSum) b.Output(b.Binary(StageOp::kAdd, b.Unary(StageOp::kLog, sum), max));
  if (saved == Saved::kMaxAndSum) b.Output(max), b.Output(sum);
  return std::move(b).Build();
}

// Batches [from, from + count) of an operand whose first dim is the batch; of one for all, the whole.
Operand Batches(Operand o, int64_t from, int64_t count) {
  if (!o.given() || o.desc.dims[0] == 1) return o;
  const Dims s = StridesOf(o.desc);
  Dims dims = o.desc.dims;
  o.offset += from * s[0];
  dims[0] = count;
  return WithView(o, dims, s);
}

struct Attention {
  Operand q, shift, mask, reach, y;  // (B, kv heads, group, S1, ...)
  Saved saved = Saved::kNothing;
  std::vector<Operand> rows;  // for what is saved
  double scale;
  int64_t kv_heads;
};

// The three steps of batches [from, from + count) against one key and value tensor (B, kv heads, S2, D).
Status AddSteps(const Attention& a, const Operand& k, const Operand& v, int64_t from, int64_t count,
                OpCall* out) {
  auto widened = [](const Operand& o) {
    Dims dims = o.desc.dims, strides = StridesOf(o.desc);
    dims.insert(2, 1), strides.insert(2, 0);
    return WithView(o, dims, strides);
  };
  const Operand q = Batches(a.q, from, count), y = Batches(a.y, from, count);
  const Operand keys = Permuted(widened(k), {0, 1, 2, 4, 3}), values = widened(v);
  Dims dims = q.desc.dims;
  dims[4] = k.desc.dims[2];
  const Operand scores = out->Temp(DType::kF32, dims);
  OpCall product;
  product.op = op::FindOperator("MatMul");
  product.inputs = {q, keys};
  product.outputs = {scores};
  product.converts_output = true;
  out->first.push_back(std::move(product));

  std::vector<Operand> inputs = {scores}, outputs = {scores};
  if (a.shift.given()) inputs.push_back(Batches(a.shift, from, count));
  int masks = 0;
  for (const Operand* m : {&a.mask, &a.reach}) {
    if (m->given()) inputs.push_back(Batches(*m, from, count)), ++masks;
  }
  for (const Operand& o : a.rows) outputs.push_back(Batches(o, from, count));
  out->first.push_back(ProgramCall(Probabilities(a.scale, a.shift.given(), masks, a.saved), std::move(inputs),
                                   std::move(outputs), 1));
  OpCall sum;
  sum.op = op::FindOperator("MatMul");
  sum.inputs = {scores, WithDType(values, DType::kF32)};
  sum.outputs = {y};
  sum.converts_output = true;
  out->first.push_back(std::move(sum));
  return OkStatus();
}

Status RefuseOthers(const Call& call) {
  static constexpr const char* kAbsent[] = {
      "deqScale1Optional",           "quantScale1Optional",          "deqScale2Optional",
      "quantScale2Optional",         "quantOffset2Optional",         "antiquantScaleOptional",
      "antiquantOffsetOptional",     "blockTableOptional",           "queryPaddingSizeOptional",
      "kvPaddingSizeOptional",       "keyAntiquantScaleOptional",    "keyAntiquantOffsetOptional",
      "valueAntiquantScaleOptional", "valueAntiquantOffsetOptional", "keySharedPrefixOptional",
      "valueSharedPrefixOptional",   "actualSharedPrefixLenOptional"};
  for (const char* p : kAbsent) {
    if (!call.Given(p)) continue;
    return Errorf(Code::kNotImplemented,
                  "%s: %s is given; quantised, paged, padded and prefixed keys are not implemented",
                  call.function().api, p);
  }
  const int64_t mode = call.Int("sparseMode");
  if (mode < 0 || mode > 4) return BadValue(call, "sparseMode", std::to_string(mode), "0 to 4");
  const int64_t precise = call.Int("innerPrecise");
  if (precise < 0 || precise > 3) return BadValue(call, "innerPrecise", std::to_string(precise), "0 to 3");
  return OkStatus();
}

}  // namespace

Status Adapt_FusedInferAttentionScore(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  OPSNN_RETURN_IF_ERROR(RefuseOthers(call));
  const char* text = static_cast<const char*>(call.arguments()[call.Index("inputLayout")].raw.p);
  const std::string given = text, layout = given == "BNSD_BSND" ? "BNSD" : given;
  if (layout != "BSH" && layout != "BSND" && layout != "BNSD") {
    return BadValue(call, "inputLayout", given, "BSH, BSND, BNSD, BNSD_BSND");
  }
  const int64_t heads = call.Int("numHeads");
  const int64_t kv_heads = call.Int("numKeyValueHeads") ? call.Int("numKeyValueHeads") : heads;
  if (heads < 1) return BadValue(call, "numHeads", std::to_string(heads), "1 or more");
  if (kv_heads < 1 || heads % kv_heads != 0) {
    return BadValue(call, "numKeyValueHeads", std::to_string(kv_heads),
                    StrFormat("0, or divisors of the %lld heads", ll{heads}));
  }
  const Operand query = Arg(call, "query"), result = Arg(call, "attentionOut");
  OPSNN_RETURN_IF_ERROR(RequireDType(call, result, query.desc.dtype, "query"));
  OPSNN_ASSIGN_OR_RETURN(const Operand q, AsHeads(call, query, layout, heads));
  OPSNN_ASSIGN_OR_RETURN(const Operand y,
                         AsHeads(call, result, given == "BNSD_BSND" ? "BSND" : layout, heads));
  const Heads h = {q.desc.dims[0], heads, q.desc.dims[2], q.desc.dims[3]};

  std::vector<Operand> keys, values;
  for (const char* param : {"key", "value"}) {
    const Argument& list = call.arguments()[call.Index(param)];
    auto& views = param[0] == 'k' ? keys : values;
    for (int t = list.first_tensor; t < list.first_tensor + list.num_tensors; ++t) {
      const Operand o{t, call.Desc(t)};
      OPSNN_RETURN_IF_ERROR(RequireDType(call, o, query.desc.dtype, "query"));
      OPSNN_ASSIGN_OR_RETURN(const Operand view, AsHeads(call, o, layout, kv_heads));
      views.push_back(view);
    }
  }
  const bool split = keys.size() > 1;  // one tensor per batch
  if (keys.empty() || keys.size() != values.size() || (split && static_cast<int64_t>(keys.size()) != h.b)) {
    return InvalidArgument(
        "%s: key has %zu tensors and value %zu; allowed: one each, or one for each of %lld", api, keys.size(),
        values.size(), ll{h.b});
  }
  int64_t longest = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Dims &k = keys[i].desc.dims, &v = values[i].desc.dims;
    if (k[0] != (split ? 1 : h.b) || k[3] != h.d || v[0] != k[0] || v[2] != k[2]) {
      return InvalidArgument(
          "%s: %s and %s have shapes %s and %s as (B, N, S, D); allowed: those of query %s, "
          "of one length",
          api, NameOf(call, keys[i]).c_str(), NameOf(call, values[i]).c_str(), ToString(k).c_str(),
          ToString(v).c_str(), ToString(q.desc.dims).c_str());
    }
    longest = std::max(longest, k[2]);
    if (split && k[2] != keys[0].desc.dims[2]) {
      return Errorf(Code::kNotImplemented, "%s: key holds tensors of several lengths; not implemented", api);
    }
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, WithView(y, y.desc.dims, StridesOf(y.desc)),
                                     {h.b, h.n, h.s, values[0].desc.dims[3]}, "as (B, N, S, D)"));
  Attention a;
  a.scale = call.Double("scaleValue");
  a.kv_heads = kv_heads;
  a.q = Grouped(q, kv_heads);
  a.y = Grouped(y, kv_heads);
  OPSNN_ASSIGN_OR_RETURN(a.shift, Shift(call, h, kv_heads, longest));
  OPSNN_ASSIGN_OR_RETURN(a.mask, GivenMask(call, h.b, h.s, longest, h.s == 1 ? 0 : call.Int("sparseMode")));
  OPSNN_ASSIGN_OR_RETURN(a.reach, OutOfReach(call, h.b, h.s, longest));
  const Operand lse = Arg(call, "softmaxLse");
  if (call.Int("softmaxLseFlag") != 0) {
    if (!lse.given()) return Errorf(Code::kNull, "%s: softmaxLse is null; softmaxLseFlag asks for it", api);
    OPSNN_RETURN_IF_ERROR(RequireShape(call, lse, {h.b, h.n, h.s, 1}, "(B, N, S, 1)"));
    a.saved = Saved::kLogSum;
    a.rows = {Grouped(lse, kv_heads)};
  }
  if (longest == 0) {  // nothing to attend to
    out.op = op::FindOperator("Identity");
    out.inputs = {BroadcastView(ConstantFloat(0, y.desc.dtype), y.desc.dims)};
    out.outputs = {y};
    return OkStatus();
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    OPSNN_RETURN_IF_ERROR(AddSteps(a, keys[i], values[i], at, split ? 1 : h.b, &out));
  }
  // The last of the steps stands for the call itself.
  OpCall last = std::move(out.first.back());
  out.first.pop_back();
  Take(std::move(last), &out);
  return OkStatus();
}

// The attention of training: softmaxMaxOut and softmaxSumOut keep eight copies of each row's value.
Status Adapt_FlashAttention(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  for (const char* p : {"realShiftOptional", "dropMaskOptional", "paddingMaskOptional", "prefixOptional"}) {
    if (!call.Given(p)) continue;
    return Errorf(Code::kNotImplemented, "%s: %s is given; shifts, dropout and prefixes are not implemented",
                  api, p);
  }
  if (call.Double("keepProb") != 1)
    return BadValue(call, "keepProb", StrFormat("%g", call.Double("keepProb")),
                    "1, as there is no dropMaskOptional");
  const std::string layout = static_cast<const char*>(call.arguments()[call.Index("inputLayout")].raw.p);
  if (layout != "BSH" && layout != "SBH" && layout != "BSND" && layout != "BNSD")
    return BadValue(call, "inputLayout", layout, "BSH, SBH, BSND, BNSD");
  const int64_t heads = call.Int("headNum"), mode = call.Int("sparseMode");
  if (heads < 1) return BadValue(call, "headNum", std::to_string(heads), "1 or more");
  if (mode < 0 || mode > 4) return BadValue(call, "sparseMode", std::to_string(mode), "0 to 4");
  const Operand query = Arg(call, "query"), result = Arg(call, "attentionOutOut");
  const Operand key = Arg(call, "key"), value = Arg(call, "value");
  for (const Operand* o : {&key, &value, &result})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, query.desc.dtype, "query"));
  OPSNN_ASSIGN_OR_RETURN(const Operand q, AsHeads(call, query, layout, heads));
  OPSNN_ASSIGN_OR_RETURN(const Operand y, AsHeads(call, result, layout, heads));
  const Heads h = {q.desc.dims[0], heads, q.desc.dims[2], q.desc.dims[3]};
  // Keys have heads of the queries' size, fewer of them where several queries share one.
  const bool flat = layout == "BSH" || layout == "SBH";
  OPSNN_RETURN_IF_ERROR(RequireRank(call, key, query.desc.dims.rank(), query.desc.dims.rank()));
  const int64_t kv_heads = flat               ? (h.d == 0 ? 0 : key.desc.dims[2] / h.d)
                           : layout == "BSND" ? key.desc.dims[2]
                                              : key.desc.dims[1];
  if (kv_heads < 1 || heads % kv_heads != 0) {
    return InvalidArgument("%s: key has shape %s; allowed: a number of heads that divides the %lld of query",
                           api, ToString(key.desc.dims).c_str(), ll{heads});
  }
  OPSNN_ASSIGN_OR_RETURN(const Operand k, AsHeads(call, key, layout, kv_heads));
  OPSNN_ASSIGN_OR_RETURN(const Operand v, AsHeads(call, value, layout, kv_heads));
  const int64_t s2 = k.desc.dims[2];
  if (!(k.desc.dims == Dims{h.b, kv_heads, s2, h.d}) || v.desc.dims[0] != h.b || v.desc.dims[2] != s2) {
    return InvalidArgument(
        "%s: key and value have shapes %s and %s as (B, N, S, D); allowed: those of query %s", api,
        ToString(k.desc.dims).c_str(), ToString(v.desc.dims).c_str(), ToString(q.desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {h.b, h.n, h.s, v.desc.dims[3]}, "as (B, N, S, D)"));
  if (s2 == 0) return BadValue(call, "key", "empty", "one key or more");
  Attention a;
  a.scale = call.Double("scaleValue");
  a.kv_heads = kv_heads;
  a.q = Grouped(q, kv_heads);
  a.y = Grouped(y, kv_heads);
  OPSNN_ASSIGN_OR_RETURN(a.mask, GivenMask(call, h.b, h.s, s2, mode));
  OPSNN_ASSIGN_OR_RETURN(a.reach, OutOfBand(call, h.b, h.s, s2, mode, {}, {}));
  a.saved = Saved::kMaxAndSum;
  constexpr int64_t kCopies = 8;
  std::vector<std::pair<Operand, Operand>> copies;
  for (const char* p : {"softmaxMaxOut", "softmaxSumOut"}) {
    const Operand o = Arg(call, p), row = out.Temp(DType::kF32, {h.b, h.n, h.s, 1});
    OPSNN_RETURN_IF_ERROR(RequireShape(call, o, {h.b, h.n, h.s, kCopies}, "(B, N, S, 8)"));
    a.rows.push_back(Grouped(row, kv_heads));
    copies.emplace_back(row, o);
  }
  OPSNN_RETURN_IF_ERROR(AddSteps(a, k, v, 0, h.b, &out));
  for (const auto& [row, o] : copies)
    out.first.push_back(CallOf("Identity", {BroadcastView(row, o.desc.dims)}, {o}));
  OpCall last = std::move(out.first.back());
  out.first.pop_back();
  Take(std::move(last), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
