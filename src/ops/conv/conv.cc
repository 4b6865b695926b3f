#include "op/advice.h"
#include "ops/conv/conv_op.h"

OPSNN_DEFINE_OPERATOR(Conv) { DefineConv(def, false); }

OPSNN_DEFINE_ADVICE(Conv) {
  advice.winograd_tile = WinogradTile;
  advice.winograd_growth = conv::WinogradGrowth;
}
