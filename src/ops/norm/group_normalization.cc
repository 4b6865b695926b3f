#include "ops/norm/group_norm.h"

OPSNN_DEFINE_OPERATOR(GroupNormalization) {
  DefineGroupNorm(def, [](const op::Attrs& attrs, int64_t) { return attrs.Int("num_groups", 0); });
}
