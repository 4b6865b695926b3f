#include "ops/softmax/softmax_common.h"

OPSNN_DEFINE_OPERATOR(Softmax) { DefineSoftmax(def, false); }
