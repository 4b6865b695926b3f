#include "ops/signal/window_function.h"

OPSNN_DEFINE_OPERATOR(HammingWindow) { DefineWindow(def, 25.0 / 46.0, 21.0 / 46.0, 0.0); }
