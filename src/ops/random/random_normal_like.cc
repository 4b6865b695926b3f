#include "ops/random/random_op.h"

OPSNN_DEFINE_OPERATOR(RandomNormalLike) { DefineRandom(def, true, NormalDraw); }
