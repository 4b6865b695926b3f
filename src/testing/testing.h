// What every test shares: a seeded random source, time-boxed fuzz loops, guarded tensors, derived tolerances.
#ifndef OPSNN_TESTING_TESTING_H_
#define OPSNN_TESTING_TESTING_H_

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "tensor/element.h"
#include "tensor/shape.h"
#include "tensor/tensor_view.h"

namespace opsnn::testing {

// The seed: OPSNN_TEST_SEED if set, else random; printed once per binary as
// "re-run with OPSNN_TEST_SEED=<n>" so that a failure can be replayed.
uint64_t TestSeed();

class Rng {
 public:
  Rng() : engine_(TestSeed()) {}
  explicit Rng(uint64_t seed) : engine_(seed) {}
  int64_t Int(int64_t lo, int64_t hi);  // inclusive
  double Real(double lo, double hi);
  bool Chance(double p) { return Real(0, 1) < p; }
  // A size around what breaks kernels: 0, 1, odd, around multiples of 8, 16 and 64; at most `max`.
  int64_t Size(int64_t max, bool allow_zero = false);
  Dims Shape(int min_rank, int max_rank, int64_t max_elements, bool allow_zero = false);
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// for (auto _ : FuzzFor(100)) { ... } runs the body until 100 ms have passed, at least once. The budget
// scales with OPSNN_FUZZ_SCALE (CI under a sanitizer sets less, a long run more).
class FuzzFor {
 public:
  explicit FuzzFor(int milliseconds);
  struct Tick {
    ~Tick() {}  // non-trivial, so that `auto _` does not warn
  };
  struct Iterator {
    FuzzFor* loop;
    bool operator!=(const Iterator&) const { return loop->More(); }
    void operator++() {}
    Tick operator*() const { return {}; }
  };
  Iterator begin() { return {this}; }
  Iterator end() { return {this}; }

 private:
  bool More();
  std::chrono::steady_clock::time_point deadline_;
  int64_t iterations_ = 0;
};

// A tensor with guard bytes in front, behind and in every gap of its strides; CheckGuards fails the current
// gtest test if any was written.
class GuardedTensor {
 public:
  // strided: random row-major-like strides with gaps and an offset; else contiguous.
  GuardedTensor(DType dtype, const Dims& dims, Rng* rng = nullptr, bool strided = false);
  const TensorView& view() const { return view_; }
  void FillRandom(Rng& rng, double lo = -2, double hi = 2);  // converted to dtype, rounding to nearest
  void Set(const std::vector<double>& values);               // in logical row-major order
  std::vector<double> Get() const;                           // in logical row-major order
  bool GuardsIntact() const;

 private:
  std::vector<uint8_t> bytes_;
  TensorView view_;
};

using opsnn::ReadElement;   // tensor/element.h
using opsnn::WriteElement;  // rounds to nearest even, saturates integers

double Epsilon(DType t);  // unit roundoff: 2^-24, 2^-11, 2^-8, 2^-53; 0 for ints
// |error| allowed for a sum of k products of magnitude |a| |b|, accumulated in `acc`, stored in `out`:
//   abs_sum * (2 sqrt(k) + 4) * eps(acc) + |value| * eps(out), abs_sum = sum |a_i b_i|.
double ContractionTolerance(double abs_sum, double value, int64_t k, DType acc, DType out);
// Worst element of got against want; passes while |got - want| <= tol(i). NaN equals NaN, Inf equals same
// Inf. Returns "" or a message with the index, both values and the bound.
std::string Compare(const std::vector<double>& got, const std::vector<double>& want,
                    const std::vector<double>& tolerance);
std::string Compare(const std::vector<double>& got, const std::vector<double>& want, double abs_tol,
                    double rel_tol);

}  // namespace opsnn::testing

#endif  // OPSNN_TESTING_TESTING_H_
