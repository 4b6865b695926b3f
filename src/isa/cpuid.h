// What the processor says about itself, for machines whose operating system does not (no /sys).
#ifndef OPSNN_ISA_CPUID_H_
#define OPSNN_ISA_CPUID_H_

#include <cstdint>
#include <string>
#include <vector>

namespace opsnn::isa {

struct CpuCache {
  int level = 0;  // 1, 2, 3; data or unified only
  int64_t bytes = 0;
  int sharing = 1;  // logical CPUs that share it, as the processor counts them
};
std::vector<CpuCache> CachesByCpuid();  // empty where there is no such instruction
std::string CpuBrand();                 // "AMD EPYC 9254 24-Core Processor", "" if unknown
bool InVirtualMachine();
// AVX512-BF16 and VBMI2, and the cap allows avx512: what isa/bf16-inl.h moves bf16 with.
bool HasBf16Moves();

}  // namespace opsnn::isa

#endif  // OPSNN_ISA_CPUID_H_
