// Formulas: programs of pointwise operators written as expressions.
//
//   OPSNN_DEFINE_OPERATOR(SigmoidGrad) {
//     op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * f.In(1) * (1 - f.In(1)); });
//   }
//
// Operands compute in their promoted type; halves in f32, rounded once when the result is stored. Comparisons
// give 0 and 1, to be used in Select.
#ifndef OPSNN_OP_FORMULA_H_
#define OPSNN_OP_FORMULA_H_

#include <cassert>
#include <limits>
#include <utility>
#include <vector>

#include "op/declaration.h"
#include "op/pointwise.h"

namespace opsnn::op {

class Formula;

// A value of a formula: a slot of its program.
struct Term {
  Formula* formula;
  SlotId slot;
};

class Formula {
 public:
  Formula(ProgramBuilder& builder, const ProgramContext& context, ComputeType type)
      : builder_(builder), context_(context), type_(type) {
    const std::vector<SlotId> given = ConvertedInputs(builder, context, type);
    size_t next = 0;
    for (size_t i = 0; i < context.input_dtypes.size(); ++i)
      inputs_.push_back(HasInput(context, i) ? given[next++] : kNoSlot);
  }

  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != kNoSlot; }
  Term In(size_t i) {
    assert(Has(i));
    return {this, inputs_[i]};
  }
  Term Const(double value) { return {this, builder_.Const(value, type_)}; }
  const Attrs& attrs() const { return AttrsOf(context_.attrs); }
  double Attr(const char* name, double fallback) const { return attrs().Float(name, fallback); }
  // Elements of operator input i; 1 while only dtypes are known.
  double NumElements(size_t i) const {
    const bool known = i < context_.inputs.size() && context_.inputs[i] != nullptr;
    return known ? static_cast<double>(opsnn::NumElements(context_.inputs[i]->dims)) : 1;
  }
  ComputeType type() const { return type_; }
  DType dtype() const { return PromoteTypes(context_.input_dtypes); }
  bool is_float() const { return type_ == ComputeType::kF32 || type_ == ComputeType::kF64; }

  Term Unary(StageOp op, Term x, double imm0 = 0, double imm1 = 0) {
    return {this, builder_.Unary(op, x.slot, imm0, imm1)};
  }
  Term Binary(StageOp op, Term a, Term b) { return {this, builder_.Binary(op, a.slot, b.slot)}; }
  Term Select(Term condition, Term a, Term b) {
    return {this, builder_.Ternary(StageOp::kSelect, condition.slot, a.slot, b.slot)};
  }
  Term Select(Term condition, Term a, double b) { return Select(condition, a, Const(b)); }
  Term Select(Term condition, double a, Term b) { return Select(condition, Const(a), b); }

  // An output is a slot that a stage wrote.
  SlotId Finish(Term y) {
    for (SlotId i : inputs_) {
      if (i == y.slot) return builder_.Unary(StageOp::kCopy, y.slot);
    }
    return y.slot;
  }

 private:
  ProgramBuilder& builder_;
  const ProgramContext& context_;
  ComputeType type_;
  std::vector<SlotId> inputs_;
};

#define OPSNN_FORMULA_BINARY(name, stage)                                                                  \
  inline Term name(Term a, Term b) { return a.formula->Binary(StageOp::stage, a, b); }                     \
  inline Term name(Term a, double b) { return a.formula->Binary(StageOp::stage, a, a.formula->Const(b)); } \
  inline Term name(double a, Term b) { return b.formula->Binary(StageOp::stage, b.formula->Const(a), b); }
OPSNN_FORMULA_BINARY(operator+, kAdd)
OPSNN_FORMULA_BINARY(operator-, kSub)
OPSNN_FORMULA_BINARY(operator*, kMul)
OPSNN_FORMULA_BINARY(operator/, kDiv)
OPSNN_FORMULA_BINARY(operator<, kLess)
OPSNN_FORMULA_BINARY(operator<=, kLessEqual)
OPSNN_FORMULA_BINARY(operator>, kGreater)
OPSNN_FORMULA_BINARY(operator>=, kGreaterEqual)
OPSNN_FORMULA_BINARY(Equal, kEqual)
OPSNN_FORMULA_BINARY(And, kAnd)
OPSNN_FORMULA_BINARY(Or, kOr)
OPSNN_FORMULA_BINARY(Max, kMax)
OPSNN_FORMULA_BINARY(Min, kMin)
OPSNN_FORMULA_BINARY(Pow, kPow)
OPSNN_FORMULA_BINARY(Mod, kMod)
#undef OPSNN_FORMULA_BINARY

