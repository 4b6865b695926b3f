// Rows of one to four vectors of f32, as many at a time as a vector has lanes: what each row has left of a
// reduction is a vector, and those of all rows are added up together, lane r for row r, in a third of the
// instructions of one row after the other; mean, deviation and reciprocal are computed for all rows at once.
// The sums are those of reduce-inl.h, bit by bit: whole vector k goes to accumulator k, what is left to the
// last, lanes are brought together by halves.
#if defined(OPSNN_VECTOR_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_SHORT_ROWS_INL_H_
#undef OPSNN_VECTOR_SHORT_ROWS_INL_H_
#else
#define OPSNN_VECTOR_SHORT_ROWS_INL_H_
#endif

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
  // The k-th row of a group: AcrossRows then has row r in lane r.
  static HWY_INLINE size_t RowOf(size_t group, size_t k) {
    static constexpr uint8_t kRows[3][16] = {
        {0, 1, 2, 3}, {0, 2, 1, 3, 4, 6, 5, 7}, {0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15}};
    return kRows[kLanes / 8][4 * group + k];
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

// kVectors of a row, the last with `rest` values where kPart says so.
template <size_t kVectors, bool kPart>
struct ShortBlock {
  static constexpr size_t kLast = kVectors - 1;
  using Row = VF[kVectors];

  const RowArgs& a;
  const float* x = nullptr;  // the first of its rows
  float* y = nullptr;
  size_t rest;
  RowParts parts, others;

  ShortBlock(const RowArgs& args, size_t last) : a(args), rest(last) {}
  HWY_INLINE void Load(size_t r, Row& v) const {
    const DF d;
    const float* const from = x + static_cast<int64_t>(r) * a.x_stride;
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k)
      v[k] = kPart && k == kLast ? LoadTail(d, from + k * kLanes, rest) : hn::LoadU(d, from + k * kLanes);
  }
  // Lines that follow, and those that are written later. (Sharing them out among the passes, further ahead or
  // into L2 only, took up to a seventh longer.)
  HWY_INLINE void Fetch(size_t r) const {
    constexpr size_t kAhead = 1024;  // 4 KiB
    const auto row = static_cast<int64_t>(r);
    for (size_t k = 0; k < kVectors; ++k) {
      hwy::Prefetch(x + row * a.x_stride + k * kLanes + kAhead);
      if (!a.stream) hwy::Prefetch(y + row * a.y_stride + k * kLanes);
    }
  }
  // f(r), for all rows, gives what row r has left of a reduction.
  template <class Op, class F>
  HWY_INLINE void Reduce(RowParts& to, const F& f) const {
    for (size_t group = 0; group < RowParts::kGroups; ++group) {
      VF left[4];
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) left[k] = f(RowParts::RowOf(group, k));
      to.template Set<Op>(group, left);
    }
  }
  template <bool kPast>
  HWY_INLINE void Store(size_t r, const Row& v) const {
    const DF d;
    float* const to = y + static_cast<int64_t>(r) * a.y_stride;
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      if (kPart && k == kLast)
        StoreTail(d, v[k], to + k * kLanes, rest);
      else
        kPast ? hn::Stream(v[k], d, to + k * kLanes) : hn::StoreU(v[k], d, to + k * kLanes);
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
  HWY_INLINE VF Means(const RowParts& of) const {
    const DF d;
    return hn::Div(Sums(of), hn::Set(d, static_cast<float>(a.cols)));
  }
};

// Lane r of what is computed for all rows.
struct PerRow {
  HWY_ALIGN float value[kLanes];
  HWY_INLINE void Set(VF v) { hn::Store(v, DF(), value); }
  HWY_INLINE VF Of(size_t r) const { return hn::Set(DF(), value[r]); }
};

template <size_t kVectors, bool kPart, bool kCentred>
struct NormBlock : ShortBlock<kVectors, kPart> {
  using Base = ShortBlock<kVectors, kPart>;
  using Base::Base;
  using typename Base::Row;
  Row gamma, beta;
  PerRow means, misses, rstds;

