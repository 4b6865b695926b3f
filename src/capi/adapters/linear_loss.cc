// A linear layer and the cross entropy behind it, for a vocabulary that is divided among devices: what one
// part says about its logits, and the gradients through them. The logits exist for some rows at a time.
#include <algorithm>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/tiles.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kBits = 8;  // of a mask byte, the first row in the lowest

// Rows whose logits are held at a time: about 16 MiB of them, and enough for a product.
int64_t RowsAtATime(int64_t rows, int64_t vocabulary) {
  constexpr int64_t kBytes = int64_t{16} << 20, kFewest = 64;
  const int64_t fit = kBytes / (static_cast<int64_t>(sizeof(float)) * std::max<int64_t>(1, vocabulary));
  return std::min(rows, std::max(kFewest, fit));
}

// Rows [from, from + count).
Operand Rows(Operand o, int64_t from, int64_t count) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  dims[0] = count;
  o.offset += from * strides[0];
  return WithView(o, dims, strides);
}

// [n] as [n, 1].
Operand Column(const Operand& o) { return WithView(o, {o.desc.dims[0], 1}, {StridesOf(o.desc)[0], 0}); }

Operand Powers() {
  auto t = std::make_shared<HostTensor>(DType::kF32, Dims{kBits});
  for (int i = 0; i < kBits; ++i) t->as<float>()[i] = static_cast<float>(1 << i);
  return Constant(std::move(t));
}

struct Layer {
  Operand input, weight;
  int64_t rows = 0, width = 0, vocabulary = 0;
};

Result<Layer> LayerOf(const Call& call) {
  Layer l{Arg(call, "input"), Arg(call, "weight"), 0, 0, 0};
  for (const Operand* o : {&l.input, &l.weight}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, l.weight, l.input.desc.dtype, "input"));
  l.rows = l.input.desc.dims[0], l.width = l.input.desc.dims[1], l.vocabulary = l.weight.desc.dims[0];
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, l.weight, {l.vocabulary, l.width}, "rows as long as those of input"));
  return l;
}

// mask (1 where the target is not here) and the target's place, both in s64. What has no row of weights is
// not here, whatever vocabEndIndex says.
void AppendTargets(const Call& call, int64_t vocabulary, const Operand& target, const Operand& outside,
                   const Operand& place, OpCall* out) {
  const int64_t start = call.Int("vocabStartIndex");
  const int64_t end = std::min(call.Int("vocabEndIndex") - start, vocabulary - 1) + start;
  ProgramBuilder b;
  SlotId t = b.Input(ComputeTypeOf(target.desc.dtype));
  if (ComputeTypeOf(target.desc.dtype) != ComputeType::kS64) t = b.Convert(t, ComputeType::kS64);
  auto number = [&](int64_t v) { return b.Const(static_cast<double>(v), ComputeType::kS64); };
  const SlotId no = b.Binary(StageOp::kOr, b.Binary(StageOp::kLess, t, number(start)),
                             b.Binary(StageOp::kGreater, t, number(end)));
  b.Output(no);
  b.Output(b.Ternary(StageOp::kSelect, no, number(0), b.Binary(StageOp::kSub, t, number(start))));
  out->first.push_back(ProgramCall(std::move(b).Build(), {target}, {outside, place}));
}

}  // namespace

