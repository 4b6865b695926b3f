// A depthwise convolution and the pointwise one behind it: apart, what lies between them written and read
// back; or together, some rows at a time that stay in the cores' own caches. Likewise with an expansion, the
// pointwise convolution in front of the two: all three together, or the expansion apart and the two as is
// better.
#ifndef OPSNN_PLAN_PAIR_H_
#define OPSNN_PLAN_PAIR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/knobs.h"
#include "device/profile.h"
#include "plan/decision.h"

namespace opsnn::plan {

struct PairEdge {
  std::string chain, where, shape;
  int64_t images = 0, rows = 0, columns = 0;  // of what lies between
  int64_t channels = 0, taps = 1, out_channels = 0;
  int64_t input_bytes = 0;
  int64_t strip_rows = 1;       // rows that are made at a time
  int64_t pieces = 1;           // of an image: strips, with an expansion runs of strips
  int64_t overlap_bytes = 0;    // of what the depthwise one reads, that every strip reads again
  int64_t expand_channels = 0;  // that the expansion reads; 0: there is none
  int64_t expanded_rows = 0, expanded_columns = 0, expanded_strip_rows = 0;  // of what it makes
  int threads = 0;
  bool words = true;  // false: verdict and times alone
};

// What one core's part of the memories on chip has room for.
struct PairRoom {
  int64_t strip_bytes = 0;     // of what lies between, beside the rows that are read and written
  int64_t expanded_bytes = 0;  // of rows of an expansion, beside those
  int64_t weight_bytes = 0;    // of the products, which every strip reads again
};
PairRoom RoomOfPair(const device::DeviceProfile& p, int cores);

Decision JudgePair(const PairEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
// The decision of the pair's shape class, as of CachedJudgeContraction. Never null.
std::shared_ptr<const Decision> CachedJudgePair(const PairEdge& e, const device::DeviceProfile& p,
                                                const Knobs& knobs);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_PAIR_H_
