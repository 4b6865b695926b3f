#include "ops/index/arg_extreme.h"

OPSNN_DEFINE_OPERATOR(ArgMax) { DefineArgExtreme(def, "ArgMax", true); }