Status Adapt_FusedLinearOnlineMaxSum(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Layer l, LayerOf(call));
  const Operand target = Arg(call, "target"), most = Arg(call, "logitsMaxLocalOut"),
                sum = Arg(call, "sumExpLogitsLocalOut"), predicted = Arg(call, "predictedLogitsLocalOut"),
                mask = Arg(call, "targetMaskOut"), masked = Arg(call, "maskedTargetOut"),
                logits = Arg(call, "vocabParallelLogitsOutOptional");
  if (l.vocabulary < 1)
    return BadValue(call, "weight", "of shape " + ToString(l.weight.desc.dims), "one row or more");
  for (const Operand* o : {&target, &most, &sum, &predicted, &masked})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {l.rows}, "one value per row of input"));
  const int64_t bytes = (l.rows + kBits - 1) / kBits;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, mask, {bytes}, "a bit per row of input"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, masked, target.desc.dtype, "target"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, logits, {l.rows, l.vocabulary}, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, logits, l.input.desc.dtype, "input"));
  const int64_t start = call.Int("vocabStartIndex"), end = call.Int("vocabEndIndex");
  if (start < 0) return BadValue(call, "vocabStartIndex", std::to_string(start), "0 or more");
  if (end < start) {
    return BadValue(call, "vocabEndIndex", std::to_string(end),
                    StrFormat("%lld or more, vocabStartIndex", static_cast<long long>(start)));
  }
  // Where the targets are, one mask bit each; the bits behind the last row are 1.
  const Operand bits = out.Temp(DType::kS64, {bytes * kBits}), place = out.Temp(DType::kS64, {l.rows});
  const Operand outside = WithView(bits, {l.rows}, {1});
  out.first.push_back(
      CallOf("Identity", {BroadcastView(ConstantFloat(1, DType::kS64), bits.desc.dims)}, {bits}));
  AppendTargets(call, l.vocabulary, target, outside, place, &out);
  out.first.push_back(
      FormulaCall({Reshaped(bits, {bytes, kBits}), Powers()}, {Column(mask)}, 1,
                  [](ProgramBuilder&, Formula& f) { return std::vector<Term>{RowSum(f.In(0) * f.In(1))}; }));
  const int64_t step = RowsAtATime(l.rows, l.vocabulary);
  const Operand chunk = out.Temp(DType::kF32, {step, l.vocabulary}), hit = out.Temp(DType::kF32, {l.rows, 1});
  for (int64_t from = 0; from < l.rows; from += step) {
    const int64_t count = std::min(step, l.rows - from);
    const Operand z = Rows(chunk, 0, count);
    out.first.push_back(FloatProduct(Rows(l.input, from, count), Permuted(l.weight, {1, 0}), z));
    std::vector<Operand> results = {Column(Rows(most, from, count)), Column(Rows(sum, from, count))};
    if (logits.given()) results.push_back(Rows(logits, from, count));
    out.first.push_back(FormulaCall({z}, std::move(results), 1, [&](ProgramBuilder&, Formula& f) {
      const Term top = f.Unary(StageOp::kRowMax, f.In(0));
      std::vector<Term> terms = {top, RowSum(Exp(f.In(0) - top))};
      if (logits.given()) terms.push_back(f.In(0));
      for (Term& t : terms) t.slot = f.Finish(t);
      return terms;
    }));
    OpCall gather = CallOf("GatherElements", {z, Reshaped(Rows(place, from, count), {count, 1})},
                           {Rows(hit, from, count)});
    gather.attrs.Set("axis", int64_t{1});
    out.first.push_back(std::move(gather));
  }
  const Operand no = WithDType(outside, DType::kF32);
  out.first.push_back(
      FormulaCall({Reshaped(hit, {l.rows}), most, no}, {predicted}, 0, [](ProgramBuilder&, Formula& f) {
        return std::vector<Term>{Select(f.In(2), 0.0, f.In(0) - f.In(1))};
      }));
  OpCall last = CallOf("Identity", {WithDType(place, masked.desc.dtype)}, {masked});
  Take(std::move(last), &out);
  return OkStatus();
}

namespace {

// The targets that are here, as f32 numbers of their logits; -1 where they are not. f32 counts 2^24 of them.
Status AppendPlaces(const Call& call, const Layer& l, const Operand& places, OpCall* out) {
  const Operand mask = Arg(call, "targetMask"), target = Arg(call, "maskedTarget");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, mask, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, target, {l.rows}, "as long as grad"));
  const int64_t bytes = (l.rows + kBits - 1) / kBits;
  if (mask.desc.dims[0] < bytes) {
    return BadValue(call, "targetMask", "of shape " + ToString(mask.desc.dims),
                    StrFormat("%lld elements or more, a bit per row", static_cast<long long>(bytes)));
  }
  const Operand bits = out->Temp(DType::kF32, {bytes, kBits});
  const Operand each = WithView(WithDType(mask, DType::kF32), {bytes, kBits}, {StridesOf(mask.desc)[0], 0});
  out->first.push_back(FormulaCall({each, Powers()}, {bits}, 0, [](ProgramBuilder&, Formula& f) {
    const Term shifted = Floor(f.In(0) / f.In(1));
    return std::vector<Term>{shifted - Floor(shifted * 0.5) * 2.0};
  }));
  const Operand here = WithView(bits, {l.rows}, {1});
  out->first.push_back(FormulaCall(
      {here, WithDType(target, DType::kF32)}, {places}, 0,
      [](ProgramBuilder&, Formula& f) { return std::vector<Term>{Select(f.In(0), -1.0, f.In(1))}; }));
  return OkStatus();
}

}  // namespace

