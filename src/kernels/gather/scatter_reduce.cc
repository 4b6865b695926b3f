#include "kernels/gather/scatter_reduce.h"

#include <algorithm>
#include <type_traits>

#include "base/half.h"

namespace opsnn::kernels {
namespace {

template <typename V>
V Combine(ScatterReduction reduction, V a, V b) {
  // Integers add and multiply as unsigned numbers: they wrap.
  if constexpr (std::is_integral_v<V>) {
    if (reduction == ScatterReduction::kAdd)
      return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    if (reduction == ScatterReduction::kMul)
      return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    if (reduction == ScatterReduction::kDiv) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<V>) {
        if (b == -1) return static_cast<V>(-static_cast<uint64_t>(a));  // the lowest number stays itself
      }
      return static_cast<V>(a / b);
    }
  } else {
    if (reduction == ScatterReduction::kAdd) return a + b;
    if (reduction == ScatterReduction::kMul) return a * b;
    if (reduction == ScatterReduction::kDiv) return a / b;
    if (a != a) return a;
    if (b != b) return b;
  }
  return reduction == ScatterReduction::kMax ? std::max(a, b) : std::min(a, b);
}

template <typename T>
void Reduce(ScatterReduction reduction, const void* update, void* at, int64_t slice_bytes) {
  const T* u = static_cast<const T*>(update);
  T* y = static_cast<T*>(at);
  for (int64_t i = 0; i < slice_bytes / static_cast<int64_t>(sizeof(T)); ++i) {
    if constexpr (std::is_same_v<T, F16>) {
      y[i] = ToF16(Combine(reduction, ToFloat(y[i]), ToFloat(u[i])));
    } else if constexpr (std::is_same_v<T, BF16>) {
      y[i] = ToBF16(Combine(reduction, ToFloat(y[i]), ToFloat(u[i])));
    } else {
      y[i] = Combine(reduction, y[i], u[i]);
    }
  }
}

// By dtype, in the order of the enum; bool has none.
constexpr ReduceFn kReduce[kNumDTypes] = {Reduce<float>,   Reduce<double>,  Reduce<F16>,     Reduce<BF16>,
                                          Reduce<int8_t>,  Reduce<uint8_t>, Reduce<int16_t>, Reduce<int32_t>,
                                          Reduce<int64_t>, nullptr};

template <typename T>
void Mean(void* at, int64_t count) {
  T* y = static_cast<T*>(at);
  if constexpr (std::is_same_v<T, F16>) {
    *y = ToF16(ToFloat(*y) / static_cast<float>(count));
  } else if constexpr (std::is_same_v<T, BF16>) {
    *y = ToBF16(ToFloat(*y) / static_cast<float>(count));
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t sum = *y, whole = sum / count;
    *y = static_cast<T>(whole - (sum % count < 0));
  } else {
    *y = *y / static_cast<T>(count);
  }
}
constexpr MeanFn kMean[kNumDTypes] = {Mean<float>,   Mean<double>,  Mean<F16>,     Mean<BF16>,
                                      Mean<int8_t>,  Mean<uint8_t>, Mean<int16_t>, Mean<int32_t>,
                                      Mean<int64_t>, nullptr};

}  // namespace

ReduceFn FindReduce(DType dtype) { return kReduce[static_cast<int>(dtype)]; }

MeanFn FindMean(DType dtype) { return kMean[static_cast<int>(dtype)]; }

}  // namespace opsnn::kernels
