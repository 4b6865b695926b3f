#include <algorithm>
#include <vector>

#include "base/half.h"
#include "base/parallel.h"
#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "EmbeddingBag";

enum class Mode : uint8_t { kSum, kMean, kMax };

struct Bags {
  Mode mode = Mode::kSum;
  DType dtype = DType::kF32;
  int64_t rows = 0, width = 0, indices = 0, offsets = 0, bags = 0, padding = -1;
};

Status Infer(op::InferContext& c) {
  const Dims &weight = c.inputs[0]->dims, &indices = c.inputs[1]->dims, &offsets = c.inputs[2]->dims;
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "weight", weight, 2, 2));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "indices", indices, 1, 1));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "offsets", offsets, 1, 1));
  const bool last = op::AttrsOf(c.attrs).Int("include_last_offset", 0) != 0;
  if (last && offsets[0] < 1) {
    return InvalidArgument("%s: offsets has shape [0]; allowed: the last offset, which is included", kOp);
  }
  if (const op::TensorDesc* w = InputOrNull(c.inputs, 3); w != nullptr && w->dims != indices) {
    return InvalidArgument("%s: sample_weights has shape %s; allowed: %s, that of indices", kOp,
                           opsnn::ToString(w->dims).c_str(), opsnn::ToString(indices).c_str());
  }
  const Dims y = {offsets[0] - last, weight[1]};
  const bool max = op::AttrsOf(c.attrs).String("mode", "sum") == "max";
  c.outputs = {Desc(c.inputs[0]->dtype, y), Desc(DType::kS64, indices), Desc(DType::kS64, {y[0]}),
               Desc(DType::kS64, max ? y : Dims{y[0]})};
  return OkStatus();
}

// Offsets in order and indices in range, before anything is written.
Status CheckBags(const Bags& b, const int64_t* indices, const int64_t* offsets) {
  for (int64_t i = 0; i < b.offsets; ++i) {
    const int64_t lowest = i == 0 ? 0 : offsets[i - 1], highest = i == 0 ? 0 : b.indices;
    if (offsets[i] >= lowest && offsets[i] <= highest) continue;
    return InvalidArgument("%s: offsets: offsets[%lld]=%lld; allowed: %lld to %lld%s", kOp,
                           static_cast<long long>(i), static_cast<long long>(offsets[i]),
                           static_cast<long long>(lowest), static_cast<long long>(highest),
                           i == 0 ? ", where the first bag starts" : ", not before the last bag");
  }
  return kernels::CheckIndices({indices, true, b.indices}, b.rows).WithContext("EmbeddingBag: indices");
}

struct Results {
  void* y;
  int64_t *bag_of_index, *bag_size, *max_index;
};

float Load(const float& v) { return v; }
template <typename T>
float Load(const T& v) {
  return ToFloat(v);
}
void Store(float v, float* to) { *to = v; }
void Store(float v, F16* to) { *to = ToF16(v); }
void Store(float v, BF16* to) { *to = ToBF16(v); }

template <typename T>
void RunBag(const Bags& b, int64_t bag, const op::RunArgs& args, const Results& r) {
  const T *weight = static_cast<const T*>(args.inputs[0]), *samples = static_cast<const T*>(args.inputs[3]);
  const auto *indices = static_cast<const int64_t*>(args.inputs[1]),
             *offsets = static_cast<const int64_t*>(args.inputs[2]);
  const int64_t begin = offsets[bag], end = bag + 1 < b.offsets ? offsets[bag + 1] : b.indices;
  const bool max = b.mode == Mode::kMax;
  std::vector<float> sum(static_cast<size_t>(b.width), 0.0F);
  int64_t counted = 0;
  int64_t* chosen = max ? r.max_index + bag * b.width : r.max_index + bag;
  std::fill(chosen, chosen + (max ? b.width : 1), max ? int64_t{-1} : int64_t{0});
  for (int64_t j = begin; j < end; ++j) {
    r.bag_of_index[j] = bag;
    const int64_t index = indices[j] < 0 ? indices[j] + b.rows : indices[j];
    if (index == b.padding) continue;
    const T* row = weight + index * b.width;
    const float scale = samples != nullptr ? Load(samples[j]) : 1.0F;
    for (int64_t i = 0; i < b.width; ++i) {
      const float v = Load(row[i]) * scale;
      float& s = sum[static_cast<size_t>(i)];
      if (!max) {
        s += v;
      } else if (counted == 0 || v > s || (v != v && s == s)) {  // the first of equals; NaN stays
        s = v;
        chosen[i] = index;
      }
    }
    ++counted;
  }
  r.bag_size[bag] = counted;
  T* y = static_cast<T*>(r.y) + bag * b.width;
  const float by = b.mode == Mode::kMean && counted > 0 ? static_cast<float>(counted) : 1.0F;
  for (int64_t i = 0; i < b.width; ++i) Store(sum[static_cast<size_t>(i)] / by, y + i);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  Bags b;
  const std::string mode = attrs.String("mode", "sum");
  b.mode = mode == "max" ? Mode::kMax : mode == "mean" ? Mode::kMean : Mode::kSum;
  b.dtype = c.inputs[0]->dtype;
  b.rows = c.inputs[0]->dims[0], b.width = c.inputs[0]->dims[1];
  b.indices = c.inputs[1]->dims[0], b.offsets = c.inputs[2]->dims[0];
  b.bags = c.outputs[0].dims[0];
  b.padding = attrs.Int("padding_index", -1);
  const bool weighted = IsGiven(c.inputs, 3);
  const auto run = [b, weighted](const op::RunArgs& given) -> Status {
    const auto *indices = static_cast<const int64_t*>(given.inputs[1]),
               *offsets = static_cast<const int64_t*>(given.inputs[2]);
    OPSNN_RETURN_IF_ERROR(CheckBags(b, indices, offsets));
    const void* inputs[] = {given.inputs[0], indices, offsets, weighted ? given.inputs[3] : nullptr};
    op::RunArgs args = given;
    args.inputs = const_cast<void* const*>(inputs);
    const Results r = {args.outputs[0], static_cast<int64_t*>(args.outputs[1]),
                       static_cast<int64_t*>(args.outputs[2]), static_cast<int64_t*>(args.outputs[3])};
    // Behind the last offset, where it is included, belong to no bag.
    const int64_t end = b.offsets > b.bags ? offsets[b.bags] : b.indices;
    std::fill(r.bag_of_index + (b.bags == 0 ? 0 : end), r.bag_of_index + b.indices, int64_t{-1});
    ParallelFor(b.bags, [&](int64_t bag, int) {
      if (b.dtype == DType::kF32) return RunBag<float>(b, bag, args, r);
      if (b.dtype == DType::kF16) return RunBag<F16>(b, bag, args, r);
      RunBag<BF16>(b, bag, args, r);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("bags", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(EmbeddingBag) {
  def.infer = Infer;
  def.plan = Plan;
}
