#include "ops/signal/window_function.h"

OPSNN_DEFINE_OPERATOR(HannWindow) { DefineWindow(def, 0.5, 0.5, 0.0); }
