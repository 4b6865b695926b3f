// Programs that make bytes out of one operand or the sum of two, dequantised with constants, in one pass:
//   y = saturate(round(clip(sum of (x - zero) * scale) / step) + zero)
// What joins quantised tensors (residual additions), changes their scale or quantises floats. With the bits
// of the interpreter, which makes ten passes of it.
#ifndef OPSNN_VECTOR_BYTES_BYTE_SUM_H_
#define OPSNN_VECTOR_BYTES_BYTE_SUM_H_

#include <cstdint>
#include <optional>

#include "program/program.h"
#include "vector/bytes/quotient.h"

namespace opsnn::vector {

class CompiledProgram;
struct BlockArg;

struct ByteSum {
  struct Term {
    int input = 0;
    float zero = 0, scale = 1;
  };
  Term term[2];
  int num_terms = 0;
  float clip_lo, clip_hi;  // infinite: none
  float step = 1, zero = 0, least = 0, most = 0;
  Quotient quotient;
};

std::optional<ByteSum> RecogniseByteSum(const Program& p);
// False where the program is none or its operands lie otherwise: use the interpreter.
bool ExecuteByteSum(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_BYTES_BYTE_SUM_H_
