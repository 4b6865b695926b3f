// Products of dequantised tensors: which can be products of the integers themselves, and why others cannot.
#ifndef OPSNN_GRAPH_FUSION_DEQUANTISED_H_
#define OPSNN_GRAPH_FUSION_DEQUANTISED_H_

#include <optional>

#include "graph/passes/rewriter.h"
#include "op/pointwise.h"

namespace opsnn::graph {

// A DequantizeLinear of bytes: its operands.
struct Dequantised {
  NodeId node = -1;
  ValueId q = kNoValue, scale = kNoValue, zero = kNoValue;
  DType dtype = DType::kU8;
};

struct QuantisedProduct {
  const char* refusal = nullptr;  // why it is not a product of integers; the rest is then not filled in
  Dequantised a, b;
  ConstTensor transposed_b;  // k x n, where b holds n x k; null: b as it is
  ConstTensor scale;         // of a times that of b, f32: one value, or one per column or output channel
  ConstTensor bias;          // of a Conv or Gemm, as it is added to its result; null: none
};

// MatMul, Gemm or Conv of one or two dequantised operands; nullopt for other nodes.
std::optional<QuantisedProduct> AsQuantisedProduct(const Rewriter& r, NodeId n);

// The program of a DequantizeLinear to f32 that can be part of a group: of integers of up to 16 bits, with
// one scale and one zero point; nullopt for other nodes.
std::optional<op::BoundProgram> DequantisingProgram(const Graph& g, const Node& n);

// Does this CPU multiply bytes faster than floats?
bool MultipliesBytesFaster();

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_DEQUANTISED_H_