  // Factors of 1 and summands of -0 change nothing.
  HWY_INLINE void Prepare() {
    const DF d;
    const RowArgs& a = this->a;
    const auto vector = [&](const float* p, size_t k) HWY_ATTR {
      return kPart && k == Base::kLast ? LoadTail(d, p + k * kLanes, this->rest)
                                       : hn::LoadU(d, p + k * kLanes);
    };
    for (size_t k = 0; k < kVectors; ++k) {
      gamma[k] = a.gamma != nullptr ? vector(a.gamma, k) : hn::Set(d, 1.0f);
      beta[k] = a.beta != nullptr ? vector(a.beta, k) : hn::Set(d, -0.0f);
    }
  }
  HWY_INLINE void Centre(size_t r, Row& v) const {
    this->Load(r, v);
    if constexpr (!kCentred) return;
    const VF m = means.Of(r);
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Sub(v[k], m);
    if constexpr (kPart) v[Base::kLast] = this->Inside(v[Base::kLast]);
  }
  template <bool kPast>
  HWY_INLINE void Run() {
    const DF d;
    const RowArgs& a = this->a;
    Row v;
    if constexpr (kCentred) {
      this->template Reduce<AddLanes>(this->parts, [&](size_t r) HWY_ATTR {
        Row x;
        this->Fetch(r);
        this->Load(r, x);
        return this->Total(x);
      });
      means.Set(this->Means(this->parts));
    }
    for (size_t group = 0; group < RowParts::kGroups; ++group) {
      VF sums[4], squares[4];
#pragma GCC unroll 4
      for (size_t q = 0; q < 4; ++q) {
        const size_t r = RowParts::RowOf(group, q);
        if constexpr (!kCentred) this->Fetch(r);
        Centre(r, v);
        sums[q] = this->Total(v);
#pragma GCC unroll 4
        for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Mul(v[k], v[k]);
        squares[q] = this->Total(v);
      }
      if constexpr (kCentred) this->others.template Set<AddLanes>(group, sums);
      this->parts.template Set<AddLanes>(group, squares);
    }
    VF variance = this->Means(this->parts), missed = hn::Zero(d);
    if (kCentred &&
        !a.kind.norm.narrow) {  // with what the rounding of the mean misses, as in program/moments.h
      missed = this->Means(this->others);
      const VF excess = hn::Mul(missed, missed);
      variance = hn::IfThenElse(hn::Lt(excess, variance), hn::Sub(variance, excess), variance);
    }
    misses.Set(missed);
    const VF shifted = hn::Add(variance, hn::Set(d, static_cast<float>(a.kind.norm.eps)));
    rstds.Set(hn::Div(hn::Set(d, 1.0f), hn::Sqrt(shifted)));
    for (size_t r = 0; r < kLanes; ++r) {
      Centre(r, v);
      const VF s = misses.Of(r), scale = rstds.Of(r);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) {
        if constexpr (kCentred) v[k] = hn::Sub(v[k], s);
        v[k] = hn::Add(hn::Mul(hn::Mul(v[k], scale), gamma[k]), beta[k]);
      }
      this->template Store<kPast>(r, v);
    }
  }
  HWY_INLINE void Keep(int64_t first) const {
    const RowArgs& a = this->a;
    for (int64_t r = 0; r < static_cast<int64_t>(kLanes); ++r) {
      if (a.mean != nullptr) a.mean[(first + r) * a.mean_stride] = kCentred ? means.value[r] : 0;
      if (a.rstd != nullptr) a.rstd[(first + r) * a.rstd_stride] = rstds.value[r];
    }
  }
};

template <size_t kVectors, bool kPart, bool kLog>
struct SoftmaxBlock : ShortBlock<kVectors, kPart> {
  using Base = ShortBlock<kVectors, kPart>;
  using Base::Base;
  using typename Base::Row;
  PerRow most, factors;
  HWY_ALIGN float exps[kLanes * kVectors * kLanes];

  HWY_INLINE void Prepare() {}
  // A NaN that is passed over makes the sum of exponentials NaN.
  HWY_INLINE void FindMost() {
    const DF d;
    const VF least = hn::Set(d, -__builtin_inff());
    this->template Reduce<MaxLanes>(this->parts, [&](size_t r) HWY_ATTR {
      Row v;
      this->Fetch(r);
      this->Load(r, v);
      if constexpr (kPart) v[Base::kLast] = hn::IfThenElse(hn::FirstN(d, this->rest), v[Base::kLast], least);
      VF high = least;
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) high = hn::Max(v[k], high);
      return high;
    });
    most.Set(this->parts.template AcrossRows<MaxLanes>());
  }
  HWY_INLINE void Shift(size_t r, Row& v) const {
    const VF m = most.Of(r);
    this->Load(r, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) v[k] = hn::Sub(v[k], m);
    if constexpr (kPart) v[Base::kLast] = this->Inside(v[Base::kLast]);
  }
  // False where kNormal and an exponential is not normal.
  template <bool kNormal>
  HWY_INLINE bool SumExps() {
    const DF d;
    VF low = hn::Zero(d);
    this->template Reduce<AddLanes>(this->parts, [&](size_t r) HWY_ATTR {
      Row v;
      Shift(r, v);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) {
        if constexpr (kNormal) low = hn::Min(v[k], low);
        v[k] = kNormal ? ExpNormal(d, v[k]) : ExpUsual(d, v[k]);
        if constexpr (!kLog) hn::Store(v[k], d, exps + (r * kVectors + k) * kLanes);
      }
      if constexpr (kPart) v[Base::kLast] = this->Inside(v[Base::kLast]);
      return this->Total(v);
    });
    return !kNormal || hn::AllTrue(d, hn::Gt(low, hn::Set(d, -87.0f)));
  }
  template <bool kPast>
  HWY_INLINE void Run() {
    const DF d;
    FindMost();
    if (HWY_UNLIKELY(!SumExps<true>())) SumExps<false>();
    const VF sums = this->Sums(this->parts);
    factors.Set(kLog ? Log(d, sums) : hn::Div(hn::Set(d, 1.0f), sums));
    Row v;
    for (size_t r = 0; r < kLanes; ++r) {
      const VF f = factors.Of(r);
      if constexpr (kLog) Shift(r, v);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k)
        v[k] = kLog ? hn::Sub(v[k], f) : hn::Mul(hn::Load(d, exps + (r * kVectors + k) * kLanes), f);
      this->template Store<kPast>(r, v);
    }
  }
  HWY_INLINE void Keep(int64_t) const {}
};

// Whole blocks of the rows; how many rows that is.
template <class Block, bool kPart>
HWY_INLINE int64_t RunBlocks(const RowArgs& a, size_t rest) {
  constexpr int64_t kRows = static_cast<int64_t>(kLanes);
  const intptr_t places = reinterpret_cast<intptr_t>(a.y) | a.y_stride * static_cast<int64_t>(sizeof(float));
  const bool past = !kPart && a.stream && places % HWY_MAX_BYTES == 0;
  if (a.rows < kRows) return 0;
  Block block(a, rest);
  block.Prepare();
  int64_t r = 0;
  for (; r + kRows <= a.rows; r += kRows) {
    block.x = static_cast<const float*>(a.x) + r * a.x_stride;
    block.y = static_cast<float*>(a.y) + r * a.y_stride;
    past ? block.template Run<true>() : block.template Run<false>();
    block.Keep(r);
  }
  return r;
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
