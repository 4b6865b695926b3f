// The FMA rate of one core under the active tier: its peak for benches, the cycles of a step for blocking.
#ifndef OPSNN_KERNELS_GEMM_PEAK_H_
#define OPSNN_KERNELS_GEMM_PEAK_H_

namespace opsnn::gemm {

// One short sample, about 0.2 ms, on `threads` cores at once: what a bench takes between two products, so
// that both see the same clock and the same neighbours.
double FmaRate(int threads);

// Floating point operations per second of f32 multiply-adds (two each) on registers alone; the best
// of `samples` measurements of about 2 ms each.
double FmaPeak(int samples = 10);

// The cycles that the register tile of the active tier takes for one step of k, at best. The rate of
// multiply-adds, one or two vectors a cycle, is timed against a chain of additions, once per tier (0.1 ms).
double StepCycles();

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PEAK_H_
