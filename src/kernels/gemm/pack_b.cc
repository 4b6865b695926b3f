// A constant B into panels, from rows, columns or FRACTAL_NZ.
#include <algorithm>
#include <cstring>

#include "kernels/gemm/internal.h"
#include "vector/convert.h"
#include "vector/scratch_failures.h"

namespace opsnn::gemm {
namespace {

// Room for `batch` matrices in panels; null when there is no memory.
std::shared_ptr<PackedB> MakePackedB(int64_t k, int64_t n, int64_t batch, const Blocking& blocking) {
  auto packed = std::make_shared<PackedB>();
  packed->tier = isa::ActiveTier();
  packed->k = k, packed->n = n, packed->batch = batch;
  packed->kc = blocking.kc;
  const int64_t padded = RoundUp(n, TileFor(packed->tier).nr);
  packed->data = AlignedBuffer(static_cast<size_t>(std::max<int64_t>(1, batch * k * padded)) * sizeof(float));
  return packed->data ? packed : nullptr;
}

// One block of a panel: rows [k0, k0 + depth) of columns [col, col + width), zero up to nr.
struct PanelBlock {
  int64_t which = 0, col = 0, width = 0, k0 = 0, depth = 0, nr = 0;
};
using PackBlockFn = FunctionRef<void(const PanelBlock&, float*)>;

// Block (k0, depth) of panel j lies at k0 * padded + j * nr * depth.
std::shared_ptr<const PackedB> PackAll(std::shared_ptr<PackedB> packed, PackBlockFn pack) {
  if (!packed) return nullptr;
  const int64_t nr = TileFor(packed->tier).nr, k = packed->k, n = packed->n;
  const int64_t padded = RoundUp(n, nr), panels = padded / nr;
  const vector::ScratchCheck scratch;
  ForEach(packed->batch * panels, packed->batch * k * padded * 16, [&](int64_t i) {
    PanelBlock b;
    b.which = i / panels, b.col = i % panels * nr, b.width = std::min(nr, n - b.col), b.nr = nr;
    float* dst = packed->data.as<float>() + b.which * k * padded;
    for (; b.k0 < k; b.k0 += b.depth) {
      b.depth = KDepth(k, b.k0, packed->kc);
      pack(b, dst + b.k0 * padded + b.col * b.depth);
    }
  });
  return scratch.Check("packing").ok() ? packed : nullptr;
}

const char* NzMatrix(const NzOperand& b, int64_t which) {
  return static_cast<const char*>(b.data) + which * b.batch_stride * static_cast<int64_t>(SizeOf(b.dtype));
}

// The strips of columns that the panel meets, side by side.
void PackNzRows(const NzOperand& b, int64_t k, const PanelBlock& t, float* dst) {
  const int64_t size = static_cast<int64_t>(SizeOf(b.dtype)), c0 = NzStrip(b.dtype), rows = RoundUp(k, 16);
  for (int64_t i = 0; i < t.nr; i += c0 - (t.col + i) % c0) {
    const int64_t first = (t.col + i) % c0, room = std::min(c0 - first, t.nr - i);
    const int64_t width = std::clamp<int64_t>(t.width - i, 0, room);
    const char* src = NzMatrix(b, t.which) + (((t.col + i) / c0 * rows + t.k0) * c0 + first) * size;
    for (int64_t r = 0; r < t.depth; ++r, src += c0 * size) {
      float* row = dst + r * t.nr + i;
      if (width == 0) {
        std::fill_n(row, room, 0.0f);
      } else if (b.dtype == DType::kF32) {
        memcpy(row, src, static_cast<size_t>(width) * sizeof(float));
      } else {
        vector::LoadConvert(b.dtype, src, 1, ComputeType::kF32, row, width);
      }
      std::fill(row + width, row + room, 0.0f);
    }
  }
}

// Strips of the transposed matrix are pieces of k.
void PackNzColumns(const NzOperand& b, int64_t n, const PanelBlock& t, float* dst) {
  const int64_t size = static_cast<int64_t>(SizeOf(b.dtype)), c0 = NzStrip(b.dtype), rows = RoundUp(n, 16);
  for (int64_t k = 0; k < t.depth;) {
    const int64_t at = t.k0 + k, depth = std::min(c0 - at % c0, t.depth - k);
    const char* src = NzMatrix(b, t.which) + ((at / c0 * rows + t.col) * c0 + at % c0) * size;
    PackPanel({src, b.dtype, c0, 1}, t.width, depth, dst + k * t.nr, t.nr);
    k += depth;
  }
}

}  // namespace

int64_t NzStrip(DType dtype) { return 32 / static_cast<int64_t>(SizeOf(dtype)); }
int64_t NzElements(int64_t rows, int64_t cols, DType dtype) {
  return RoundUp(cols, NzStrip(dtype)) * RoundUp(rows, 16);
}

std::shared_ptr<const PackedB> PackB(const Operand& b, int64_t k, int64_t n, int64_t batch,
                                     const Blocking& blocking) {
  return PackAll(MakePackedB(k, n, batch, blocking), [&](const PanelBlock& t, float* dst) {
    PackPanel(Columns(b, t.which).At(t.col, t.k0), t.width, t.depth, dst, t.nr);
  });
}

std::shared_ptr<const PackedB> PackNzB(const NzOperand& b, int64_t k, int64_t n, int64_t batch,
                                       const Blocking& blocking) {
  return PackAll(MakePackedB(k, n, batch, blocking), [&](const PanelBlock& t, float* dst) {
    b.transposed ? PackNzColumns(b, n, t, dst) : PackNzRows(b, k, t, dst);
  });
}

}  // namespace opsnn::gemm
