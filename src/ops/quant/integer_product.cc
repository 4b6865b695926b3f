#include "ops/quant/integer_product.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm/gemm.h"

namespace opsnn::ops {

void RunIntegerProduct(const IntegerProduct& p) {
  constexpr int64_t kTask = 16 << 10;
  const int64_t size = p.m * p.n * p.batch;
  if (size == 0) return;
  std::fill(p.c, p.c + size, 0);
  for (int64_t k = 0; k < p.k; k += kExactDepth) {
    gemm::Params g;
    g.m = p.m, g.n = p.n, g.batch = p.batch;
    g.k = std::min(kExactDepth, p.k - k);
    g.a = {p.a + k, DType::kF32, p.k, 1, p.a_batch_stride};
    g.b = {p.b + k * p.n, DType::kF32, p.n, 1, p.b_batch_stride};
    g.c = p.part;
    g.c_row_stride = p.n;
    g.c_batch_stride = p.m * p.n;
    gemm::Run(g);
    ParallelFor((size + kTask - 1) / kTask, [&](int64_t t, int) {
      for (int64_t i = t * kTask; i < std::min(size, (t + 1) * kTask); ++i) {
        p.c[i] = static_cast<int32_t>(static_cast<uint32_t>(p.c[i]) +
                                      static_cast<uint32_t>(static_cast<int32_t>(p.part[i])));
      }
    });
  }
}

}  // namespace opsnn::ops
