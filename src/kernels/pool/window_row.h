// One row of a max pool of an NCHW plane with a small window, from the image's rows to the result's in
// registers.
#ifndef OPSNN_KERNELS_POOL_WINDOW_ROW_H_
#define OPSNN_KERNELS_POOL_WINDOW_ROW_H_

#include <cstdint>

#include "kernels/pool/pool.h"

namespace opsnn::pool {

struct WindowRow {
  Kind kind = Kind::kMax;
  const float* x = nullptr;        // the first row of the window that lies inside the image
  int64_t rows = 0, distance = 0;  // rows of the window inside it, one or more, and floats between them
  int64_t w = 0, pad = 0;          // of a row; columns in front of it
  int64_t kernel = 0, stride = 0;  // along the row
  float* y = nullptr;
  int64_t n = 0;
  int64_t fresh = 0;             // rows that the next window adds
  const float* scale = nullptr;  // averages: what each sum is multiplied by
};

bool FitsWindowRow(const PoolShape& s);
// False where the rows of a max pool may hold NaN: y is unspecified then.
bool RunWindowRow(const WindowRow& r);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_WINDOW_ROW_H_
