#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_reduce.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;

// Prefetches once per group of four vectors, as RunPass does; with a negative step, which says that the lines
// are those of this very run, into L2 and twice as far ahead: one stream that is only read comes faster that
// way (Zen 4: 28 GB/s to 24).
struct Prefetcher {
  const char* line;
  int64_t step;
  HWY_INLINE void Group() {
    if (step >= 0) {
      line = PrefetchGroup(line, step);
      return;
    }
    constexpr int64_t kFurther = 2048;
    for (int64_t at = 0; at < -step; at += 64) __builtin_prefetch(line + kFurther + at, 0, 2);
    line -= step;
  }
};

template <bool kSquare>
struct RowReader : Prefetcher {
  const float* x;
  int64_t step1;  // 0: the value repeats
  static HWY_INLINE VF Map(VF v) { return kSquare ? hn::Mul(v, v) : v; }
  HWY_INLINE VF Whole(size_t i) const {
    const DF d;
    return Map(step1 ? hn::LoadU(d, x + i) : hn::Set(d, *x));
  }
  HWY_INLINE VF Tail(size_t i, size_t n) const {
    const DF d;
    return Map(step1 ? LoadTail(d, x + i, n) : hn::Set(d, *x));
  }
};

template <class R, bool kSquare, bool kMean>
void ReducePass(const PassArgs& a) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  RowReader<kSquare> reader;
  reader.line = a.prefetch, reader.step = a.prefetch_step, reader.step1 = a.src[0].step;
  for (int64_t r = 0; r < a.rows; ++r) {
    reader.x = static_cast<const float*>(a.src[0].data) + r * a.src[0].row_stride;
    const double total = ReduceRow<R>(d, n, reader);
    static_cast<float*>(a.reduced)[r] = kMean ? MeanOf(total, n) : static_cast<float>(total);
  }
}

// d = x - y. kSquare: writes d, sums d^2. kExp: writes e^d, sums it. kCopy: writes d, sums e^d.
template <StageOp kSecond>
struct CentreReader : Prefetcher {
  RowCursor<2> cursor;
  Splats<2> splats;
  float* dst;
  static HWY_INLINE VF Centre(DF, VF x, VF y) { return hn::Sub(x, y); }
  template <class Store>
  static HWY_INLINE VF Finish(DF d, VF v, const Store& store) {
    if constexpr (kSecond == StageOp::kSquare) {
      store(v);
      return hn::Mul(v, v);
    } else if constexpr (kSecond == StageOp::kExp) {
      const VF e = ExpUsual(d, v);
      store(e);
      return e;
    } else {
      store(v);
      return ExpUsual(d, v);
    }
  }
  HWY_INLINE VF Whole(size_t i) {
    const DF d;
    const VF v = cursor.Eval(d, 0, [](DF dd, VF x, VF y) HWY_ATTR { return Centre(dd, x, y); });
    cursor.Advance(1);
    float* to = dst + i;
    return Finish(d, v, [d, to](VF w) HWY_ATTR { hn::StoreU(w, d, to); });
  }
  HWY_INLINE VF Tail(size_t i, size_t n) {
    const DF d;
    const VF v = cursor.EvalFew(d, n, [](DF dd, VF x, VF y) HWY_ATTR { return Centre(dd, x, y); });
    float* to = dst + i;
    return Finish(d, v, [d, to, n](VF w) HWY_ATTR { StoreTail(d, w, to, n); });
  }
};

template <StageOp kSecond, bool kMean>
void CentrePass(const PassArgs& a) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  CentreReader<kSecond> reader;
  reader.line = a.prefetch, reader.step = a.prefetch_step;
  for (int64_t r = 0; r < a.rows; ++r) {
    reader.cursor.SetRow(d, a, r, reader.splats);
    reader.dst = static_cast<float*>(a.dst) + r * a.dst_row_stride;
    const double total = ReduceRow<SumReduction>(d, n, reader);
    static_cast<float*>(a.reduced)[r] = kMean ? MeanOf(total, n) : static_cast<float>(total);
  }
}

}  // namespace

PassFn FindReduce(StageOp op, bool of_squares) {
  if (of_squares) {
    return op == StageOp::kRowMean  ? &ReducePass<SumReduction, true, true>
           : op == StageOp::kRowSum ? &ReducePass<SumReduction, true, false>
                                    : nullptr;
  }
  switch (op) {
    case StageOp::kRowSum:
      return &ReducePass<SumReduction, false, false>;
    case StageOp::kRowMean:
      return &ReducePass<SumReduction, false, true>;
    case StageOp::kRowMax:
      return &ReducePass<MaxReduction, false, false>;
    case StageOp::kRowMin:
      return &ReducePass<MinReduction, false, false>;
    case StageOp::kRowSumSquare:
      return &ReducePass<SumReduction, true, false>;
    case StageOp::kRowProd:
      return &ReducePass<ProdReduction, false, false>;
    default:
      return nullptr;
  }
}
PassFn FindCentre(StageOp second, bool mean) {
  switch (second) {
    case StageOp::kSquare:
      return mean ? &CentrePass<StageOp::kSquare, true> : &CentrePass<StageOp::kSquare, false>;
    case StageOp::kExp:
      return mean ? nullptr : &CentrePass<StageOp::kExp, false>;
    case StageOp::kCopy:
      return mean ? nullptr : &CentrePass<StageOp::kCopy, false>;
    default:
      return nullptr;
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
TierPasses FindRowReduction(StageOp op, bool of_squares) {
  OPSNN_TIER_TABLE(FindReduce);
  return CollectTiers(FindReduce_tiers, op, of_squares);
}
TierPasses FindCentreReduction(StageOp second, bool mean) {
  OPSNN_TIER_TABLE(FindCentre);
  return CollectTiers(FindCentre_tiers, second, mean);
}
}  // namespace opsnn::vector
#endif
