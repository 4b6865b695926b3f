#include "ops/data/space_blocks.h"

OPSNN_DEFINE_OPERATOR(DepthToSpace) { DefineSpaceBlocks(def, false); }
