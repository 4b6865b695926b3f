// Packing one output group, for runs that pack what they are about to use.
#ifndef OPSNN_KERNELS_CONV_PACK_H_
#define OPSNN_KERNELS_CONV_PACK_H_

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Are these numbers neither infinite nor NaN?
bool AllFinite(const float* v, int64_t count);

// The weights of group `g` in all phases, from `packed` on; w as in PackWeights. Not of depthwise and
// Winograd plans. One thread. `finite` becomes false if a weight is not finite; null: nobody looks.
void PackOcGroup(const ConvPlan& plan, const OcGroup& g, const float* w, float* packed,
                 bool* finite = nullptr);

// The same arguments with packed weights: plain ones are packed into their room.
ConvArgs WithPackedWeights(const ConvPlan& plan, ConvArgs args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_PACK_H_