#define OPSNN_FORMULA_UNARY(name, stage) \
  inline Term name(Term x) { return x.formula->Unary(StageOp::stage, x); }
OPSNN_FORMULA_UNARY(operator-, kNeg)
OPSNN_FORMULA_UNARY(Abs, kAbs)
OPSNN_FORMULA_UNARY(Exp, kExp)
OPSNN_FORMULA_UNARY(Log, kLog)
OPSNN_FORMULA_UNARY(Sqrt, kSqrt)
OPSNN_FORMULA_UNARY(Erf, kErf)
OPSNN_FORMULA_UNARY(Tanh, kTanh)
OPSNN_FORMULA_UNARY(Sigmoid, kSigmoid)
OPSNN_FORMULA_UNARY(Silu, kSilu)
OPSNN_FORMULA_UNARY(GeluErf, kGeluErf)
OPSNN_FORMULA_UNARY(GeluTanh, kGeluTanh)
OPSNN_FORMULA_UNARY(Relu, kRelu)
OPSNN_FORMULA_UNARY(Softplus, kSoftplus)
OPSNN_FORMULA_UNARY(Floor, kFloor)
OPSNN_FORMULA_UNARY(Trunc, kTrunc)
OPSNN_FORMULA_UNARY(Round, kRound)
OPSNN_FORMULA_UNARY(Square, kSquare)
OPSNN_FORMULA_UNARY(Not, kNot)
OPSNN_FORMULA_UNARY(IsNan, kIsNan)
OPSNN_FORMULA_UNARY(IsInf, kIsInf)
#undef OPSNN_FORMULA_UNARY
inline Term Select(Term condition, Term a, Term b) { return condition.formula->Select(condition, a, b); }
inline Term Select(Term condition, Term a, double b) { return condition.formula->Select(condition, a, b); }
inline Term Select(Term condition, double a, Term b) { return condition.formula->Select(condition, a, b); }
// min(max(x, lo), hi); NaN stays.
inline Term Clip(Term x, double lo, double hi) { return x.formula->Unary(StageOp::kClip, x, lo, hi); }

// The largest finite value of a float dtype.
inline double LargestFinite(DType t) {
  return t == DType::kF16    ? 65504
         : t == DType::kBF16 ? 0x1.FEp127
         : t == DType::kF32  ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}

// In which type a formula computes and what its result is.
enum class FormulaType {
  kPromoted,  // the operands' common type
  kFloat,     // the same for floats; integers and bools compute in f32 and give f32
  kInFloat,   // computes as kFloat; the result has the operands' type again
  kBool,      // the operands' common type; the result is a bool
};

// For OpDef::check: all inputs have the shape of the first; nothing broadcasts.
inline Status CheckSameShapes(const OpDef& def, const InferContext& c) {
  const auto& names = def.declaration->inputs;
  const TensorDesc& first = *c.inputs[0];
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const TensorDesc* x = c.inputs[i];
    if (x == nullptr || !x->known_rank || !first.known_rank || x->dims == first.dims) continue;
    return InvalidArgument("%s: input %s has shape %s; allowed: %s, the shape of input %s", def.name.c_str(),
                           names[i].name, ToString(x->dims).c_str(), ToString(first.dims).c_str(),
                           names[0].name);
  }
  return OkStatus();
}
inline void RequireSameShapes(OpDef& def) {
  const OpDef* self = &def;  // lives as long as the registry
  def.check = [self](const InferContext& c) { return CheckSameShapes(*self, c); };
}

template <typename F>
void DefineFormula(OpDef& def, F formula, FormulaType type = FormulaType::kPromoted) {
  def.program = [formula, type](const ProgramContext& c) -> Result<Program> {
    const DType promoted = PromoteTypes(c.input_dtypes);
    const bool in_float = type == FormulaType::kFloat || type == FormulaType::kInFloat;
    const bool to_float = in_float && !IsFloat(promoted);
    ProgramBuilder b;
    Formula f(b, c, to_float ? ComputeType::kF32 : ComputeTypeOf(promoted));
    b.Output(f.Finish(formula(f)));
    return std::move(b).Build();
  };
  if (type == FormulaType::kFloat) {
    def.out_dtype = [](const ProgramContext& c) {
      const DType promoted = PromoteTypes(c.input_dtypes);
      return IsFloat(promoted) ? promoted : DType::kF32;
    };
  }
  if (type == FormulaType::kBool) def.out_dtype = [](const ProgramContext&) { return DType::kBool; };
}

}  // namespace opsnn::op

#endif  // OPSNN_OP_FORMULA_H_
