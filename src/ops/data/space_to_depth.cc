#include "ops/data/space_blocks.h"

OPSNN_DEFINE_OPERATOR(SpaceToDepth) { DefineSpaceBlocks(def, true); }
