// Integer arithmetic that sizes need, for counts that are not negative.
#ifndef OPSNN_BASE_INT_MATH_H_
#define OPSNN_BASE_INT_MATH_H_

#include <concepts>
#include <type_traits>

namespace opsnn {

template <std::integral A, std::integral B>
constexpr std::common_type_t<A, B> CeilDiv(A a, B b) {
  return (a + b - 1) / b;
}
// The least multiple of `step` that is not below a.
template <std::integral A, std::integral B>
constexpr std::common_type_t<A, B> RoundUp(A a, B step) {
  return CeilDiv(a, step) * step;
}

}  // namespace opsnn

#endif  // OPSNN_BASE_INT_MATH_H_
