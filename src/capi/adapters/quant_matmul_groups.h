// Products of s8 matrices whose scales change along k.
#ifndef OPSNN_CAPI_ADAPTERS_QUANT_MATMUL_GROUPS_H_
#define OPSNN_CAPI_ADAPTERS_QUANT_MATMUL_GROUPS_H_

#include "capi/adapters/common.h"

namespace opsnn::capi {

// aclnnQuantMatmulV5 with a groupSize: x1 (m, k) with a scale for each row and 128 of k, x2 (n, k),
// transposed, with one for each 128 of n and 128 of k. The products of such groups are exact in s32; they are
// scaled and added up in f32, in the order of k, and the bias behind them.
Status BindGroupedMatmul(const Call& call, const Operand& x2, OpCall* out);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_QUANT_MATMUL_GROUPS_H_
