// Tensors with their dims in another order. Slow and plain: for constants and for verify.
#ifndef OPSNN_GRAPH_IR_REORDERED_H_
#define OPSNN_GRAPH_IR_REORDERED_H_

#include <cstdint>
#include <vector>

#include "tensor/host_tensor.h"

namespace opsnn::graph {

using Perm = std::vector<int64_t>;

Perm Inverse(const Perm& perm);
Dims Permuted(const Dims& dims, const Perm& perm);  // dim i is dims[perm[i]]
// The elements of t, taken to have `dims` (as many elements), with those dims permuted. Null without memory.
ConstTensor PermutedTensor(const HostTensor& t, const Dims& dims, const Perm& perm);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_IR_REORDERED_H_
