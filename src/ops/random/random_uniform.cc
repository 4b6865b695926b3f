#include "ops/random/random_op.h"

OPSNN_DEFINE_OPERATOR(RandomUniform) { DefineRandom(def, false, UniformDraw); }
