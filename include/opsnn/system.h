// What the library is and what it found: version, device, knobs, operators.
#ifndef OPSNN_SYSTEM_H_
#define OPSNN_SYSTEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opsnn/export.h"
#include "opsnn/status.h"

namespace opsnn {

struct CacheLevel {
  std::string name;  // "L1d", "L2", "L3"
  int64_t bytes = 0;
};
struct SystemInfo {
  std::string version;
  std::string isa;  // active tier and features, "avx512+vnni+bf16"
  std::string cpu;
  int threads = 1;
  std::vector<CacheLevel> caches;
  std::string profile;      // device profile that explain answers for
  std::string config_file;  // that the knobs were read from; "" where there is none
  // Measured once per machine, one core; 0 until measured. Memory: read, and copied (read and written).
  double fma_gflops = 0, read_gbps = 0, copy_gbps = 0;
};
// measure: also run (or read from its cache) the short calibration.
OPSNN_API SystemInfo GetSystemInfo(bool measure = false);

struct Knob {
  std::string key, env, value, default_value, allowed, help, source;
};
OPSNN_API std::vector<Knob> ListOptions();
// Sets a knob by key; the error names the key and what is allowed.
OPSNN_API Status SetOption(const std::string& key, const std::string& value);
// The status of reading environment and config file; call it first and report it.
OPSNN_API Status Initialize();

// One way in which an operator runs. Of an operator's variants the first whose condition holds is chosen.
struct OperatorVariant {
  std::string name, when;
  std::string
      example;  // a call that takes it, "f32 4x512 512x512c": element type, dims of inputs (c: constant)
};
struct OperatorListing {
  std::string api;     // "aclnnRelu", or "" for an operator without a C function
  std::string op;      // "Relu"
  std::string status;  // "implemented" or "declared"
  std::vector<std::string> dtypes;
  std::string doc;                        // what the operator, or the C function, does
  std::vector<OperatorVariant> variants;  // of an operator, not of a C function
};
OPSNN_API std::vector<OperatorListing> ListOperators();
// Names of device profiles that explain and the capacity queries know.
OPSNN_API std::vector<std::string> ProfileNames();

}  // namespace opsnn

#endif  // OPSNN_SYSTEM_H_
