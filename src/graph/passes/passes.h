// The passes: one function per file, listed in pass_manager.cc.
#ifndef OPSNN_GRAPH_PASSES_PASSES_H_
#define OPSNN_GRAPH_PASSES_PASSES_H_

#include "graph/pass_manager.h"

namespace opsnn::graph {

// Products of dequantised bytes become products of the bytes, scaled behind, where the CPU multiplies those
// faster.
Status IntegerProducts(Graph& g, PassContext& c);
// MaxPool runs on bytes in front of DequantizeLinear; bytes that are dequantised and quantised alike stay.
Status BytePools(Graph& g, PassContext& c);
// Nodes on constants become constants (shape arithmetic needs concrete shapes: see InferGraph).
Status ConstantFolding(Graph& g, PassContext& c);
// Nodes that return their input: Identity, Dropout, Cast to the same dtype, x*1, x/1, Reshape, Transpose,
// Slice, Expand, Pad, Concat and Resize that change nothing.
Status IdentityRemoval(Graph& g, PassContext& c);
// Two nodes with equal operator, attributes and operands become one; equal small constants too.
Status CommonSubexpressions(Graph& g, PassContext& c);
Status DeadCode(Graph& g, PassContext& c);
// BatchNormalization, and multiplications and additions of one value per channel, into the weights and bias
// of the Conv or ConvTranspose before them.
Status ConvBnFolding(Graph& g, PassContext& c);
// A BatchNormalization with constant parameters in front of a pointwise node becomes Mul and Add, which join
// it in one pass over the image.
Status BatchNorm(Graph& g, PassContext& c);
// Conv and BatchNormalization with the statistics of the batch behind it become ConvBatchNormTraining.
Status ConvBatchNorm(Graph& g, PassContext& c);
// A ConvTranspose that writes non-overlapping tiles of few channels becomes a pointwise Conv and
// DepthToSpace.
Status TransposedConv(Graph& g, PassContext& c);
// x * clip(x + 3, 0, 6) / 6 and x * HardSigmoid(x; 1/6, 1/2) become HardSwish.
Status HardSwish(Graph& g, PassContext& c);
// x * Sigmoid(x) becomes Swish.
Status Swish(Graph& g, PassContext& c);
// log(1 + exp(x)) becomes Softplus, x * tanh(Softplus(x)) becomes Mish.
Status Softplus(Graph& g, PassContext& c);
// The erf and tanh forms of GELU, decomposed, become Gelu.
Status Gelu(Graph& g, PassContext& c);
// (x - mean) / sqrt(mean((x - mean)^2) + eps) [* scale] [+ bias] over trailing axes becomes
// LayerNormalization.
Status LayerNorm(Graph& g, PassContext& c);
// Products of one tensor with several constant matrices become one, its columns split behind it.
Status MergedProducts(Graph& g, PassContext& c);
// Transposes between channels first and last, where the fewest bytes pass them. A value of the model in the
// other order, for which the model has no name, gets one of its own and says whose elements it holds.
Status TransposePlacement(Graph& g, PassContext& c);
// Transposes that undo or compose with each other, that move no data, or that a MatMul can read through.
Status TransposeSimplification(Graph& g, PassContext& c);
// Reshapes of reshapes.
Status ReshapeSimplification(Graph& g, PassContext& c);
// Pointwise nodes behind a Conv, MatMul or Gemm become its tail.
Status EpilogueFusion(Graph& g, PassContext& c);
// Two products in a row become FeedForward in blocks of rows, where the planner finds that it pays.
Status ChainedProducts(Graph& g, PassContext& c);
// A depthwise Conv and the pointwise one behind it become DepthwisePointwise, where the judge finds that it
// pays.
Status DepthwisePairs(Graph& g, PassContext& c);
// Pointwise nodes in a row become one Program node.
Status PointwiseChain(Graph& g, PassContext& c);
// A pointwise chain and the Softmax, LayerNormalization or RMSNormalization behind it become one row program.
Status RowChain(Graph& g, PassContext& c);
// NC1HWC0 outward from convolutions, with TransData at the borders.
Status AssignLayouts(Graph& g, PassContext& c);
// Split, Transpose and Concat without copies where their neighbours can read or write the parts in place.
Status PartsInPlace(Graph& g, PassContext& c);
// Winograd's algorithm for Conv with constant weights, where it is faster by the kernels' cost model.
Status WinogradTiles(Graph& g, PassContext& c);
// Transposes between NHWC and NCHW beside a TransData or Cast become part of it.
Status ImageOrderInConversions(Graph& g, PassContext& c);
// TransData of TransData.
Status TransDataMerge(Graph& g, PassContext& c);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PASSES_PASSES_H_
