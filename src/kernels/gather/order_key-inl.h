// Values as signed integers of the same order and size, so that finding the largest is one loop for all
// types.
#if defined(OPSNN_KERNELS_GATHER_ORDER_KEY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_GATHER_ORDER_KEY_INL_H_
#undef OPSNN_KERNELS_GATHER_ORDER_KEY_INL_H_
#else
#define OPSNN_KERNELS_GATHER_ORDER_KEY_INL_H_
#endif

#include <limits>
#include <type_traits>

#include "base/half.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <size_t kBytes>
struct SignedOf;
template <>
struct SignedOf<1> {
  using Type = int8_t;
};
template <>
struct SignedOf<2> {
  using Type = int16_t;
};
template <>
struct SignedOf<4> {
  using Type = int32_t;
};
template <>
struct SignedOf<8> {
  using Type = int64_t;
};
template <typename T>
using KeyOf = typename SignedOf<sizeof(T)>::Type;

// The bits of infinity; 0 for integers.
template <typename T>
constexpr KeyOf<T> InfinityBits() {
  if constexpr (std::is_same_v<T, F16>) return 0x7C00;
  if constexpr (std::is_same_v<T, BF16>) return 0x7F80;
  if constexpr (std::is_same_v<T, float>) return 0x7F800000;
  if constexpr (std::is_same_v<T, double>) return 0x7FF0000000000000;
  return 0;
}

enum class NanRule : uint8_t { kFirst, kLargest };

// Keys of elements of type T: a larger one comes earlier in the order sought. -0 is 0. NaN comes first, or is
// the largest value.
template <typename T, NanRule kNan, class D>
class OrderKey {
 public:
  using K = KeyOf<T>;
  using V = hn::Vec<D>;
  HWY_INLINE OrderKey(D d, bool largest)
      : d_(d), turn_(largest ? hn::Zero(d) : hn::Set(d, static_cast<K>(-1))) {}

  HWY_INLINE V operator()(const T* p) const {
    constexpr K kMost = std::numeric_limits<K>::max(), kLeast = std::numeric_limits<K>::min();
    V v = hn::LoadU(d_, reinterpret_cast<const K*>(p));
    if constexpr (std::is_same_v<T, uint8_t>) v = hn::Xor(v, hn::Set(d_, kLeast));
    if constexpr (InfinityBits<T>() == 0) return hn::Xor(v, turn_);
    const V most = hn::Set(d_, kMost);
    const auto nan = hn::Gt(hn::And(v, most), hn::Set(d_, InfinityBits<T>()));
    v = hn::IfThenZeroElse(hn::Eq(v, hn::Set(d_, kLeast)), v);
    v = hn::Xor(v, hn::And(hn::BroadcastSignBit(v), most));
    if constexpr (kNan == NanRule::kFirst) return hn::IfThenElse(nan, most, hn::Xor(v, turn_));
    return hn::Xor(hn::IfThenElse(nan, most, v), turn_);
  }

 private:
  D d_;
  V turn_;
};

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
