// The only include of Highway, and the skeleton of a kernel file. Copy this order:
//
//   #include "kernels/foo/foo.h"          // the plain declaration, no Highway in it
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/foo/foo.cc"   // this file, relative to src/
//   #include "isa/foreach_target.h"       // re-includes this file for each tier; must come before isa/hwy.h
//   #include "isa/hwy.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace opsnn::HWY_NAMESPACE {
//   namespace hn = hwy::HWY_NAMESPACE;
//   void FooKernel(const FooParams& p) { ... }
//   }  // namespace opsnn::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace opsnn {
//   OPSNN_TIER_TABLE(FooKernel);                      // static table: sse4, avx2, avx512
//   void Foo(const FooParams& p) { OPSNN_TIER_CALL(FooKernel)(p); }
//   }  // namespace opsnn
//   #endif
//
// Lambdas inside a tier function need HWY_ATTR: [&](...) HWY_ATTR { ... }, or they are compiled for the
// baseline and inlining fails. Shared inline helpers go to "*-inl.h" files with the HWY_TARGET_TOGGLE guard.
#ifndef OPSNN_ISA_HWY_SETUP_H_
#define OPSNN_ISA_HWY_SETUP_H_
#include "isa/tier.h"
#endif

#include "hwy/highway.h"

#ifndef OPSNN_ISA_HWY_TABLES_H_
#define OPSNN_ISA_HWY_TABLES_H_

#if HWY_ARCH_X86
static_assert((HWY_TARGETS & (HWY_SSE4 | HWY_AVX2 | HWY_AVX3)) == (HWY_SSE4 | HWY_AVX2 | HWY_AVX3),
              "build with the flags of cmake/OpsnnOptions.cmake: every tier must be compiled");
#define OPSNN_TIER_TABLE(FN) \
  static decltype(&N_SSE4::FN) const FN##_tiers[] = {&N_SSE4::FN, &N_AVX2::FN, &N_AVX3::FN}
#define OPSNN_TIER_CALL(FN) (FN##_tiers[static_cast<int>(::opsnn::isa::ActiveTier())])
#else  // one tier: Highway's static target
#define OPSNN_TIER_TABLE(FN) \
  static decltype(&HWY_STATIC_NAMESPACE::FN) const FN##_tiers[] = {&HWY_STATIC_NAMESPACE::FN}
#define OPSNN_TIER_CALL(FN) (FN##_tiers[0])
#endif

#endif  // OPSNN_ISA_HWY_TABLES_H_
