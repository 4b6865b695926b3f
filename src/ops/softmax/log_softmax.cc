#include "ops/softmax/softmax_common.h"

OPSNN_DEFINE_OPERATOR(LogSoftmax) { DefineSoftmax(def, true); }
