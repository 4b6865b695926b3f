// Dense matrix products, C = epilogue(A x B), for a batch of matrices with any strides.
//
// Every path sums over k in ascending order per accumulator and splits nothing by the number of threads, so a
// result does not depend on threads, on the position in a tile or on the blocking. Padded lanes exist only as
// columns and rows beyond C; they are never stored and k is never padded, so NaN and Inf do not leak.
//
// Paths (ChoosePath, best first; `Params::path` forces one):
//   kGemv    at most kMaxGemvRows rows (or columns): the large operand is streamed once, nothing is packed;
//   kDirect  operands that fit the core's own caches are read where they lie;
//   kStream  some rows more (from five on) against a B beyond the caches: short blocks as wide as B are read
//            where they lie, so that B comes from memory once and in long runs, asked for two panels ahead;
//            the sums wait in C meanwhile;
//   kPanel   A in blocks that stay in L2, packed unless its strides allow reading in place; each panel of B
//            is packed into L1 by the first tile that reads it, from lines prefetched during the panel
//            before. With hundreds of rows to a block this costs little, so there is no shared buffer,
//            no second pass over B and no barrier between threads; with few rows its cost shows, which
//            is what constant weights (kPacked) save;
//   kPacked  the same with a constant B whose panels were packed ahead of time (PackedB).
// A B in FRACTAL_NZ takes kGemv and kPanel, which read its strips as they lie and sum up in the same order.
// kDirect and kPacked use wide tiles (wide.cc) where the tier has them and B is small.
#ifndef OPSNN_KERNELS_GEMM_GEMM_H_
#define OPSNN_KERNELS_GEMM_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/buffer.h"
#include "base/dtype.h"
#include "isa/tier.h"
#include "vector/run.h"

namespace opsnn::gemm {

// Element (b, r, c) is at data + b * batch_stride + r * row_stride + c * col_stride, strides in elements.
struct Operand {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16; halves are widened while packing
  int64_t row_stride = 0, col_stride = 0, batch_stride = 0;
};

// The register tile of a tier: mr rows of A against nr columns of B.
struct MicroTile {
  int mr = 0, nr = 0;
};
MicroTile TileFor(isa::Tier tier);

// How the work is cut. The numbers come from the planner; these defaults suit 48 KiB of L1 and 2 MiB of L2.
struct Blocking {
  int64_t mc = 512;                    // rows of A packed at a time: mc x kc floats in less than half of L2
  int64_t kc = 384;                    // depth of a panel: kc x nr floats of B are about what L1 holds
  int64_t direct_floats = 450 * 1024;  // kDirect: A, B and C of a tile together stay in L2
  int64_t in_place_cols = 1024;        // kPanel: A is read in place for C up to this wide
};

inline constexpr int64_t kMaxGemvRows =
    8;  // accumulators of one vector column for every row stay in registers

enum class Path : uint8_t { kAuto, kGemv, kDirect, kStream, kPanel, kPacked };
const char* Name(Path path);

// A constant B in panels, packed ahead of time. Valid for the tier and kc that it was packed for, and as
// pairs or not: all of this belongs into the key under which it is kept.
struct PackedB {
  AlignedBuffer data;
  int64_t k = 0, n = 0, batch = 1, kc = 0;
  bool bf16_pairs = false;
  isa::Tier tier = isa::Tier::kSse4;
};
// Null when there is no memory. `batch` matrices, b.batch_stride apart.
std::shared_ptr<const PackedB> PackB(const Operand& b, int64_t k, int64_t n, int64_t batch,
                                     const Blocking& blocking, bool bf16_pairs = false);

// A B stored as FRACTAL_NZ, the layout of TransMatmulWeight: strips of 32 bytes of columns (8 f32, 16 f16 or
// bf16, 32 8-bit), one behind the other; a strip holds its columns of every row, rows padded to a multiple of
// 16. So element (r, c) of the stored matrix is at (c / C0) * RoundUp(rows, 16) * C0 + r * C0 + c % C0, where
// padding may hold anything. The same strips in fractals of other heights differ in padding only.
struct NzOperand {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16; s8 or u8 for PackNzInt8B
  bool transposed = false;    // the stored matrix is n x k, else k x n
  int64_t batch_stride = 0;   // elements between matrices; NzElements() where they follow each other
};
// Columns of a strip; elements that a rows x cols matrix takes, padding included.
int64_t NzStrip(DType dtype);
int64_t NzElements(int64_t rows, int64_t cols, DType dtype);
// PackB from FRACTAL_NZ, without a detour over rows: the same panels bit by bit.
std::shared_ptr<const PackedB> PackNzB(const NzOperand& b, int64_t k, int64_t n, int64_t batch,
                                       const Blocking& blocking, bool bf16_pairs = false);

struct Params {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;
  const PackedB* packed_b = nullptr;  // instead of b; matrix i of its batch, or its only one, for batch i
  std::optional<NzOperand> nz_b;      // instead of b: f32, f16 or bf16
  float* c = nullptr;                 // unit column stride; null: the epilogue has a program that stores
  int64_t c_row_stride = 0, c_batch_stride = 0;
  vector::Epilogue epilogue;  // its program may read and write c in place
  Blocking blocking;
  Path path = Path::kAuto;
  // Both operands are bf16 and are multiplied by the processor's dot products of pairs, which need
  // isa::HasBf16(), instead of widening them. All paths then sum in the same order, but for dots.
  bool bf16_pairs = false;
  void* workspace = nullptr;  // WorkspaceBytes(), aligned to kAlignment
};

Path ChoosePath(const Params& p);
// Is a constant B (still in b) worth packing ahead? Where few rows meet it, it is best read as it lies.
bool PackingPays(const Params& p);
void Run(const Params& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_GEMM_H_
