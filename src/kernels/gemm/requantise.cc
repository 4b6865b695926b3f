#include "kernels/gemm/requantise.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/requantise.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using DI = hn::Rebind<int32_t, D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// One row: factors and biases are read with steps of 0 or 1.
template <typename T, bool kFactors>
void Row(const int32_t* c, const double* factor, const int32_t* bias, int64_t bias_step, int32_t zero, T* y,
         int64_t cols) {
  const D d;
  const DI di;
  const hn::Rebind<T, D> dt;
  const auto shift = hn::Set(d, static_cast<double>(zero));
  const auto lo = hn::Set(d, std::is_signed_v<T> ? -128.0 : 0.0),
             hi = hn::Set(d, std::is_signed_v<T> ? 127.0 : 255.0);
  const auto one_factor = hn::Set(d, *factor);
  const auto one_bias = hn::Set(di, bias ? *bias : 0);
  const auto step = [&](const int32_t* sums, const double* f, const int32_t* b, T* to) HWY_ATTR {
    const auto added = bias_step ? hn::LoadU(di, b) : one_bias;
    const auto sum = hn::PromoteTo(d, hn::Add(hn::LoadU(di, sums), added));
    const auto scaled = hn::Mul(sum, kFactors ? hn::LoadU(d, f) : one_factor);
    const auto q = hn::Min(hn::Max(hn::Add(hn::Round(scaled), shift), lo), hi);
    const auto number = hn::IfThenElseZero(hn::Eq(scaled, scaled), q);  // NaN gives 0
    hn::StoreU(hn::DemoteTo(dt, hn::DemoteTo(di, number)), dt, to);
  };
  int64_t j = 0;
  for (; j + kLanes <= cols; j += kLanes)
    step(c + j, factor + (kFactors ? j : 0), bias + j * bias_step, y + j);
  if (j == cols) return;
  int32_t sums[kLanes] = {}, biases[kLanes] = {};
  double factors[kLanes] = {};
  T to[kLanes];
  const auto left = static_cast<size_t>(cols - j);
  std::memcpy(sums, c + j, left * sizeof(int32_t));
  if (bias_step) std::memcpy(biases, bias + j, left * sizeof(int32_t));
  if (kFactors) std::memcpy(factors, factor + j, left * sizeof(double));
  step(sums, factors, biases, to);
  std::memcpy(y + j, to, left * sizeof(T));
}

template <typename T>
void Block(const Requantise& q, const int32_t* c, int64_t ldc, int64_t batch, int64_t row, int64_t rows,
           int64_t col, int64_t cols) {
  T* y = static_cast<T*>(q.y) + batch * q.y_batch_stride + row * q.y_row_stride + col;
  const double* factor = q.factor + row * q.factor_row_stride + col * q.factor_col_stride;
  const int32_t* bias = q.bias ? q.bias + row * q.bias_row_stride + col * q.bias_col_stride : nullptr;
  for (int64_t i = 0; i < rows; ++i) {
    (q.factor_col_stride ? &Row<T, true> : &Row<T, false>)(c, factor, bias, bias ? q.bias_col_stride : 0,
                                                           q.zero, y, cols);
    c += ldc, y += q.y_row_stride, factor += q.factor_row_stride;
    if (bias) bias += q.bias_row_stride;
  }
}

void RequantiseKernel(const Requantise& q, const int32_t* c, int64_t ldc, int64_t batch, int64_t row,
                      int64_t rows, int64_t col, int64_t cols) {
  (q.to == DType::kS8 ? &Block<int8_t> : &Block<uint8_t>)(q, c, ldc, batch, row, rows, col, cols);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(RequantiseKernel);
void RequantiseBlock(const Requantise& q, const int32_t* c, int64_t ldc, int64_t batch, int64_t row,
                     int64_t rows, int64_t col, int64_t cols) {
  OPSNN_TIER_CALL(RequantiseKernel)(q, c, ldc, batch, row, rows, col, cols);
}
}  // namespace opsnn::gemm
#endif
