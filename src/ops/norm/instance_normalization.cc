#include "ops/norm/group_norm.h"

OPSNN_DEFINE_OPERATOR(InstanceNormalization) {
  DefineGroupNorm(def, [](const op::Attrs&, int64_t channels) { return channels > 0 ? channels : 1; });
}
