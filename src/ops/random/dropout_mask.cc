#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/random/philox.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  const int64_t count = op::AttrsOf(c.attrs).Int("count", 0);
  return SetOutput(c, Desc(DType::kU8, {(count + 127) / 128 * 16}));
}

// A block of the generator gives four numbers.
class Words {
 public:
  explicit Words(uint64_t seed) : seed_(seed) {}
  uint32_t At(uint64_t i) {
    if (i / 4 != block_ || !filled_) block_ = i / 4, words_ = Philox(seed_, block_), filled_ = true;
    return words_[i % 4];
  }

 private:
  uint64_t seed_, block_ = 0;
  bool filled_ = false;
  PhiloxWords words_{};
};

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  constexpr int64_t kTaskBytes = 1024;
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const double drop = attrs.Float("drop", 0);
  const auto run = [count = attrs.Int("count", 0), bytes = c.outputs[0].dims[0],
                    seed = static_cast<uint64_t>(attrs.Int("seed", 0)),
                    offset = static_cast<uint64_t>(attrs.Int("offset", 0)),
                    limit = drop * 0x1p32](const op::RunArgs& args) {
    auto* y = static_cast<uint8_t*>(args.outputs[0]);
    ParallelFor((bytes + kTaskBytes - 1) / kTaskBytes, [&](int64_t task, int) {
      Words words(seed);
      for (int64_t b = task * kTaskBytes; b < std::min(bytes, (task + 1) * kTaskBytes); ++b) {
        unsigned bits = 0;
        for (int64_t i = b * 8; i < std::min(count, b * 8 + 8); ++i)
          bits |= unsigned{words.At(offset + static_cast<uint64_t>(i)) >= limit} << (i % 8);
        y[b] = static_cast<uint8_t>(bits);
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("Philox", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DropoutMask) {
  def.infer = Infer;
  def.plan = Plan;
}
