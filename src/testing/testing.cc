#include "testing/testing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "tensor/element.h"

namespace opsnn::testing {
namespace {

constexpr uint8_t kGuard = 0xA5;
constexpr int64_t kGuardBytes = 256;  // four cache lines: wider than any vector store that could stray

// Calls fn(byte offset from data) for every element in logical row-major order.
template <typename Fn>
void ForEachOffset(const TensorView& v, Fn fn) {
  const int64_t total = v.size();
  const Dims order = ContiguousStrides(v.dims);
  for (int64_t i = 0; i < total; ++i) {
    int64_t offset = 0;
    for (int d = 0; d < v.rank(); ++d) offset += i / order[d] % v.dims[d] * v.strides[d];
    fn(offset * static_cast<int64_t>(SizeOf(v.dtype)));
  }
}

}  // namespace

uint64_t TestSeed() {
  static const uint64_t seed = [] {
    const char* set = std::getenv("OPSNN_TEST_SEED");
    const uint64_t s = set ? std::strtoull(set, nullptr, 10) : std::random_device{}();
    std::printf("re-run with OPSNN_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
    std::fflush(stdout);
    return s;
  }();
  return seed;
}

int64_t Rng::Int(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
double Rng::Real(double lo, double hi) { return std::uniform_real_distribution<double>(lo, hi)(engine_); }

int64_t Rng::Size(int64_t max, bool allow_zero) {
  const int64_t lo = allow_zero ? 0 : 1;
  static constexpr int64_t kEdges[] = {8, 16, 64};
  int64_t v = 0;
  switch (Int(0, 5)) {
    case 0:
      v = lo;
      break;
    case 1:
      v = 1;
      break;
    case 2:
      v = Int(0, 4) * 2 + 1;
      break;
    case 3:
    case 4:
      v = kEdges[Int(0, 2)] * Int(1, 3) + Int(-1, 1);
      break;
    default:
      v = Int(lo, std::max(lo, max));
      break;
  }
  return std::clamp(v, lo, std::max(lo, max));
}

Dims Rng::Shape(int min_rank, int max_rank, int64_t max_elements, bool allow_zero) {
  Dims dims = Dims::Filled(static_cast<int>(Int(min_rank, max_rank)), 1);
  int64_t left = std::max<int64_t>(max_elements, 1);
  // From a random dimension on, so that the large sizes are not always in front.
  const int rank = dims.rank(), start = rank ? static_cast<int>(Int(0, rank - 1)) : 0;
  for (int i = 0; i < rank; ++i) {
    int64_t& d = dims[(start + i) % rank];
    // Zero sizes rarely: one makes the whole tensor empty.
    d = Size(left, allow_zero && Chance(0.05));
    left /= std::max<int64_t>(d, 1);
  }
  return dims;
}

FuzzFor::FuzzFor(int milliseconds) {
  const char* scale = std::getenv("OPSNN_FUZZ_SCALE");
  const double ms = milliseconds * (scale ? std::max(0.0, std::atof(scale)) : 1.0);
  deadline_ = std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<int64_t>(ms * 1000));
}

bool FuzzFor::More() { return iterations_++ == 0 || std::chrono::steady_clock::now() < deadline_; }

GuardedTensor::GuardedTensor(DType dtype, const Dims& wanted, Rng* rng, bool strided) {
  Dims dims = wanted;  // unknown dims, which a test of refusals may ask for, hold nothing
  for (int i = 0; i < dims.rank(); ++i) dims[i] = std::max<int64_t>(dims[i], 0);
  Dims strides = ContiguousStrides(dims);
  int64_t offset = 0;
  if (strided && rng) {
    int64_t step = rng->Int(1, 3);
    for (int i = dims.rank() - 1; i >= 0; --i) {
      strides[i] = step;
      step = step * std::max<int64_t>(dims[i], 1) + rng->Int(0, 5);
    }
    offset = rng->Int(0, 7);
  }
  TensorView probe{nullptr, dtype, dims, strides};
  const ByteRange range = TouchedBytes(probe);
  const int64_t size = static_cast<int64_t>(SizeOf(dtype)), used = range.end - range.begin + offset * size;
  bytes_.assign(static_cast<size_t>(2 * kGuardBytes + used), kGuard);
  view_ = {bytes_.data() + kGuardBytes + offset * size, dtype, dims, strides};
}

void GuardedTensor::FillRandom(Rng& rng, double lo, double hi) {
  char* data = static_cast<char*>(view_.data);
  ForEachOffset(view_, [&](int64_t at) { WriteElement(data + at, view_.dtype, rng.Real(lo, hi)); });
}

void GuardedTensor::Set(const std::vector<double>& values) {
  char* data = static_cast<char*>(view_.data);
  size_t i = 0;
  ForEachOffset(view_, [&](int64_t at) { WriteElement(data + at, view_.dtype, values[i++]); });
}

std::vector<double> GuardedTensor::Get() const {
  const char* data = static_cast<const char*>(view_.data);
  std::vector<double> out;
  out.reserve(static_cast<size_t>(view_.size()));
  ForEachOffset(view_, [&](int64_t at) { out.push_back(ReadElement(data + at, view_.dtype)); });
  return out;
}

bool GuardedTensor::GuardsIntact() const {
  std::vector<bool> owned(bytes_.size(), false);
  const int64_t base = static_cast<const uint8_t*>(view_.data) - bytes_.data();
  const int64_t size = static_cast<int64_t>(SizeOf(view_.dtype));
  ForEachOffset(view_, [&](int64_t at) {
    for (int64_t b = 0; b < size; ++b) owned[static_cast<size_t>(base + at + b)] = true;
  });
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (!owned[i] && bytes_[i] != kGuard) return false;
  }
  return true;
}

double Epsilon(DType t) {
  switch (t) {
    case DType::kF32:
      return 0x1p-24;
    case DType::kF64:
      return 0x1p-53;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

double ContractionTolerance(double abs_sum, double value, int64_t k, DType acc, DType out) {
  // Below the normal range a store rounds by up to half of the smallest subnormal.
  const double subnormal = out == DType::kF16 ? 0x1p-25 : out == DType::kBF16 ? 0x1p-134 : 0x1p-150;
  return abs_sum * (2 * std::sqrt(static_cast<double>(k)) + 4) * Epsilon(acc) +
         std::fabs(value) * Epsilon(out) + subnormal;
}

std::string Compare(const std::vector<double>& got, const std::vector<double>& want,
                    const std::vector<double>& tolerance) {
  if (got.size() != want.size()) {
    return StrFormat("got %zu elements, want %zu", got.size(), want.size());
  }
  size_t worst = got.size();
  double worst_excess = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double tol = i < tolerance.size() ? tolerance[i] : 0;
    const double error = std::fabs(got[i] - want[i]);
    if (error <= tol) continue;  // false for NaN and for Inf against anything else
    const double excess = std::isfinite(error) ? error - tol : std::numeric_limits<double>::infinity();
    if (worst == got.size() || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (worst == got.size()) return "";
  const double tol = worst < tolerance.size() ? tolerance[worst] : 0;
  return StrFormat("element %zu of %zu: got %.9g, want %.9g, error %.3g, allowed %.3g", worst, got.size(),
                   got[worst], want[worst], std::fabs(got[worst] - want[worst]), tol);
}

std::string Compare(const std::vector<double>& got, const std::vector<double>& want, double abs_tol,
                    double rel_tol) {
  std::vector<double> tolerance(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    tolerance[i] = abs_tol + (std::isfinite(want[i]) ? rel_tol * std::fabs(want[i]) : 0);
  }
  return Compare(got, want, tolerance);
}

}  // namespace opsnn::testing
