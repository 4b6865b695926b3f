// References of the aclnn tests: values computed in double precision, index by index.
#ifndef OPSNN_CAPI_ACLNN_TESTER_H_
#define OPSNN_CAPI_ACLNN_TESTER_H_

#include <functional>
#include <vector>

#include "capi/api_tester.h"

namespace opsnn::capi {

using Index = std::vector<int64_t>;
using testing::Compare;

inline constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr DType kMoved[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kS64,
                                   DType::kS32, DType::kS8,  DType::kBool};

inline Index At(const Dims& dims, int64_t linear) {
  Index at(static_cast<size_t>(dims.rank()));
  for (int i = dims.rank() - 1; i >= 0; --i) {
    at[static_cast<size_t>(i)] = linear % dims[i];
    linear /= dims[i];
  }
  return at;
}

inline int64_t Linear(const Dims& dims, const Index& at) {
  int64_t linear = 0;
  for (int i = 0; i < dims.rank(); ++i) linear = linear * dims[i] + at[static_cast<size_t>(i)];
  return linear;
}

// Position in `own`, which broadcasts to the dims that `at` is an index of.
inline int64_t BroadcastLinear(const Dims& own, const Index& at) {
  int64_t linear = 0;
  const size_t skip = at.size() - static_cast<size_t>(own.rank());
  for (int i = 0; i < own.rank(); ++i) {
    linear = linear * own[i] + (own[i] == 1 ? 0 : at[skip + static_cast<size_t>(i)]);
  }
  return linear;
}

// f of every index of dims, row-major.
inline std::vector<double> Make(const Dims& dims, const std::function<double(const Index&)>& f) {
  std::vector<double> v;
  for (int64_t i = 0; i < NumElements(dims); ++i) v.push_back(f(At(dims, i)));
  return v;
}

// A random tensor of any dtype whose values every dtype holds: -8 .. 8, halves of them, or 0 and 1.
class RandomTensor : public ApiTensor {
 public:
  RandomTensor(DType t, const Dims& dims, Rng& rng, bool strided = false, double scale = 4)
      : ApiTensor(t, dims, &rng, strided) {
    const bool is_bool = t == DType::kBool, is_unsigned = t == DType::kU8;
    memory().FillRandom(rng, is_bool || is_unsigned ? 0 : -scale, is_bool ? 1 : scale);
    values_ = Get();
  }
  double operator()(const Index& at) const { return values_[static_cast<size_t>(Linear(dims(), at))]; }
  double operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

// Nothing outside the tensors was written.
inline void ExpectGuards(std::initializer_list<ApiTensor*> tensors) {
  for (ApiTensor* t : tensors) EXPECT_TRUE(t->memory().GuardsIntact());
}

inline aclDataType Acl(DType t) { return static_cast<aclDataType>(Info(t).acl); }

// What a sum of `count` products of magnitude `size` may be off by in f32, and the result's own rounding.
inline double SumTolerance(double want, double size, int64_t count, DType t) {
  const double eps = t == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return static_cast<double>(count + 4) * eps * size * static_cast<double>(count) +
         std::abs(want) * testing::Epsilon(t) + (t == DType::kF16 ? 0x1p-25 : 0x1p-126);
}

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ACLNN_TESTER_H_
