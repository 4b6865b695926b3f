// A graph as text that can be read back: what a model is before any pass has changed it.
//
//   opsnn-graph 1
//   graph "mlp"
//   input 0 "x" f32 [-1,4] ["N",""]
//   constant 1 "w" f32 [4,2] 0000803f...            bytes as they lie in memory (little-endian), in hex
//   node "MatMul" "product" [0,1] [2 "h" *]         operands (-1: absent), then results: number, name, type
//   node "Softmax" "rows" [2] [3 "y" f32 [-1,2]]    and dims where they are known, * where not
//     "axis" int -1                                 attributes
//   output 3
//
// Numbers name values; every one is defined before it is used. Graphs inside nodes (If, Loop, Scan), fused
// chains and layouts, which passes make, have no text.
#ifndef OPSNN_GRAPH_IR_TEXT_H_
#define OPSNN_GRAPH_IR_TEXT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/ir/graph.h"

namespace opsnn::graph {

Result<std::string> WriteText(const Graph& g);
// Errors name the line, what it holds and what is allowed there.
Result<Graph> ReadText(std::string_view text);
// Does it begin as such a text does?
bool IsText(std::string_view bytes);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_IR_TEXT_H_
