// The chain that usually follows a product of bytes, run on its sums tile by tile while they are in L1:
//   x = f32(sum) * scale + bias (+ residual);  x = clip(x);  y = x, or saturate(round(x / step) + zero)
// Programs that are this are recognised when a call is planned; results have the interpreter's bits.
#ifndef OPSNN_KERNELS_GEMM_INT8_CHAIN_H_
#define OPSNN_KERNELS_GEMM_INT8_CHAIN_H_

#include <cstdint>
#include <memory>
#include <span>

#include "vector/bytes/quotient.h"
#include "vector/run.h"

namespace opsnn::gemm {

struct Int8Chain {
  // args[arg] of the call, or a constant where arg is negative.
  struct Value {
    int arg = -1;
    float constant = 0;
  };
  Value scale{-1, 1.0f}, bias{-1, -0.0f}, step, zero;
  int residual = -1;       // an operand as large as the result; negative: none
  float clip_lo, clip_hi;  // infinite: none
  bool quantises = false;
  float least = 0, most = 0;  // of the integers that are stored
  vector::Quotient quotient;  // of a constant step
  int output = 0;             // of args
};

// Null where the program is none, or for such operands.
std::shared_ptr<const Int8Chain> MatchInt8Chain(const vector::CompiledProgram& program,
                                                std::span<const vector::EpilogueArg> args);

// A block of sums at `c` whose element (0, 0) is (row, col) of matrix `batch`.
struct SumsBlock {
  const int32_t* c = nullptr;
  int64_t ldc = 0, batch = 0, row = 0, rows = 0, col = 0, cols = 0;
};

// The chain with the operands of a call, which both outlive it; results are `batch` of rows x cols.
class BoundInt8Chain {
 public:
  BoundInt8Chain() = default;
  BoundInt8Chain(const Int8Chain& chain, std::span<const vector::EpilogueArg> args, int64_t batch,
                 int64_t rows, int64_t cols);
  void Run(const SumsBlock& at) const;
  // Asks for what Run will write there, rows that lie apart: it arrives while the sums are made.
  void Fetch(const SumsBlock& at) const {
    const vector::BlockArg y = y_.At(at.batch, 0, at.row, at.col);
    const char* line = static_cast<const char*>(y.data);
    const int64_t row = y.row_stride * static_cast<int64_t>(SizeOf(y.dtype));
    for (int64_t i = 0; i < at.rows; ++i, line += row) __builtin_prefetch(line, 1, 3);
  }

 private:
  struct Operand {  // f32
    const float* data = nullptr;
    int64_t batch_stride = 0, row_stride = 0, col_stride = 0;
  };
  Operand scale_, bias_, residual_;
  vector::EpilogueArg y_;
  bool fast_ = false;      // multiplies instead of dividing
  bool finite_ = false;    // so is what that is done to
  float lo_ = 0, hi_ = 0;  // of the clip; of both clips where fast
  float step_ = 1, high_ = 0, low_ = 0, least_ = 0, most_ = 0, zero_ = 0;
};

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_CHAIN_H_
