// The FMA peak of one core under the active tier, for benches.
#ifndef OPSNN_KERNELS_GEMM_PEAK_H_
#define OPSNN_KERNELS_GEMM_PEAK_H_

namespace opsnn::gemm {

// Floating point operations per second of f32 multiply-adds (two each) on registers alone; measured afresh at
// every call, in about 20 ms.
double FmaPeak();

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PEAK_H_
