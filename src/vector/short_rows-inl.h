// Rows of one to four vectors of f32, as many at a time as a vector has lanes: what each row has left of a
// reduction is a vector, and those of all rows are added up together, lane r for row r, in a third of the
// instructions of one row after the other; mean, deviation and reciprocal are computed for all rows at once.
// The sums are those of reduce-inl.h, bit by bit: whole vector k goes to accumulator k, what is left to the
// last, lanes are brought together by halves.
//
// These blocks of rows follow each other as a pipeline: a step reads block t, reduces block t - 1 again and
// writes block t - 2, some rows of each in turn, so that memory is read and written all the time.
#if defined(OPSNN_VECTOR_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_SHORT_ROWS_INL_H_
#undef OPSNN_VECTOR_SHORT_ROWS_INL_H_
#else
#define OPSNN_VECTOR_SHORT_ROWS_INL_H_
#endif

#include <utility>

#include "vector/reduce-inl.h"
#include "vector/row_template.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::RowArgs;
using vector::RowFamily;

struct AddLanes {
  static HWY_INLINE VF Of(DF, VF a, VF b) { return hn::Add(a, b); }
};
struct MaxLanes {
  static HWY_INLINE VF Of(DF, VF a, VF b) { return hn::Max(a, b); }
};

// What rows have left of a reduction, four rows brought together at a time: a store takes as long as three
// additions (Zen 4).
class RowParts {
 public:
  static constexpr size_t kGroups = kLanes / 4;
  // The rows of a group, behind its first: AcrossRows then has row r in lane r.
  static HWY_INLINE size_t FirstOf(size_t group) {
    return kLanes == 16 ? group / 2 * 8 + group % 2 : 4 * group;
  }
  static constexpr int64_t Behind(size_t k) {
    return static_cast<int64_t>(kLanes == 16 ? k % 2 * 4 + k / 2 * 2 : kLanes == 8 ? k % 2 * 2 + k / 2 : k);
  }
  template <class Op>
  HWY_INLINE void Set(size_t group, const VF (&v)[4]) {
    const VF one = Halves<Op>(v[0], v[1]), other = Halves<Op>(v[2], v[3]);
    const VF all = kLanes == 16  ? Blocks<Op>(one, other)
                   : kLanes == 8 ? Pairs<Op>(one, other)
                                 : EvenAndOdd<Op>(one, other);
    hn::Store(all, DF(), parts_ + group * kLanes);
  }
  // Lane r: the lanes of row r's vector, combined.
  template <class Op>
  HWY_INLINE VF AcrossRows() const {
    const auto part = [&](size_t i) HWY_ATTR { return hn::Load(DF(), parts_ + i * kLanes); };
    if constexpr (kLanes == 16)
      return EvenAndOdd<Op>(Pairs<Op>(part(0), part(1)), Pairs<Op>(part(2), part(3)));
    if constexpr (kLanes == 8) return EvenAndOdd<Op>(part(0), part(1));
    return part(0);
  }

 private:
  template <class Op>
  static HWY_INLINE VF Halves(VF a, VF b) {
    const DF d;
    return Op::Of(d, hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  }
  // Neighbouring blocks of 128 bits.
  template <class Op>
  static HWY_INLINE VF Blocks(VF a, VF b) {
    if constexpr (kLanes == 16) {
      return Op::Of(DF(), hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a),
                    hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)));
    }
    return a;
  }
  // Pairs within blocks.
  template <class Op>
  static HWY_INLINE VF Pairs(VF a, VF b) {
    const DF d;
    const hn::Repartition<double, DF> dd;
    const auto wide_a = hn::BitCast(dd, a), wide_b = hn::BitCast(dd, b);
    return Op::Of(d, hn::BitCast(d, hn::InterleaveLower(dd, wide_a, wide_b)),
                  hn::BitCast(d, hn::InterleaveUpper(dd, wide_a, wide_b)));
  }
  template <class Op>
  static HWY_INLINE VF EvenAndOdd(VF a, VF b) {
    const DF d;
    return Op::Of(d, hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
  }

  HWY_ALIGN float parts_[kGroups * kLanes];
};

// Lane r of what is computed for all rows of a block.
struct PerRow {
  HWY_ALIGN float value[kLanes];
  HWY_INLINE void Set(VF v) { hn::Store(v, DF(), value); }
  HWY_INLINE VF Of(size_t r) const { return hn::Set(DF(), value[r]); }
};

// Rows of kVectors, the last with `rest` values where kPart says so.
template <size_t kVectors, bool kPart>
struct ShortRows {
  static constexpr size_t kLast = kVectors - 1;
  static constexpr bool kHasPart = kPart;
  using Row = VF[kVectors];

