#include "kernels/reduce/norm_grad_tier.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/norm_grad_tier.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/element-inl.h"
#include "vector/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using kernels::NormGradRun;

// One vector of a run: the values that both loops start from.
template <typename T, bool kGamma>
struct Inputs {
  const NormGradRun& r;
  const T *dy, *x;
  VF mean, rstd, scale;
  explicit HWY_INLINE Inputs(const NormGradRun& run)
      : r(run), dy(static_cast<const T*>(run.dy)), x(static_cast<const T*>(run.x)) {
    const DF d;
    mean = hn::Set(d, r.mean), rstd = hn::Set(d, r.rstd), scale = hn::Set(d, r.scale);
  }
  HWY_INLINE VF Normal(VF v) const { return hn::Mul(hn::Sub(v, mean), rstd); }
  HWY_INLINE VF Gamma(size_t i) const {
    const DF d;
    return kGamma ? hn::LoadU(d, r.gamma + i) : scale;
  }
  HWY_INLINE VF GammaTail(size_t i, size_t n) const {
    const DF d;
    return kGamma ? LoadTail(d, r.gamma + i, n) : scale;
  }
};

template <typename T, bool kGamma, bool kByElement>
HWY_INLINE void Sum(NormGradRun& r) {
  const DF d;
  const Inputs<T, kGamma> in(r);
  r.sum_g = r.sum_gn = 0;
  for (size_t c = 0; c < r.n; c += kReduceChunk) {
    const size_t end = HWY_MIN(c + kReduceChunk, r.n);
    VF s[4], q[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] = q[k] = hn::Zero(d);
    const auto add = [&](int k, VF dy, VF normal, VF gamma) HWY_ATTR {
      const VF g = hn::Mul(dy, gamma);
      s[k] = hn::Add(s[k], g);
      q[k] = hn::MulAdd(g, normal, q[k]);
    };
    const auto step = [&](int k, size_t i) HWY_ATTR {
      const VF dy = Get(d, in.dy + i), normal = in.Normal(Get(d, in.x + i));
      add(k, dy, normal, in.Gamma(i));
      if constexpr (kByElement) {
        hn::StoreU(hn::MulAdd(dy, normal, hn::LoadU(d, r.by_element_dyn + i)), d, r.by_element_dyn + i);
        hn::StoreU(hn::Add(dy, hn::LoadU(d, r.by_element_dy + i)), d, r.by_element_dy + i);
      }
    };
    size_t i = c;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) step(k, i + static_cast<size_t>(k) * kLanes);
    }
    for (int k = 0; i + kLanes <= end; ++k, i += kLanes) step(k, i);
    if (i < end) {
      const size_t n = end - i;
      const auto inside = hn::FirstN(d, n);
      const VF dy = GetTail(d, in.dy + i, n);
      const VF normal = hn::IfThenElseZero(inside, in.Normal(GetTail(d, in.x + i, n)));
      add(3, dy, normal, hn::IfThenElseZero(inside, in.GammaTail(i, n)));
      if constexpr (kByElement) {
        float *dyn = r.by_element_dyn + i, *all = r.by_element_dy + i;
        StoreTail(d, hn::MulAdd(dy, normal, LoadTail(d, dyn, n)), dyn, n);
        StoreTail(d, hn::Add(dy, LoadTail(d, all, n)), all, n);
      }
    }
    using R = SumReduction;
    r.sum_g += R::Lanes(d, R::Step(d, R::Step(d, s[0], s[1]), R::Step(d, s[2], s[3])));
    r.sum_gn += R::Lanes(d, R::Step(d, R::Step(d, q[0], q[1]), R::Step(d, q[2], q[3])));
  }
}

template <typename T, bool kGamma>
HWY_INLINE void Write(const NormGradRun& r) {
  const DF d;
  const Inputs<T, kGamma> in(r);
  T* const dx = static_cast<T*>(r.dx);
  const VF mean_g = hn::Set(d, r.mean_g), mean_gn = hn::Set(d, r.mean_gn);
  const auto gradient = [&](VF dy, VF x, VF gamma) HWY_ATTR {
    if (!r.centre) return hn::Mul(hn::Mul(dy, gamma), in.rstd);
    const VF shared = hn::Mul(in.Normal(x), mean_gn);
    return hn::Mul(hn::Sub(hn::Sub(hn::Mul(dy, gamma), mean_g), shared), in.rstd);
  };
  const auto value = [&](size_t i)
                         HWY_ATTR { return gradient(Get(d, in.dy + i), Get(d, in.x + i), in.Gamma(i)); };
  const bool stream = r.stream && reinterpret_cast<uintptr_t>(dx) % HWY_MAX_BYTES == 0;
  size_t i = 0;
  for (; i + 4 * kLanes <= r.n; i += 4 * kLanes) {
    for (size_t line = 0; line < 4 * kLanes * sizeof(T); line += 64) {
      hwy::Prefetch(r.next_dy + i * sizeof(T) + line);
      hwy::Prefetch(r.next_x + i * sizeof(T) + line);
    }
#pragma GCC unroll 2
    for (size_t at = i; at < i + 4 * kLanes; at += 2 * kLanes) {
      const VF v0 = value(at), v1 = value(at + kLanes);
      stream ? PutTwo<true, false>(d, v0, v1, dx + at) : PutTwo<false, false>(d, v0, v1, dx + at);
    }
  }
  for (; i + kLanes <= r.n; i += kLanes) Put(d, value(i), dx + i);
  if (i < r.n) {
    const size_t n = r.n - i;
    PutTail(d, gradient(GetTail(d, in.dy + i, n), GetTail(d, in.x + i, n), in.GammaTail(i, n)), dx + i, n);
  }
}

template <typename T>
void SumOf(NormGradRun& r) {
  const bool by_element = r.by_element_dy != nullptr;
  if (r.gamma) return by_element ? Sum<T, true, true>(r) : Sum<T, true, false>(r);
  return by_element ? Sum<T, false, true>(r) : Sum<T, false, false>(r);
}
template <typename T>
void WriteOf(const NormGradRun& r) {
  r.gamma ? Write<T, true>(r) : Write<T, false>(r);
}

}  // namespace

void SumNormGradTier(NormGradRun& r) {
  if (r.type == DType::kF32) return SumOf<float>(r);
  r.type == DType::kBF16 ? SumOf<BF16>(r) : SumOf<F16>(r);
}
void WriteNormGradTier(const NormGradRun& r) {
  if (r.type == DType::kF32) return WriteOf<float>(r);
  r.type == DType::kBF16 ? WriteOf<BF16>(r) : WriteOf<F16>(r);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::kernels {
OPSNN_TIER_TABLE(SumNormGradTier);
OPSNN_TIER_TABLE(WriteNormGradTier);
void SumNormGrad(NormGradRun& r) { OPSNN_TIER_CALL(SumNormGradTier)(r); }
void WriteNormGrad(const NormGradRun& r) { OPSNN_TIER_CALL(WriteNormGradTier)(r); }
}  // namespace opsnn::kernels
#endif
