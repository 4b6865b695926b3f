// What DepthToSpace and SpaceToDepth share: one is the other with the sides exchanged.
#ifndef OPSNN_OPS_DATA_SPACE_BLOCKS_H_
#define OPSNN_OPS_DATA_SPACE_BLOCKS_H_

#include "op/operator.h"

namespace opsnn::ops {

// Between a wide image (N, C, b H, b W) and a deep one (N, b b C, H, W), b the attribute blocksize. The
// position in the block is the outer part of a deep channel, unless attribute mode is CRD.
void DefineSpaceBlocks(op::OpDef& def, bool to_depth);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_DATA_SPACE_BLOCKS_H_
