#include "ops/random/random_op.h"

OPSNN_DEFINE_OPERATOR(RandomUniformLike) { DefineRandom(def, true, UniformDraw); }
