// What it costs in accuracy to add up in a half type: the same inputs of halves, added up in f32, as
// operators do here, and in the type itself. Both results are rounded to the type once more, as a store does.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/half.h"
#include "bench/experiments/experiment.h"

namespace opsnn::experiments {
namespace {

// A cube or vector unit adds lane by lane; so many running sums take the terms in turn here.
constexpr int64_t kRunningSums = 16;

struct InF32 {
  static float Keep(float v) { return v; }
};
template <typename T>
struct InHalf;
template <>
struct InHalf<F16> {
  static float Keep(float v) { return ToFloat(ToF16(v)); }
};
template <>
struct InHalf<BF16> {
  static float Keep(float v) { return ToFloat(ToBF16(v)); }
};

// The sum of term(0) .. term(n - 1): every term and every sum is kept as `Unit` keeps it.
template <class Unit, class Term>
double Sum(int64_t n, const Term& term) {
  float sums[kRunningSums] = {};
  for (int64_t i = 0; i < n; ++i) {
    float& s = sums[i % kRunningSums];
    s = Unit::Keep(s + Unit::Keep(term(i)));
  }
  float total = 0;
  for (const float s : sums) total = Unit::Keep(total + s);
  return total;
}
template <class Term>
double ExactSum(int64_t n, const Term& term) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += term(i);
  return total;
}

// A layer norm of one row, all of whose statistics are kept as `Unit` keeps them.
template <class Unit>
std::vector<double> Normalised(const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
  const float mean = Unit::Keep(static_cast<float>(Sum<Unit>(n, at) / static_cast<double>(n)));
  const auto centred = [&](int64_t i) { return Unit::Keep(at(i) - mean); };
  const double squares = Sum<Unit>(n, [&](int64_t i) { return centred(i) * centred(i); });
  const float variance = Unit::Keep(static_cast<float>(squares / static_cast<double>(n)));
  const float rstd = Unit::Keep(1 / std::sqrt(variance + 1e-5f));
  std::vector<double> y;
  for (int64_t i = 0; i < n; ++i) y.push_back(Unit::Keep(centred(i) * rstd));
  return y;
}
std::vector<double> ExactlyNormalised(const std::vector<float>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  std::vector<double> y;
  for (const double v : x) y.push_back((v - mean) / std::sqrt(variance + 1e-5));
  return y;
}

struct Errors {
  double in_f32 = 0, in_type = 0;  // the worst seen, relative to the largest result
};

template <typename T>
std::vector<float> Halves(testing::Rng& rng, int64_t n, double low, double high) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(InHalf<T>::Keep(static_cast<float>(rng.Real(low, high))));
  return v;
}

constexpr int kTries = 20;

template <typename T>
Errors SumErrors(int64_t n) {
  testing::Rng rng;
  Errors e;
  for (int round = 0; round < kTries; ++round) {
    const std::vector<float> x = Halves<T>(rng, n, 0, 1);
    const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
    const double want = ExactSum(n, at);
    const auto off = [&](double got) {
      return std::fabs(InHalf<T>::Keep(static_cast<float>(got)) - want) / want;
    };
    e.in_f32 = std::max(e.in_f32, off(Sum<InF32>(n, at)));
    e.in_type = std::max(e.in_type, off(Sum<InHalf<T>>(n, at)));
  }
  return e;
}

template <typename T>
Errors NormErrors(int64_t n) {
  testing::Rng rng;
  Errors e;
  for (int round = 0; round < kTries; ++round) {
    const std::vector<float> x = Halves<T>(rng, n, 1, 3);
    const std::vector<double> want = ExactlyNormalised(x), wide = Normalised<InF32>(x),
                              narrow = Normalised<InHalf<T>>(x);
    double largest = 0;
    for (const double v : want) largest = std::max(largest, std::fabs(v));
    const auto off = [&](const std::vector<double>& got) {
      double most = 0;
      for (size_t i = 0; i < got.size(); ++i)
        most = std::max(most, std::fabs(InHalf<T>::Keep(static_cast<float>(got[i])) - want[i]));
      return most / largest;
    };
    e.in_f32 = std::max(e.in_f32, off(wide)), e.in_type = std::max(e.in_type, off(narrow));
  }
  return e;
}

// Elements of a product, relative to the standard deviation of one.
template <typename T>
Errors ProductErrors(int64_t k) {
  testing::Rng rng;
  Errors e;
  const double scale = std::sqrt(static_cast<double>(k)) / 3;
  for (int round = 0; round < kTries; ++round) {
    const std::vector<float> a = Halves<T>(rng, k, -1, 1), b = Halves<T>(rng, k, -1, 1);
    const auto term = [&](int64_t i) { return a[static_cast<size_t>(i)] * b[static_cast<size_t>(i)]; };
    const double want = ExactSum(k, term);
    const auto off = [&](double got) {
      return std::fabs(InHalf<T>::Keep(static_cast<float>(got)) - want) / scale;
    };
    e.in_f32 = std::max(e.in_f32, off(Sum<InF32>(k, term)));
    e.in_type = std::max(e.in_type, off(Sum<InHalf<T>>(k, term)));
  }
  return e;
}

template <typename T>
void Rows(const char* type) {
  struct Case {
    const char* name;
    Errors (*errors)(int64_t);
  };
  for (const Case& c :
       {Case{"sum", SumErrors<T>}, {"layer norm", NormErrors<T>}, {"product", ProductErrors<T>}}) {
    for (const int64_t n : {64, 768, 4096, 32768}) {
      const Errors e = c.errors(n);
      std::printf("| %s | %s | %lld | %.2g | %.2g | %.1f |\n", c.name, type, static_cast<long long>(n),
                  e.in_f32, e.in_type, e.in_type / e.in_f32);
    }
  }
}

void RunAccumulation() {
  std::printf(
      "| operator | dtype | terms | error, added up in f32 | in the type | ratio "
      "|\n|---|---|---|---|---|---|\n");
  Rows<F16>("f16");
  Rows<BF16>("bf16");
}

}  // namespace

std::vector<Experiment> AccuracyExperiments() {
  return {
      {"accumulation",
       "Halves added up in f32 and rounded once are as good as their type; added up in the type, the error "
       "grows with the terms. Worst of 20 random inputs, relative to the size of the results.",
       RunAccumulation}};
}

}  // namespace opsnn::experiments
