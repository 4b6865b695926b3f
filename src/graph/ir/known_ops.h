// The operators that graph code knows by their meaning, looked up once.
#ifndef OPSNN_GRAPH_IR_KNOWN_OPS_H_
#define OPSNN_GRAPH_IR_KNOWN_OPS_H_

#include "op/operator.h"

namespace opsnn::graph {

// clang-format off
#define OPSNN_KNOWN_OPS(X)                                                                                 \
  X(Add) X(BatchNormalization) X(BatchNormalizationTraining) X(Cast) X(Clip) X(Concat) X(Conv)            \
  X(ConvBatchNormTraining) X(ConvInteger) X(ConvTranspose) X(DepthToSpace) X(DepthwisePointwise) X(DequantizeLinear)                         \
  X(Div) X(Dropout) X(Erf) X(Exp) X(Expand) X(FeedForward) X(Flatten) X(Gather) X(Gelu) X(Gemm) X(HardSigmoid) X(HardSwish)         \
  X(Identity) X(LayerNormalization) X(Log) X(MatMul) X(MatMulInteger) X(MaxPool) X(Mish) X(Mul) X(Pad) X(Pow) X(Program) X(QuantizeLinear) \
  X(RMSNormalization) X(ReduceMean) X(Reshape) X(Shape) X(Sigmoid) X(Size) X(Slice) X(Softmax)             \
  X(Softplus) X(Split) X(Sqrt) X(Squeeze) X(Sub) X(Swish) X(Tanh) X(Tile) X(TransData) X(Transpose)        \
  X(Unsqueeze)
// clang-format on

// Null where this build has no such operator; no node then has it either.
struct KnownOps {
#define OPSNN_KNOWN_OP_FIELD(name) const op::OpDef* name = nullptr;
  OPSNN_KNOWN_OPS(OPSNN_KNOWN_OP_FIELD)
#undef OPSNN_KNOWN_OP_FIELD
};
const KnownOps& Known();

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_IR_KNOWN_OPS_H_
