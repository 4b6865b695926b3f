// The FMA peak of one core under the active tier, for benches.
#ifndef OPSNN_KERNELS_GEMM_PEAK_H_
#define OPSNN_KERNELS_GEMM_PEAK_H_

namespace opsnn::gemm {

// One short sample, about 0.2 ms, on `threads` cores at once: what a bench takes between two products, so
// that both see the same clock and the same neighbours.
double FmaRate(int threads);

// Floating point operations per second of f32 multiply-adds (two each) on registers alone; the best
// of `samples` measurements of about 2 ms each.
double FmaPeak(int samples = 10);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PEAK_H_
