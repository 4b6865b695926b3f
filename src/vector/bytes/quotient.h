// Rounding x / step to integers without dividing.
#ifndef OPSNN_VECTOR_BYTES_QUOTIENT_H_
#define OPSNN_VECTOR_BYTES_QUOTIENT_H_

namespace opsnn::vector {

// round(x / step) = round(fma(x, high, x * low)) where `exact`, which is checked and nearly always so.
struct Quotient {
  float high = 0, low = 0;
  bool exact = false;
};
// For quotients that matter from `lo` to `hi`: beyond them both are beyond them.
Quotient FindQuotient(float step, float lo, float hi);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_BYTES_QUOTIENT_H_
