// What GroupNormalization and InstanceNormalization share.
#ifndef OPSNN_OPS_NORM_GROUP_NORM_H_
#define OPSNN_OPS_NORM_GROUP_NORM_H_

#include "op/operator.h"

namespace opsnn::ops {

// X (N, C, ...) in groups of neighbouring channels, each normalised on its own. groups(attrs, C) gives their
// number, 0 for a wrong attribute.
using CountGroups = int64_t (*)(const op::Attrs& attrs, int64_t channels);
void DefineGroupNorm(op::OpDef& def, CountGroups groups);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_NORM_GROUP_NORM_H_
