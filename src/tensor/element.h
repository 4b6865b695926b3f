// One element of any dtype as a double, and back: the slow, obvious conversions for tests, folding and
// references. Never in a hot loop.
#ifndef OPSNN_TENSOR_ELEMENT_H_
#define OPSNN_TENSOR_ELEMENT_H_

#include "base/dtype.h"

namespace opsnn {

double ReadElement(const void* p, DType t);
// Floats round once, to nearest even. Integers: rounded to nearest even, then saturated; NaN gives 0; bool is
// v != 0 (NaN is true).
void WriteElement(void* p, DType t, double v);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_ELEMENT_H_
