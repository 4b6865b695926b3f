// Operands of products: matrices in FRACTAL_NZ, which is blocks of 16 rows and 32 bytes of columns, a column
// of blocks after the other:
// [.., columns / n0, rows / 16, 16, n0]. Rows and columns are filled up with zeros.
#ifndef OPSNN_CAPI_ADAPTERS_TILES_H_
#define OPSNN_CAPI_ADAPTERS_TILES_H_

#include "capi/adapters/common.h"

namespace opsnn::capi {

constexpr int64_t kTileRows = 16, kTileBytes = 32;

// A matrix parameter, or a batch of them: a view of the tensor where it is plain, else a row-major temporary
// that is filled from the blocks before.
Result<Operand> MatrixArg(const Call& call, const char* param, OpCall* out);

// The right factor of a product, for MatMulNz where it can read the blocks as they are, else for MatMul.
struct Factor {
  Operand matrix;  // with its logical dims; without blocks, as it is
  Operand strips;  // given for MatMulNz: [.., columns of blocks, rows, columns of a block]
  bool transposed = false;
};
Result<Factor> FactorArg(const Call& call, const Operand& left, const char* param, OpCall* out);

// Stores a row-major matrix, or a batch of them, in a parameter of either layout.
Status StoreMatrix(const Call& call, Operand plain, const char* param, OpCall* out);
// Integers of 4 bits, eight in each s32 along the last dim, the first in the lowest bits, as a temporary of
// s8.
Operand UnpackedInt4(const Operand& packed, OpCall* out);

Operand SwappedLast(const Operand& o);  // the last two dims exchanged
// y = a b; of halves, too, the f32 sums go to y unrounded.
OpCall FloatProduct(const Operand& a, const Operand& b, const Operand& y);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_TILES_H_
