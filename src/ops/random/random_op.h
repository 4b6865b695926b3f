// What the random operators share: seeds, dtypes and filling a tensor element by element.
#ifndef OPSNN_OPS_RANDOM_RANDOM_OP_H_
#define OPSNN_OPS_RANDOM_RANDOM_OP_H_

#include <functional>

#include "op/operator.h"

namespace opsnn::ops {

// The generator's key from attribute seed (a float in ONNX: its bits); absent: 0.
uint64_t SeedOf(const op::Attrs* attrs);

// What element `counter` is, given the attributes. Set up once when the call is planned.
using Draw = std::function<double(uint64_t seed, uint64_t counter)>;
using MakeDraw = Draw (*)(const op::Attrs& attrs);
// Shape and dtype from attributes, or from input 0 where `like` (its dtype too, unless attribute dtype asks
// for another).
void DefineRandom(op::OpDef& def, bool like, MakeDraw make);

// A kernel that sets output 0: element i to draw(seed, i, address of element i of input 0 or null), rounded
// to its dtype; outputs only.
Result<op::KernelPtr> PlanDraw(const op::PlanContext& c,
                               std::function<double(uint64_t seed, uint64_t counter, const void* x)> draw,
                               DType x_dtype);

// Draws of the two distributions.
Draw NormalDraw(const op::Attrs& attrs);
Draw UniformDraw(const op::Attrs& attrs);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_RANDOM_RANDOM_OP_H_
