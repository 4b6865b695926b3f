// A depthwise convolution and the pointwise one behind it, some rows at a time: what lies between them is
// written to memory of the thread, where it stays in the private L2 cache, and never to memory at large.
//
//   y = post2(bias2 + W2 post1(bias1 + depthwise(x)))
//
// Every sum goes in the order of the parts, so that the bits are theirs.
#ifndef OPSNN_KERNELS_CONV_PAIR_H_
#define OPSNN_KERNELS_CONV_PAIR_H_

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// What the private L2 cache has room for.
struct PairLimits {
  int64_t strip_bytes = 256 << 10;  // of what lies between the two, beside the rows that are read and written
  int64_t weight_bytes = 1 << 20;   // of the product, which every strip reads again
};

struct PairPlan {
  ConvPlan first, second;   // as they would run alone
  int64_t strip_bytes = 0;  // of PairLimits
  size_t first_offset = 0;  // bytes inside the workspace: the first's, behind the second's
  size_t workspace_bytes = 0;
  std::string Describe() const;
};

// Why the two cannot run together; null if they can. The second's input is the first's output.
const char* PairRefusal(const ConvShape& first, const ConvShape& second, const PairLimits& limits = {});

// The layouts between them do not matter.
PairPlan PlanPair(const ConvShape& first, const ConvShape& second, const PairLimits& limits = {});

// Rows of the first's output that are made at a time.
int64_t PairStripRows(const ConvShape& first, int threads, int64_t strip_bytes);

// `first` has no y, residual, program or moments, `second` no x; both have packed weights, or plain ones with
// their packing. Workspaces are set from `workspace`.
struct PairArgs {
  ConvArgs first, second;
  void* workspace = nullptr;
};
void RunPair(const PairPlan& plan, const PairArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_PAIR_H_
