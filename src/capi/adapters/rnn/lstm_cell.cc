// The part of an LSTM cell behind its products, and the gradient of it. Gates lie side by side in the last
// dim: input, candidate, forget, output.
#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

constexpr int kGates = 4;

// Gate i of a tensor whose last dim holds all of them.
Operand Gate(const Operand& o, int i) {
  Dims dims = o.desc.dims;
  const Dims strides = StridesOf(o.desc);
  dims[dims.rank() - 1] /= kGates;
  Operand view = WithView(o, dims, strides);
  view.offset = o.offset + i * dims.back() * strides.back();
  return view;
}

}  // namespace

Status Adapt_LstmCell(const Call& call, OpCall& out) {
  const Operand input = Arg(call, "inputGates"), hidden = Arg(call, "hiddenGates"), cx = Arg(call, "cx");
  const Operand input_bias = Arg(call, "inputBiasOptional"), hidden_bias = Arg(call, "hiddenBiasOptional");
  const Operand hy = Arg(call, "hyOut"), cy = Arg(call, "cyOut"), storage = Arg(call, "storageOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, cx, 2, 2));
  const int64_t batch = cx.desc.dims[0], size = cx.desc.dims[1];
  for (const Operand* o : {&hidden, &cx, &input_bias, &hidden_bias, &hy, &cy, &storage})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, input.desc.dtype, "inputGates"));
  for (const Operand* o : {&input, &hidden, &storage})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {batch, kGates * size}, "four gates per value of cx"));
  for (const Operand* o : {&hy, &cy}) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, cx));
  if (input_bias.given() != hidden_bias.given()) {
    return BadValue(call, "hiddenBiasOptional", hidden_bias.given() ? "given" : "null",
                    "as inputBiasOptional: both, or none");
  }
  for (const Operand* o : {&input_bias, &hidden_bias})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {kGates * size}, "one value per gate"));
  std::vector<Operand> inputs = {cx}, outputs = {hy, cy};
  for (int i = 0; i < kGates; ++i) {
    for (const Operand* o : {&input, &hidden, &input_bias, &hidden_bias})
      if (o->given()) inputs.push_back(Gate(*o, i));
    outputs.push_back(Gate(storage, i));
  }
  const size_t terms = input_bias.given() ? 4 : 2;
  Take(FormulaCall(std::move(inputs), std::move(outputs), 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const auto sum = [&](size_t gate) {
                       const size_t first = 1 + gate * terms;
                       Term s = f.In(first) + f.In(first + 1);
                       if (terms == 4) s = s + (f.In(first + 2) + f.In(first + 3));
                       return s;
                     };
                     const Term i = Sigmoid(sum(0)), g = Tanh(sum(1)), forget = Sigmoid(sum(2)),
                                o = Sigmoid(sum(3));
                     const Term c = forget * f.In(0) + i * g;
                     return std::vector<Term>{o * Tanh(c), c, i, g, forget, o};
                   }),
       &out);
  return OkStatus();
}

Status Adapt_LstmCellGrad(const Call& call, OpCall& out) {
  const Operand grad_h = Arg(call, "gradHyOptional"), grad_c = Arg(call, "gradCOptional");
  const Operand cx = Arg(call, "cx"), cy = Arg(call, "cy"), storage = Arg(call, "storage");
  const Operand gates = Arg(call, "gradGatesOut"), to_cx = Arg(call, "gradCxOut"),
                bias = Arg(call, "gradBiasOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, cx, 2, 2));
  const int64_t batch = cx.desc.dims[0], size = cx.desc.dims[1];
  const bool has_bias = call.Int("hasBias") != 0;
  for (const Operand* o : {&grad_h, &grad_c, &cy, &storage, &gates, &to_cx, &bias})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, cx.desc.dtype, "cx"));
  for (const Operand* o : {&grad_h, &grad_c, &cy, &to_cx})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, cx));
  for (const Operand* o : {&storage, &gates})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {batch, kGates * size}, "four gates per value of cx"));
  if (has_bias) OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {kGates * size}, "one value per gate"));
  std::vector<Operand> inputs = {cx, cy}, outputs = {to_cx};
  const Operand all = has_bias ? out.Temp(DType::kF32, {batch, kGates * size}) : gates;
  for (int i = 0; i < kGates; ++i) inputs.push_back(Gate(storage, i)), outputs.push_back(Gate(all, i));
  const size_t at_h = inputs.size(), at_c = at_h + grad_h.given();
  if (grad_h.given()) inputs.push_back(grad_h);
  if (grad_c.given()) inputs.push_back(grad_c);
  OpCall cell = FormulaCall(std::move(inputs), std::move(outputs), 0, [&](ProgramBuilder&, Formula& f) {
    const Term tanh_c = Tanh(f.In(1)), i = f.In(2), g = f.In(3), forget = f.In(4), o = f.In(5);
    const Term dh = grad_h.given() ? f.In(at_h) : f.In(0) * 0.0,
               dc = grad_c.given() ? f.In(at_c) : f.In(0) * 0.0;
    const Term total = dh * o * (1.0 - tanh_c * tanh_c) + dc;
    return std::vector<Term>{total * forget, total * g * i * (1.0 - i), total * i * (1.0 - g * g),
                             total * f.In(0) * forget * (1.0 - forget), dh * tanh_c * o * (1.0 - o)};
  });
  if (!has_bias) {
    Take(std::move(cell), &out);
    return OkStatus();
  }
  out.first.push_back(std::move(cell));
  out.first.push_back(CallOf("Identity", {all}, {WithDType(gates, DType::kF32)}));
  Reduce("ReduceSum", all, DType::kF32, bias, {0}, false, &out);
  return OkStatus();
}

}  // namespace opsnn::capi
