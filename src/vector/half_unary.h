// One activation of f16 or bf16 in one pass: converted in registers, with nothing kept in scratch.
#ifndef OPSNN_VECTOR_HALF_UNARY_H_
#define OPSNN_VECTOR_HALF_UNARY_H_

#include <cstdint>

#include "program/program.h"

namespace opsnn::vector {

struct HalfUnary {
  StageOp op = StageOp::kRelu;
  DType type = DType::kBF16;
  const void* x = nullptr;
  void* y = nullptr;  // may be x
  int64_t n = 0;
  bool stream = false;  // past the caches
};
bool HasHalfUnary(StageOp op);
// Bit by bit what the interpreter gives.
void RunHalfUnary(const HalfUnary& a);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_HALF_UNARY_H_