  const int64_t x_stride, y_stride;
  const size_t rest;
  const float cols;
  const bool fetches_y;  // stores that wait for their lines hold up all others
  RowParts parts;

  ShortRows(const RowArgs& a, size_t last)
      : x_stride(a.x_stride),
        y_stride(a.y_stride),
        rest(last),
        cols(static_cast<float>(a.cols)),
        fetches_y(!a.stream) {}
  HWY_INLINE void Load(const float* from, Row& v) const {
    const DF d;
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k)
      v[k] = kPart && k == kLast ? LoadTail(d, from + k * kLanes, rest) : hn::LoadU(d, from + k * kLanes);
  }
  // Less m; 0 behind the row.
  HWY_INLINE void LoadLess(const float* from, VF m, Row& v) const {
    Load(from, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Sub(v[k], m);
    if constexpr (kPart) v[kLast] = Inside(v[kLast]);
  }
  HWY_INLINE void Store(float* to, const Row& v, bool past) const {
    const DF d;
    if (!kPart && past) {
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) hn::Stream(v[k], d, to + k * kLanes);
      return;
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k)
      kPart&& k == kLast ? StoreTail(d, v[k], to + k * kLanes, rest) : hn::StoreU(v[k], d, to + k * kLanes);
  }
  // Lines that follow the row, into L2: blocks in flight take half of the smallest L1 in use.
  HWY_INLINE void FetchX(const float* row) const {
    constexpr size_t kAhead = 2048;  // 8 KiB
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) __builtin_prefetch(row + k * kLanes + kAhead, 0, 2);
  }
  // Those of a group of rows.
  HWY_INLINE void FetchY(const float* y) const {
    if (!fetches_y) return;
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; ++q) {
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) hwy::Prefetch(y + RowParts::Behind(q) * y_stride + k * kLanes);
    }
  }
  HWY_INLINE VF Inside(VF v) const { return hn::IfThenElseZero(hn::FirstN(DF(), rest), v); }
  // Of values that are 0 behind the row.
  HWY_INLINE VF Total(const Row& v) const {
    const DF d;
    if constexpr (kVectors == 1) return v[0];
    if constexpr (kVectors == 2) return hn::Add(v[0], v[1]);
    if constexpr (kVectors == 3) return hn::Add(hn::Add(v[0], v[1]), v[2]);
    if constexpr (kVectors == 4) return hn::Add(hn::Add(v[0], v[1]), hn::Add(v[2], v[3]));
    return hn::Zero(d);
  }
  // Adding 0 is what starting with 0 does: there is no -0.
  HWY_INLINE VF Sums(const RowParts& of) const {
    return hn::Add(of.template AcrossRows<AddLanes>(), hn::Zero(DF()));
  }
  HWY_INLINE VF Means(const RowParts& of) const { return hn::Div(Sums(of), hn::Set(DF(), cols)); }
};

template <size_t kVectors, bool kPart, bool kCentred>
struct ShortNorm : ShortRows<kVectors, kPart> {
  using Base = ShortRows<kVectors, kPart>;
  using typename Base::Row;
  struct Block {
    PerRow means, misses, rstds;
  };
  RowParts rests, squares;
  Row gamma, beta;
  float eps;
  bool corrects;
  float *mean, *rstd;
  int64_t mean_stride, rstd_stride;

