// A constant B into panels, from rows, columns or FRACTAL_NZ.
#include <algorithm>
#include <cstring>

#include "kernels/gemm/bf16_internal.h"
#include "kernels/gemm/internal.h"
#include "vector/convert.h"
#include "vector/scratch_failures.h"

namespace opsnn::gemm {
namespace {

// Room for `batch` matrices in panels; null when there is no memory.
std::shared_ptr<PackedB> MakePackedB(int64_t k, int64_t n, int64_t batch, const Blocking& blocking,
                                     bool bf16_pairs) {
  auto packed = std::make_shared<PackedB>();
  packed->tier = isa::ActiveTier();
  packed->k = k, packed->n = n, packed->batch = batch;
  packed->kc = blocking.kc, packed->bf16_pairs = bf16_pairs;
  if (bf16_pairs) k = CeilDiv(k, 2);
  const int64_t padded = RoundUp(n, TileFor(packed->tier).nr);
  packed->data = AlignedBuffer(static_cast<size_t>(std::max<int64_t>(1, batch * k * padded)) * sizeof(float));
  return packed->data ? packed : nullptr;
}

using PackBlockFn = FunctionRef<void(const PanelPiece&, float*)>;

// Block (k0, depth) of panel j lies at k0 * padded + j * nr * depth.
std::shared_ptr<const PackedB> PackAll(std::shared_ptr<PackedB> packed, PackBlockFn pack) {
  if (!packed) return nullptr;
  const bool pairs = packed->bf16_pairs;
  const int64_t nr = TileFor(packed->tier).nr, n = packed->n, k = pairs ? CeilDiv(packed->k, 2) : packed->k;
  const int64_t padded = RoundUp(n, nr), panels = padded / nr;
  const vector::ScratchCheck scratch;
  ForEach(packed->batch * panels, ThreadsFor(packed->batch * k * padded * 16), [&](int64_t i) {
    PanelPiece b;
    b.pairs = pairs;
    b.which = i / panels, b.col = i % panels * nr, b.width = std::min(nr, n - b.col), b.nr = nr;
    float* dst = packed->data.as<float>() + b.which * k * padded;
    for (; b.k0 < k; b.k0 += b.depth) {
      b.depth = KDepth(k, b.k0, packed->kc, pairs);
      pack(b, dst + b.k0 * padded + b.col * b.depth);
    }
  });
  return scratch.Check("packing").ok() ? packed : nullptr;
}

// The strips of columns that the panel meets, side by side.
void PackNzRows(const NzOperand& b, int64_t k, const PanelPiece& t, float* dst) {
  const int64_t size = static_cast<int64_t>(SizeOf(b.dtype)), c0 = NzStrip(b.dtype);
  for (int64_t i = 0; i < t.nr; i += c0 - (t.col + i) % c0) {
    const int64_t first = (t.col + i) % c0, room = std::min(c0 - first, t.nr - i);
    const int64_t width = std::clamp<int64_t>(t.width - i, 0, room);
    const char* src = NzAt(b, t.which, k, t.k0, t.col + i);
    if (width == room && first % 8 == 0 && width % 8 == 0) {
      PackStrip(b.dtype, src, width, t.depth, dst + i, t.nr);
      continue;
    }
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
void PackNzColumns(const NzOperand& b, int64_t n, const PanelPiece& t, float* dst) {
  // Columns side by side, kDepth of each: what PackPanel transposes by whole vectors.
  constexpr int64_t kDepth = 16, kMostColumns = 64;
  float block[kDepth * kMostColumns];
  const int64_t c0 = NzStrip(b.dtype);
  for (int64_t k = 0; k < t.depth;) {
    const int64_t at = t.k0 + k;
    if (at % c0 == 0 && t.depth - k >= kDepth && t.width <= kMostColumns) {
      for (int64_t i = 0; i < kDepth; i += c0)
        PackStrip(b.dtype, NzAt(b, t.which, n, t.col, at + i), c0, t.width, block + i, kDepth);
      PackPanel({block, DType::kF32, kDepth, 1}, t.width, kDepth, dst + k * t.nr, t.nr);
      k += kDepth;
      continue;
    }
    const int64_t depth = std::min(c0 - at % c0, t.depth - k);
    PackPanel({NzAt(b, t.which, n, t.col, at), b.dtype, c0, 1}, t.width, depth, dst + k * t.nr, t.nr);
    k += depth;
  }
}

// Both for pairs. Rows: a strip is a matrix of its own.
void PackNzPairRows(const NzOperand& b, int64_t k, const PanelPiece& t, float* dst) {
  const int64_t c0 = NzStrip(b.dtype);
  for (int64_t i = 0; i < t.nr; i += c0 - (t.col + i) % c0) {
    PairRows rows;
    rows.fill = std::min(c0 - (t.col + i) % c0, t.nr - i);
    rows.width = std::clamp<int64_t>(t.width - i, 0, rows.fill);
    rows.src = reinterpret_cast<const uint16_t*>(NzAt(b, t.which, k, 2 * t.k0, t.col + i));
    rows.row_stride = c0, rows.rows = k - 2 * t.k0, rows.depth = t.depth;
    PackPairRows(rows, reinterpret_cast<uint32_t*>(dst) + i, t.nr);
  }
}

// Columns side by side, some of each, as rows of words.
void PackNzPairColumns(const NzOperand& b, int64_t k, int64_t n, const PanelPiece& t, float* dst) {
  constexpr int64_t kDepth = 16, kMostColumns = 64;  // words: two strips
  uint16_t block[2 * kDepth * kMostColumns];
  const int64_t c0 = NzStrip(b.dtype);
  for (int64_t first = 0; first < t.depth; first += kDepth) {
    const int64_t depth = std::min(kDepth, t.depth - first), at = 2 * (t.k0 + first);
    const int64_t values = std::min(2 * depth, k - at);
    std::fill_n(block, 2 * depth * t.width, uint16_t{0});
    for (int64_t v = 0; v < values;) {
      const int64_t run = std::min(c0 - (at + v) % c0, values - v);
      const char* src = NzAt(b, t.which, n, t.col, at + v);
      for (int64_t i = 0; i < t.width; ++i, src += c0 * static_cast<int64_t>(sizeof(uint16_t)))
        memcpy(block + i * 2 * depth + v, src, static_cast<size_t>(run) * sizeof(uint16_t));
      v += run;
    }
    PackPanel({block, DType::kF32, depth, 1}, t.width, depth, dst + first * t.nr, t.nr);
  }
}

}  // namespace

int64_t NzStrip(DType dtype) { return 32 / static_cast<int64_t>(SizeOf(dtype)); }
int64_t NzElements(int64_t rows, int64_t cols, DType dtype) {
  return RoundUp(cols, NzStrip(dtype)) * RoundUp(rows, 16);
}

const char* NzAt(const NzOperand& b, int64_t which, int64_t stored_rows, int64_t row, int64_t col) {
  const int64_t c0 = NzStrip(b.dtype);
  const int64_t element =
      which * b.batch_stride + (col / c0 * RoundUp(stored_rows, 16) + row) * c0 + col % c0;
  return static_cast<const char*>(b.data) + element * static_cast<int64_t>(SizeOf(b.dtype));
}

void PackNzPanel(const NzOperand& b, int64_t k, int64_t n, const PanelPiece& t, float* dst) {
  if (t.pairs) return b.transposed ? PackNzPairColumns(b, k, n, t, dst) : PackNzPairRows(b, k, t, dst);
  b.transposed ? PackNzColumns(b, n, t, dst) : PackNzRows(b, k, t, dst);
}

void UnpackNzColumns(const NzOperand& b, int64_t k, int64_t n, const PanelPiece& t, void* dst, int64_t ld) {
  constexpr int64_t kBytes = 32;
  const int64_t size = static_cast<int64_t>(SizeOf(b.dtype)), c0 = NzStrip(b.dtype), whole = k / c0 * c0;
  for (int64_t at = 0; at < k; at += c0) {
    const char* src = NzAt(b, t.which, n, t.col, at);
    char* to = static_cast<char*>(dst) + at * size;
    for (int64_t i = 0; i < t.width; ++i, src += kBytes, to += ld * size) {
      at < whole ? memcpy(to, src, kBytes) : memcpy(to, src, static_cast<size_t>((k - at) * size));
    }
  }
}

std::shared_ptr<const PackedB> PackB(const Operand& b, int64_t k, int64_t n, int64_t batch,
                                     const Blocking& blocking, bool bf16_pairs) {
  return PackAll(MakePackedB(k, n, batch, blocking, bf16_pairs), [&](const PanelPiece& t, float* dst) {
    PackSource source = Columns(b, t.which);
    if (t.pairs) source.pair_k = k;
    PackPanel(source.At(t.col, t.k0), t.width, t.depth, dst, t.nr);
  });
}

std::shared_ptr<const PackedB> PackNzB(const NzOperand& b, int64_t k, int64_t n, int64_t batch,
                                       const Blocking& blocking, bool bf16_pairs) {
  return PackAll(MakePackedB(k, n, batch, blocking, bf16_pairs),
                 [&](const PanelPiece& t, float* dst) { PackNzPanel(b, k, n, t, dst); });
}

}  // namespace opsnn::gemm
