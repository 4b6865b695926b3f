#include "ops/random/random_op.h"

OPSNN_DEFINE_OPERATOR(RandomNormal) { DefineRandom(def, false, NormalDraw); }