  // gamma is given, and beta where kCentred.
  HWY_INLINE ShortNorm(const RowArgs& a, size_t last)
      : Base(a, last),
        eps(static_cast<float>(a.kind.norm.eps)),
        corrects(kCentred && !a.kind.norm.narrow),
        mean(a.mean),
        rstd(a.rstd),
        mean_stride(a.mean_stride),
        rstd_stride(a.rstd_stride) {
    const DF d;
    const auto vector = [&](const float* p, size_t k) HWY_ATTR {
      return kPart && k == Base::kLast ? LoadTail(d, p + k * kLanes, this->rest)
                                       : hn::LoadU(d, p + k * kLanes);
    };
    for (size_t k = 0; k < kVectors; ++k) {
      gamma[k] = vector(a.gamma, k);
      if constexpr (kCentred) beta[k] = vector(a.beta, k);
    }
  }
  HWY_INLINE void Centre(const float* x, size_t r, const Block& b, Row& v) const {
    kCentred ? this->LoadLess(x, b.means.Of(r), v) : this->Load(x, v);
  }
  HWY_INLINE void Read(const float* x, size_t group, Block&) {
    VF sums[4];
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; ++q) {
      const float* const row = x + RowParts::Behind(q) * this->x_stride;
      this->FetchX(row);
      if constexpr (!kCentred) continue;
      Row v;
      this->Load(row, v);
      sums[q] = this->Total(v);
    }
    if constexpr (kCentred) this->parts.template Set<AddLanes>(group, sums);
  }
  HWY_INLINE void HaveRead(Block& b) {
    if constexpr (kCentred) b.means.Set(this->Means(this->parts));
  }
  HWY_INLINE void Reduce(const float* x, const float* y, size_t group, Block& b) {
    const size_t first = RowParts::FirstOf(group);
    VF sums[4], products[4];
    this->FetchY(y);
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; ++q) {
      Row v;
      Centre(x + RowParts::Behind(q) * this->x_stride, first + RowParts::Behind(q), b, v);
      sums[q] = this->Total(v);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Mul(v[k], v[k]);
      products[q] = this->Total(v);
    }
    if constexpr (kCentred) rests.template Set<AddLanes>(group, sums);
    squares.template Set<AddLanes>(group, products);
  }
  HWY_INLINE void HaveReduced(const float*, int64_t first, Block& b) {
    const DF d;
    VF variance = this->Means(squares), missed = hn::Zero(d);
    if (corrects) {  // with what the rounding of the mean misses, as in program/moments.h
      missed = this->Means(rests);
      const VF excess = hn::Mul(missed, missed);
      variance = hn::IfThenElse(hn::Lt(excess, variance), hn::Sub(variance, excess), variance);
    }
    b.misses.Set(missed);
    b.rstds.Set(hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(variance, hn::Set(d, eps)))));
    for (int64_t r = 0; r < static_cast<int64_t>(kLanes); ++r) {
      if (mean != nullptr) mean[(first + r) * mean_stride] = kCentred ? b.means.value[r] : 0;
      if (rstd != nullptr) rstd[(first + r) * rstd_stride] = b.rstds.value[r];
    }
  }
  HWY_INLINE void Write(const float* x, float* y, size_t r, const Block& b, bool past) const {
    const VF s = b.misses.Of(r), scale = b.rstds.Of(r);
    Row v;
    Centre(x, r, b, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      v[k] = hn::Mul(hn::Mul(kCentred ? hn::Sub(v[k], s) : v[k], scale), gamma[k]);
      if constexpr (kCentred) v[k] = hn::Add(v[k], beta[k]);
    }
    this->Store(y, v, past);
  }
};

// Whole vectors, whatever the exponentials are.
HWY_NOINLINE void ExpsInPlace(float* v, size_t n) {
  const DF d;
  for (size_t i = 0; i < n; i += kLanes) hn::Store(ExpUsual(d, hn::Load(d, v + i)), d, v + i);
}

template <size_t kVectors, bool kPart>
struct ShortSoftmax : ShortRows<kVectors, kPart> {
  using Base = ShortRows<kVectors, kPart>;
  using typename Base::Row;
  struct Block {
    PerRow most, factors;
  };
  static constexpr size_t kValues = kLanes * kVectors * kLanes, kSkew = 160;  // as vector::ScratchStride
  RowParts sums;
  bool log;
  HWY_ALIGN float lows[kLanes];
  HWY_ALIGN float exps[2 * kValues + kSkew];  // of the block that is reduced, and of the one before
  float *kept = exps, *written = exps + kValues + kSkew;

