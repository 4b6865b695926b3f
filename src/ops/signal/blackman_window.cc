#include "ops/signal/window_function.h"

OPSNN_DEFINE_OPERATOR(BlackmanWindow) { DefineWindow(def, 0.42, 0.5, 0.08); }
