// Products of f64 and s32 matrices, exact types: s32 wraps; f64 sums over k in ascending order, in one piece.
// B is packed a group of panels at a time, which stays in L2 with the rows of A that meet it; a program may
// follow on each block of C while it is there.
#ifndef OPSNN_KERNELS_GEMM_PLAIN_H_
#define OPSNN_KERNELS_GEMM_PLAIN_H_

#include <cstdint>
#include <span>

#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

struct PlainParams {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;       // both of one dtype: f64 or s32
  void* c = nullptr;  // of the same dtype, unit column stride; null: the program stores
  int64_t c_row_stride = 0, c_batch_stride = 0;
  // Pointwise, its input 0 is the block in the dtype of a; args are its further inputs, then its outputs.
  const vector::CompiledProgram* program = nullptr;
  std::span<const vector::EpilogueArg> args;
};
void RunPlain(const PlainParams& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PLAIN_H_
