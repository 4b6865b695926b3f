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
#include <utility>
#include <vector>

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
  ComputeType type() const { return type_; }
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

// In which type a formula computes and what its result is.
enum class FormulaType {
  kPromoted,  // the operands' common type
  kFloat,     // the same for floats; integers and bools compute in f32 and give f32
  kBool,      // the operands' common type; the result is a bool
};

template <typename F>
void DefineFormula(OpDef& def, F formula, FormulaType type = FormulaType::kPromoted) {
  def.program = [formula, type](const ProgramContext& c) -> Result<Program> {
    const DType promoted = PromoteTypes(c.input_dtypes);
    const bool to_float = type == FormulaType::kFloat && !IsFloat(promoted);
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
