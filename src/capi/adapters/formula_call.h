// Vector programs of adapters, written as formulas.
#ifndef OPSNN_CAPI_ADAPTERS_FORMULA_CALL_H_
#define OPSNN_CAPI_ADAPTERS_FORMULA_CALL_H_

#include <utility>
#include <vector>

#include "capi/adapters/common.h"
#include "op/formula.h"
#include "program/moments.h"

namespace opsnn::capi {

using op::Formula;
using op::Term;

// The call of formula(f), which gives one term per output, over operands that compute in f32, or in f64 where
// one of them is f64. row_rank as in ProgramCall.
template <typename F>
OpCall FormulaCall(std::vector<Operand> inputs, std::vector<Operand> outputs, int row_rank, F formula) {
  std::vector<DType> dtypes;
  bool wide = false;
  for (const Operand& o : inputs) {
    dtypes.push_back(o.desc.constant ? o.desc.constant->dtype() : o.desc.dtype);
    wide = wide || dtypes.back() == DType::kF64;
  }
  ProgramBuilder b;
  const op::Attrs none;
  const op::ProgramContext context{dtypes, &none, {}};
  Formula f(b, context, wide ? ComputeType::kF64 : ComputeType::kF32);
  for (const Term& t : std::vector<Term>(formula(b, f))) b.Output(f.Finish(t));
  return ProgramCall(std::move(b).Build(), std::move(inputs), std::move(outputs), row_rank);
}

inline Term RowMean(Term x) { return x.formula->Unary(StageOp::kRowMean, x); }
inline Term RowSum(Term x) { return x.formula->Unary(StageOp::kRowSum, x); }
inline Term Rsqrt(Term x) { return x.formula->Unary(StageOp::kRsqrt, x); }
inline Term Plus(Term x, double v) { return x.formula->Unary(StageOp::kAffine, x, 1, v); }  // also per row
inline Term Times(Term x, double v) { return x.formula->Unary(StageOp::kAffine, x, v, 0); }

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_FORMULA_CALL_H_
