// Between the driver of f64 and s32 products and its tiles. Not for other modules.
#ifndef OPSNN_KERNELS_GEMM_PLAIN_TILE_H_
#define OPSNN_KERNELS_GEMM_PLAIN_TILE_H_

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

// The register tile of the active tier.
MicroTile PlainTileFor(bool is_f64);

// `cols` columns of C = A x B. Rows of A have unit stride along k, and those of B hold all nr columns.
struct PlainTile {
  int64_t k = 0, cols = 0;
  const void *a = nullptr, *b = nullptr;
  int64_t lda = 0, ldb = 0;
  void* c = nullptr;
  int64_t ldc = 0;
};
// `rows` is 1 to mr; elements are f64, else s32.
void RunPlainTile(bool is_f64, int64_t rows, const PlainTile& t);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PLAIN_TILE_H_
