// Activations on accumulators before they are stored: the few that are worth their code in every tile. The
// others run on the tile just stored (act_pass.cc), while it is in L1.
#if defined(OPSNN_KERNELS_CONV_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_CONV_EPILOGUE_INL_H_
#undef OPSNN_KERNELS_CONV_EPILOGUE_INL_H_
#else
#define OPSNN_KERNELS_CONV_EPILOGUE_INL_H_
#endif

#include "isa/hwy.h"
#include "kernels/conv/act_pass.h"
#include "simd/act-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <RegAct kAct, int NV, int P, class D, class V = hn::Vec<D>>
HWY_INLINE void ActAll(D d, const float* imm, V (&acc)[NV][P]) {
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v)
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) {
      acc[v][p] = ::opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, acc[v][p], imm[0], imm[1]);
    }
}

// Applies `post` if its activation is one of the cheap ones (see IsRegisterAct), else leaves acc alone.
template <int NV, int P, class D, class V = hn::Vec<D>>
HWY_INLINE void ApplyInRegisters(D d, const Post& post, V (&acc)[NV][P]) {
  if (post.act == RegAct::kRelu) {
    ActAll<RegAct::kRelu>(d, post.act_imm, acc);
  } else if (post.act == RegAct::kClip) {
    ActAll<RegAct::kClip>(d, post.act_imm, acc);
  } else if (post.act == RegAct::kHardSwish) {
    ActAll<RegAct::kHardSwish>(d, post.act_imm, acc);
  }
  if (!post.affine || !IsRegisterAct(post.act)) return;
  const V scale = hn::Set(d, post.scale), shift = hn::Set(d, post.shift);
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v)
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) acc[v][p] = hn::Add(hn::Mul(acc[v][p], scale), shift);
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
