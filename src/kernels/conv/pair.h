// A depthwise convolution and the pointwise one behind it, some rows at a time: what lies between them is
// written to memory of the thread, where it stays in the private L2 cache, and never to memory at large. With
// an expansion, the pointwise convolution in front of them, rows of what it makes stay there as well:
//
//   y = post2(bias2 + W2 post1(bias1 + depthwise(v)))    v = x, or post0(bias0 + W0 x)
//
// Every sum goes in the order of the parts, so that the bits are theirs.
#ifndef OPSNN_KERNELS_CONV_PAIR_H_
#define OPSNN_KERNELS_CONV_PAIR_H_

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// What the private L2 cache has room for.
struct PairLimits {
  int64_t strip_bytes = 256 << 10;  // of what lies between the two, beside the rows that are read and written
  int64_t expanded_bytes = 512 << 10;  // of the rows that an expansion makes
  int64_t weight_bytes = 1 << 20;      // of the products, which every strip reads again
};

struct PairPlan {
  ConvPlan first, second;                  // as they would run alone
  std::shared_ptr<const ConvPlan> expand;  // null: the first reads x
  PairLimits limits;
  size_t first_offset = 0, expand_offset = 0;  // bytes inside the workspace, behind the second's
  size_t workspace_bytes = 0;
  std::string Describe() const;
};

// The shapes of those that run together, each the input of the next; the layouts between them do not matter.
struct PairShape {
  ConvShape first, second;
  const ConvShape* expand = nullptr;
};

// Why they cannot run together; null if they can.
const char* PairRefusal(const PairShape& s, const PairLimits& limits = {});

PairPlan PlanPair(const PairShape& s, const PairLimits& limits = {});

// Rows of the first's output that are made at a time, and pieces that threads take of an image: strips, with
// an expansion runs of strips, whose rows of it go on from one to the next.
struct PairCut {
  int64_t rows = 1, pieces = 1;
};
PairCut CutPair(const ConvShape& first, bool expanded, int threads, const PairLimits& limits);
// Rows of the first's input under so many of its output.
int64_t RowsUnder(const ConvShape& first, int64_t rows);

// All but the second have no y, residual, program or moments, all but the foremost no x; each has packed
// weights, or plain ones with their packing. Workspaces are set from `workspace`.
struct PairArgs {
  ConvArgs first, second, expand;
  void* workspace = nullptr;
};
void RunPair(const PairPlan& plan, const PairArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_PAIR_H_
