// The loops that the calibration times.
#ifndef OPSNN_DEVICE_MEASURE_KERNELS_H_
#define OPSNN_DEVICE_MEASURE_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace opsnn::device {

// Each returns a value that depends on all its work, so that nothing is optimised away.
double RunMultiplyAdds(int64_t iterations, double* flops);       // f32; *flops = operations done
float RunRead(const float* p, size_t n);                         // n a multiple of 1024
void RunStreamingCopy(const float* from, float* to, size_t n);   // n a multiple of 1024, both aligned
uint64_t RunMultiplyChain(int64_t iterations, uint64_t factor);  // 3 cycles each

}  // namespace opsnn::device

#endif  // OPSNN_DEVICE_MEASURE_KERNELS_H_
