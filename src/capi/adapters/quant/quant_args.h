// What the adapters of quantisations share: the 8-bit type, and parameters by column, by row and by group.
#ifndef OPSNN_CAPI_ADAPTERS_QUANT_QUANT_ARGS_H_
#define OPSNN_CAPI_ADAPTERS_QUANT_QUANT_ARGS_H_

#include "capi/adapters/common.h"

namespace opsnn::capi {

constexpr double kMostInt8 = 127, kLeastInt8 = -128;

// dstType of functions that also have forms of 4 and other kinds of 8 bits.
Status RequireInt8(const Call& call);
// A parameter of x along dim `axis`, one value or one for each: as a view that broadcasts with x. Of one dim,
// or of the dims of x with ones elsewhere.
Result<Operand> AlongAxis(const Call& call, const Operand& o, const Operand& x, int axis);
// For each row of x the row of `table` of its group, the first that ends behind it; rows behind all ends take
// the last. The table is [groups, columns], or [groups] of one value for each: the result has the dims of x
// but for the last, which is `columns` or 1.
Result<Operand> RowsOfGroups(const Call& call, const Operand& table, const Operand& ends, const Operand& x,
                             int64_t columns, OpCall* out);
// Where groups of these sizes end.
Operand EndsOf(const Operand& sizes, OpCall* out);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_QUANT_QUANT_ARGS_H_
