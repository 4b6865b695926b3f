#include "ops/index/arg_extreme.h"

OPSNN_DEFINE_OPERATOR(ArgMin) { DefineArgExtreme(def, "ArgMin", false); }
