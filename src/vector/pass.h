// A pass: one super-stage over a block of f32 values. The block interpreter is a loop over passes.
//
// Every operand is read through (pointer, row stride, step): step 1 walks along the row, step 0 repeats the
// one value at the row's start. So scalars, per-row values, row vectors and full blocks need no code of their
// own: a repeated value is splatted into one vector on the stack and read again and again from there (an L1
// hit).
#ifndef OPSNN_VECTOR_PASS_H_
#define OPSNN_VECTOR_PASS_H_

#include <cstdint>

#include "program/program.h"

namespace opsnn::vector {

inline constexpr int kMaxPassOperands = 4;

struct PassOperand {  // no initialisers: arrays of these must cost nothing
  const void* data;
  int64_t row_stride;  // elements
  int64_t step;        // 0 or 1
};

struct PassArgs {
  PassOperand src[kMaxPassOperands] = {};
  void* dst = nullptr;  // step 1
  int64_t dst_row_stride = 0;
  void* reduced = nullptr;  // reductions: one value per row, contiguous
  int64_t rows = 0, cols = 0;
  const float* imm = nullptr;     // two f32 immediates: those of the unary stage, if there is one
  const double* imm64 = nullptr;  // the same for f64 and integer stages
  // One, two or four lines (the step, in bytes) are prefetched per four vectors: the next block comes in
  // while this one is worked on. A step of 0 asks for the same line again and again, which is harmless.
  const char* prefetch = nullptr;
  int64_t prefetch_step = 0;
  bool stream = false;     // write past the caches
  bool fetch_dst = false;  // dst may be in no near cache: its lines are asked for before they are written
};

using PassFn = void (*)(const PassArgs&);

// How fused passes are named: root(child(...)). Each function returns null where there is no such pass.
//   kSingle     root alone
//   kBinUn      root(child(x, y))            root unary
//   kBinBin     root(child(x, y), z)
//   kUnBin      root(child(x), y)
//   kTriple     root(child(grand(x, y), z), w)
//   kTernUn     root(child(x, y, z))         root unary
enum class PassShape : uint8_t { kSingle, kBinUn, kBinBin, kUnBin, kTriple, kTernUn };
struct PassKey {
  PassShape shape = PassShape::kSingle;
  StageOp root = StageOp::kCopy, child = StageOp::kCopy, grand = StageOp::kCopy;
};
struct TierPasses {
  PassFn fn[3] = {};  // by isa::Tier
  explicit operator bool() const { return fn[0] != nullptr; }
};
TierPasses FindPass(const PassKey& key);

// Row reductions (f32): reduced[r] = op over the row, or over its squares (sums and means only).
TierPasses FindRowReduction(StageOp op, bool of_squares);
// d = x - y is written to dst; reduced[r] = sum d^2 (kSquare), or sum e^d (kCopy). With kExp, dst gets e^d.
// Divided by the row length if `mean`. The sums are those of RowSum and RowMean on the unfused stages, bit by
// bit.
TierPasses FindCentreReduction(StageOp second, bool mean);

// f64, s32 and s64 stages: plain loops. src[] and dst hold that type.
PassFn FindScalarPass(StageOp op, ComputeType type);
// Between compute types; the source's and the destination's.
PassFn FindConvertPass(ComputeType from, ComputeType to);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_PASS_H_
