// Size buckets: a dim of an input is padded to the next of a few sizes, so that few plans serve all sizes.
//
// The padded part is zeros behind the given one, and results are cropped. That is right only where nothing
// mixes elements along the dim: OwnRows proves it for a graph, node by node, or names the node that does.
#ifndef OPSNN_GRAPH_BUCKETS_H_
#define OPSNN_GRAPH_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/ir/graph.h"
#include "plan/size_buckets.h"

namespace opsnn::graph {

using plan::BucketOf;
inline constexpr auto& kPresetBuckets = plan::kPresetSizes;

// Which dim of a value grows with the bucketed one: dims[axis] = factor * size.
struct BucketAxis {
  int axis = -1;  // -1: the value does not depend on the size
  int64_t factor = 0;
};

// `a` and `b` are one graph with shapes inferred for `size_a` < `size_b` of one dim; `inputs` says which axis
// of each graph input that is (-1: none). The axes of the outputs if elements at different places along the
// dim are computed independently everywhere, else an error that names the node that mixes them.
Result<std::vector<BucketAxis>> OwnRows(const Graph& a, int64_t size_a, const Graph& b, int64_t size_b,
                                        const std::vector<int>& inputs);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_BUCKETS_H_