Status Adapt_FusedLinearCrossEntropyLossGrad(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Layer l, LayerOf(call));
  const Operand grad = Arg(call, "grad"), softmax = Arg(call, "softmaxOptional"),
                most = Arg(call, "logitsMaxOptional"), sum = Arg(call, "sumExpLogitsOptional"),
                dinput = Arg(call, "inputGradOut"), dweight = Arg(call, "weightGradOut");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, grad, {l.rows}, "one value per row of input"));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, dinput, l.input));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, dweight, l.weight));
  if (call.Double("labelSmoothing") != 0)
    return BadValue(call, "labelSmoothing", StrFormat("%g", call.Double("labelSmoothing")), "0");
  constexpr int64_t kExact = int64_t{1} << 24;
  if (l.vocabulary < 1 || l.vocabulary > kExact) {
    return BadValue(call, "weight", "of shape " + ToString(l.weight.desc.dims), "1 to 2^24 rows");
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, softmax, {l.rows, l.vocabulary}, "the shape of the logits"));
  if (!softmax.given()) {
    for (const Operand* o : {&most, &sum}) {
      if (!o->given())
        return Errorf(Code::kNull, "%s: %s is null; it is required without softmaxOptional",
                      call.function().api, o == &most ? "logitsMaxOptional" : "sumExpLogitsOptional");
      OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {l.rows}, "one value per row of input"));
    }
  }
  const Operand places = out.Temp(DType::kF32, {l.rows});
  OPSNN_RETURN_IF_ERROR(AppendPlaces(call, l, places, &out));
  OPSNN_ASSIGN_OR_RETURN(const auto numbers, NewConstant(call, DType::kF32, {l.vocabulary}));
  for (int64_t i = 0; i < l.vocabulary; ++i) numbers->as<float>()[i] = static_cast<float>(i);
  // (softmax - 1 at the target) * grad, for some rows at a time; the gradient of the weights adds up in f32.
  const int64_t step = RowsAtATime(l.rows, l.vocabulary);
  const Operand chunk = out.Temp(DType::kF32, {step, l.vocabulary});
  Operand total = out.Temp(DType::kF32, l.weight.desc.dims),
          other = step < l.rows ? out.Temp(DType::kF32, l.weight.desc.dims) : total;
  if (l.rows == 0) {
    Take(CallOf("Identity", {BroadcastView(ConstantFloat(0, dweight.desc.dtype), dweight.desc.dims)},
                {dweight}),
         &out);
    return OkStatus();
  }
  const Operand wide = out.Temp(DType::kF32, l.weight.desc.dims);
  out.first.push_back(CallOf("Identity", {WithDType(l.weight, DType::kF32)}, {wide}));
  for (int64_t from = 0; from < l.rows; from += step) {
    const int64_t count = std::min(step, l.rows - from);
    const Operand z = Rows(chunk, 0, count), x = Rows(l.input, from, count);
    if (!softmax.given()) out.first.push_back(FloatProduct(x, Permuted(l.weight, {1, 0}), z));
    std::vector<Operand> inputs = {softmax.given() ? Rows(softmax, from, count) : z, Constant(numbers),
                                   Column(Rows(places, from, count)), Column(Rows(grad, from, count))};
    if (!softmax.given()) {
      inputs.push_back(Column(Rows(most, from, count)));
      inputs.push_back(Column(Rows(sum, from, count)));
    }
    out.first.push_back(FormulaCall(std::move(inputs), {z}, 0, [&](ProgramBuilder&, Formula& f) {
      const Term p = softmax.given() ? f.In(0) : Exp(f.In(0) - f.In(4)) / f.In(5);
      return std::vector<Term>{(p - Equal(f.In(1), f.In(2))) * f.In(3)};
    }));
    out.first.push_back(FloatProduct(z, wide, Rows(dinput, from, count)));
    OpCall product = CallOf("MatMul", {Permuted(z, {1, 0}), WithDType(x, DType::kF32)}, {other});
    if (from > 0) {
      ProgramBuilder p;
      const SlotId fresh = p.Input(), before = p.Input();
      p.Output(p.Binary(StageOp::kAdd, fresh, before));
      product.tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(p).Build()});
      product.inputs.push_back(total);
      product.tail_inputs = 1;
    }
    out.first.push_back(std::move(product));
    std::swap(total, other);
  }
  Take(CallOf("Identity", {WithDType(total, dweight.desc.dtype)}, {dweight}), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
