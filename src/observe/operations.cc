// What operators compute that are neither one contraction nor one program, by their definition.
#include <algorithm>
#include <string_view>

#include "observe/traffic.h"
#include "program/program.h"

namespace opsnn::observe {
namespace {

using graph::Graph;
using graph::Node;

double Elements(const Graph& g, const std::vector<graph::ValueId>& list, size_t i) {
  return i < list.size() && list[i] >= 0 ? static_cast<double>(NumElements(g.values[list[i]].desc.dims)) : 0;
}

// The innermost dim.
double Width(const Graph& g, graph::ValueId v) {
  const Dims& d = g.values[v].desc.dims;
  return d.rank() > 0 ? static_cast<double>(d[d.rank() - 1]) : 1;
}

// Steps for every element that comes in: those of a reduction, then those that use its result.
struct PerElement {
  std::string_view op;
  double steps;
};
constexpr PerElement kPerElement[] = {
    {"LayerNormalization", 7},  // sum, subtract, square, sum, scale, scale, shift
    {"InstanceNormalization", 7},
    {"GroupNormalization", 7},
    {"BatchNormalizationTraining", 7},
    {"RMSNormalization", 4},    // square, sum, scale, scale
    {"BatchNormalization", 2},  // scale, shift
    {"GlobalAveragePool", 1},
    {"GlobalMaxPool", 1},
    {"GlobalLpPool", 2},
    {"Cast", 1},
    {"DequantizeLinear", 2},  // subtract, scale
    {"QuantizeLinear", 4},    // scale, round, add, clamp
};

}  // namespace

double OtherOperations(const Graph& g, const Node& n) {
  const std::string_view op = n.op->name;
  const double in = Elements(g, n.inputs, 0), out = Elements(g, n.outputs, 0);
  for (const PerElement& p : kPerElement)
    if (op == p.op) return p.steps * in;
  if (op == "Softmax" || op == "LogSoftmax") {
    const double exponential = Info(StageOp::kExp).cost;
    return (4 + exponential) * in;  // largest, subtract, sum, scale
  }
  if (op.substr(0, 6) == "Reduce") return in;
  if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") {
    double window = 1;
    for (const int64_t k : n.attrs.Ints("kernel_shape")) window *= static_cast<double>(k);
    return window * out;
  }
  if (op == "MatMulInteger" || op == "QLinearMatMul") return 2 * out * Width(g, n.inputs[0]);
  if (op == "FeedForward") {  // X, W1, W2
    const double hidden = Width(g, n.inputs[1]);
    return 2 * in * hidden + 2 * out * hidden;
  }
  return -1;
}

}  // namespace opsnn::observe