  HWY_INLINE ShortSoftmax(const RowArgs& a, size_t last)
      : Base(a, last), log(a.kind.family == RowFamily::kLogSoftmax) {
    hn::Store(hn::Zero(DF()), DF(), lows);
  }
  // A NaN that is passed over makes the sum of exponentials NaN.
  HWY_INLINE void Read(const float* x, size_t group, Block&) {
    const DF d;
    const VF least = hn::Set(d, -__builtin_inff());
    VF most[4];
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; ++q) {
      const float* const row = x + RowParts::Behind(q) * this->x_stride;
      Row v;
      this->FetchX(row);
      this->Load(row, v);
      if constexpr (kPart) v[Base::kLast] = hn::IfThenElse(hn::FirstN(d, this->rest), v[Base::kLast], least);
      most[q] = least;
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) most[q] = hn::Max(v[k], most[q]);
    }
    this->parts.template Set<MaxLanes>(group, most);
  }
  HWY_INLINE void HaveRead(Block& b) { b.most.Set(this->parts.template AcrossRows<MaxLanes>()); }
  HWY_INLINE void Reduce(const float* x, const float* y, size_t group, Block& b) {
    const DF d;
    const size_t first = RowParts::FirstOf(group);
    float* const to = kept + first * kVectors * kLanes;
    VF low = hn::Load(d, lows), left[4];
    this->FetchY(y);
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; ++q) {
      constexpr auto kRow = static_cast<int64_t>(kVectors * kLanes);
      Row v;
      this->LoadLess(x + RowParts::Behind(q) * this->x_stride, b.most.Of(first + RowParts::Behind(q)), v);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) {
        low = hn::Min(v[k], low);
        v[k] = ExpNormal(d, v[k]);
        hn::Store(v[k], d, to + RowParts::Behind(q) * kRow + k * kLanes);
      }
      if constexpr (kPart) v[Base::kLast] = this->Inside(v[Base::kLast]);
      left[q] = this->Total(v);
    }
    hn::Store(low, d, lows);
    sums.template Set<AddLanes>(group, left);
  }
  // A block some of whose exponentials are not normal.
  HWY_NOINLINE void ReduceAny(const float* x, const Block& b) {
    const DF d;
    for (size_t r = 0; r < kLanes; ++r) {
      Row v;
      this->LoadLess(x + static_cast<int64_t>(r) * this->x_stride, b.most.Of(r), v);
      for (size_t k = 0; k < kVectors; ++k) hn::Store(v[k], d, kept + (r * kVectors + k) * kLanes);
    }
    ExpsInPlace(kept, kValues);
    for (size_t group = 0; group < RowParts::kGroups; ++group) {
      VF left[4];
#pragma GCC unroll 4
      for (size_t q = 0; q < 4; ++q) {
        const float* const row = kept + (RowParts::FirstOf(group) + RowParts::Behind(q)) * kVectors * kLanes;
        Row v;
        for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Load(d, row + k * kLanes);
        if constexpr (kPart) v[Base::kLast] = this->Inside(v[Base::kLast]);
        left[q] = this->Total(v);
      }
      sums.template Set<AddLanes>(group, left);
    }
  }
  HWY_INLINE void HaveReduced(const float* x, int64_t, Block& b) {
    const DF d;
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Gt(hn::Load(d, lows), hn::Set(d, -87.0f))))) ReduceAny(x, b);
    hn::Store(hn::Zero(d), d, lows);
    const VF all = this->Sums(sums);
    b.factors.Set(log ? Log(d, all) : hn::Div(hn::Set(d, 1.0f), all));
    std::swap(kept, written);
  }
  HWY_INLINE void Write(const float* x, float* y, size_t r, const Block& b, bool past) const {
    const DF d;
    const VF f = b.factors.Of(r);
    Row v;
    if (log) {
      this->LoadLess(x, b.most.Of(r), v);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Sub(v[k], f);
    } else {
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k)
        v[k] = hn::Mul(hn::Load(d, written + (r * kVectors + k) * kLanes), f);
    }
    this->Store(y, v, past);
  }
};

// Whole blocks of the rows; how many rows that is.
template <class Rows>
HWY_INLINE int64_t RunBlocks(const RowArgs& a, size_t rest) {
  constexpr auto kRows = static_cast<int64_t>(kLanes);
  const int64_t blocks = a.rows / kRows;
  if (blocks == 0) return 0;
  const intptr_t places = reinterpret_cast<intptr_t>(a.y) | a.y_stride * static_cast<int64_t>(sizeof(float));
  const bool past = !Rows::kHasPart && a.stream && places % HWY_MAX_BYTES == 0;
  const int64_t x_row = a.x_stride, y_row = a.y_stride, x_block = kRows * x_row, y_block = kRows * y_row;
  Rows rows(a, rest);
  typename Rows::Block block[3], *read = block, *reduced = block + 1, *written = block + 2;
  const float* x = static_cast<const float*>(a.x);
  float* y = static_cast<float*>(a.y);
  for (int64_t t = 0; t < blocks + 2; ++t, x += x_block, y += y_block) {
    const bool reads = t < blocks, reduces = t >= 1 && t <= blocks, writes = t >= 2;
    const float* const from = x - 2 * x_block;
    float* const to = y - 2 * y_block;
    for (size_t group = 0; group < RowParts::kGroups; ++group) {
      const size_t first = RowParts::FirstOf(group);
      const auto x_at = static_cast<int64_t>(first) * x_row, y_at = static_cast<int64_t>(first) * y_row;
      if (reads) rows.Read(x + x_at, group, *read);
      if (reduces) rows.Reduce(x - x_block + x_at, y - y_block + y_at, group, *reduced);
      // The same rows: loads wait for stores in flight that lie a multiple of 4 KiB away.
      for (size_t q = 0; writes && q < 4; ++q) {
        constexpr int64_t kStep = kLanes == 16 ? 2 : 1;
        const int64_t r = static_cast<int64_t>(q) * kStep;
        rows.Write(from + x_at + r * x_row, to + y_at + r * y_row, first + static_cast<size_t>(r), *written,
                   past);
      }
    }
    if (reads) rows.HaveRead(*read);
    if (reduces) rows.HaveReduced(x - x_block, (t - 1) * kRows, *reduced);
    std::swap(read, written), std::swap(reduced, written);
  }
  return blocks * kRows;
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
