// A depthwise convolution and the pointwise one behind it: apart, what lies between them written and read
// back; or together, some rows at a time that stay in the cores' own caches.
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
  int64_t strip_rows = 1;     // rows that are made at a time
  int64_t overlap_bytes = 0;  // of the input, that every strip reads again
  int threads = 0;
  bool words = true;  // false: verdict and times alone
};

// What one core's part of the memories on chip has room for.
struct PairRoom {
  int64_t strip_bytes = 0;   // of what lies between, beside the rows that are read and written
  int64_t weight_bytes = 0;  // of the product, which every strip reads again
};
PairRoom RoomOfPair(const device::DeviceProfile& p, int cores);

Decision JudgePair(const PairEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
// The decision of the pair's shape class, as of CachedJudgeContraction. Never null.
std::shared_ptr<const Decision> CachedJudgePair(const PairEdge& e, const device::DeviceProfile& p,
                                                const Knobs& knobs);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_PAIR_H_
