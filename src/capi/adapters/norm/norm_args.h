// Arguments that normalisations of rows share, and terms of their programs.
#ifndef OPSNN_CAPI_ADAPTERS_NORM_ARGS_H_
#define OPSNN_CAPI_ADAPTERS_NORM_ARGS_H_

#include <initializer_list>
#include <vector>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {

Status RequireEpsilon(const Call& call, const char* param);  // 0 or more, not NaN
Status RequireChannels(const Call& call, std::initializer_list<const Operand*> operands, int64_t channels);
// Switches: which gradients are wanted. Those that are must have an output.
Status ReadMask(const Call& call, std::initializer_list<const char*> outputs, std::vector<Operand>* wanted);
// The dims of x with the last `rows` as 1: those of the statistics of its rows.
Dims KeptDims(const Operand& x, int rows);
// A weight as the last dims of x. One row [1, n] counts as [n].
Result<Operand> RowWeight(const Call& call, const char* param, const Operand& x);
// One value per row: the dims of x with the normalised ones as 1, or without them, or as many in a row.
Result<Operand> PerRow(const Call& call, const char* param, const Operand& x, int rows);
// [B.., H] as [B.., 1, H] in front of x of [B.., S, H].
Result<Operand> PerSequence(const Call& call, const char* param, const Operand& x);

// What is left of a norm over rows without elements, as the functions' pages have it: 0 as the means, NaN as
// the reciprocals of the deviations. At least one of the two must be given.
Status TakeStatisticsOfNothing(const Operand& mean, const Operand& rstd, OpCall* out);

struct Normalised {
  Term y, mean, rstd;
};
Normalised LayerNormOf(ProgramBuilder& b, Formula& f, Term x, double eps);
Term RootMeanSquare(Term x, double eps);  // 1 / sqrt(mean(x^2) + eps)
// The gradient by a normalised row: centred says whether the mean was taken out.
Term RowGradient(Term g, Term normalised, Term rstd, bool centred);
// y = the sum of `each` over its leading dims; where there are none, `each` itself.
OpCall SumOverRows(const Operand& each, int rows, const Operand& y);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_NORM_ARGS_H_
