// Dims: up to eight 64-bit sizes or strides, inline, cheap to copy.
#ifndef OPSNN_TENSOR_SHAPE_H_
#define OPSNN_TENSOR_SHAPE_H_

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace opsnn {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kUnknownDim = -1;  // a size that is only known at run time

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> v) : Dims(std::span<const int64_t>(v.begin(), v.size())) {}
  explicit Dims(std::span<const int64_t> v) : rank_(static_cast<int>(v.size())) {
    assert(v.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) d_[i] = v[i];
  }
  static Dims Filled(int rank, int64_t value) {
    Dims d;
    d.rank_ = rank;
    for (int i = 0; i < rank; ++i) d.d_[i] = value;
    return d;
  }

  int rank() const { return rank_; }
  int size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return assert(i >= 0 && i < rank_), d_[i]; }
  int64_t operator[](int i) const { return assert(i >= 0 && i < rank_), d_[i]; }
  int64_t back() const { return (*this)[rank_ - 1]; }
  const int64_t* begin() const { return d_; }
  const int64_t* end() const { return d_ + rank_; }
  int64_t* begin() { return d_; }
  int64_t* end() { return d_ + rank_; }
  const int64_t* data() const { return d_; }
  void push_back(int64_t v) { assert(rank_ < kMaxRank), d_[rank_++] = v; }
  void insert(int at, int64_t v);
  void erase(int at);
  void resize(int rank) {
    assert(rank <= kMaxRank);
    for (int i = rank_; i < rank; ++i) d_[i] = 1;
    rank_ = rank;
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.d_[i] != b.d_[i]) return false;
    return true;
  }

 private:
  int rank_ = 0;
  int64_t d_[kMaxRank] = {};
};

int64_t NumElements(const Dims& dims);  // product; 1 for rank 0; kUnknownDim if any is unknown
std::optional<int64_t> CheckedNumElements(const Dims& dims);  // nullopt on overflow of int64
bool IsKnown(const Dims& dims);                               // no dim is kUnknownDim
Dims ContiguousStrides(const Dims& dims);                     // row-major, in elements
std::string ToString(const Dims& dims);                       // "[2,3,4]", unknown dims as "?"
// Numpy broadcasting; an unknown dim against n > 1 gives n, against 1 or unknown gives unknown.
Result<Dims> BroadcastDims(const Dims& a, const Dims& b);
// Negative axes count from the end; an error names the range allowed.
Result<int> NormalizeAxis(int64_t axis, int rank);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_SHAPE_H_
