// Which algorithms there are for a convolution, which one runs, and in one line each why the others do not.
#ifndef OPSNN_KERNELS_CONV_CANDIDATES_H_
#define OPSNN_KERNELS_CONV_CANDIDATES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

struct Candidate {
  std::string name;          // "winograd, tiles of 4x4 outputs"
  std::string refused;       // empty: it runs
  double multiply_adds = 0;  // that it computes, padding lanes of blocks included
  // What it writes and reads back between input and output: transformed tiles, columns of im2col, padded
  // rows.
  int64_t buffer_bytes = 0;
};

// All of them, best first; exactly one runs. The last is im2col with a product, which does where it is asked
// for. The shape must be valid; a microsecond or so.
std::vector<Candidate> Candidates(const ConvShape& shape);

// The channels that blocks of kC0 add, and what they cost.
struct BlockPadding {
  int64_t in_channels = 0, out_channels = 0;  // added
  double products = 0;                        // share of the multiply-adds that is padding
  int64_t bytes = 0;                          // of padding in the blocked input and output
  std::string hint;                           // empty where there is no padding
};
BlockPadding PaddingOfBlocks(const ConvShape& shape);

// ---- what PlanConv chooses by (plan.cc, winograd_plan.cc)

// The shape with what no kernel tells apart made equal: the form that Refusal is asked about.
ConvShape AsKernelsSee(const ConvShape& s);
// The variants that come into question, best first.
std::span<const Variant> VariantsFor(const ConvShape& s);
// Why a variant of VariantsFor cannot compute this shape; null if it can.
const char* Refusal(const ConvShape& s, Variant v);
// Cycles of one core that Winograd with m x m tiles is expected to take; m = 0: the direct form of its shape.
double PredictedCycles(const ConvShape& s, int m);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_CANDIDATES_H_
