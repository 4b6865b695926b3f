// DeviceProfile: everything the planner knows about a machine, as numbers.
//
// One table of named fields per device: the host, probed and measured, and the NPUs of profiles.toml. Each
// field knows where its value comes from and whether it is `assumed` (nobody published it; the reason is
// kept), so that a verdict can say what it rests on. Any field can be overridden by name ("what if L1 were
// 256 KiB?"). Nothing outside a profile hard-codes a capacity or a rate.
//
// How the words map on the host: HBM = DRAM, L2 = last-level cache, L1 = a core's private L2 cache, UB = L1d,
// L0C = registers, cube = FMA micro-kernels, vector = SIMD passes. Rates are bytes per cycle and core, of the
// cube's clock; a rate of 0 is unknown or not there.
#ifndef OPSNN_DEVICE_PROFILE_H_
#define OPSNN_DEVICE_PROFILE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace opsnn::device {

// id, unit, what it is. The order is that of prints.
#define OPSNN_DEVICE_FIELDS(X)                                                                 \
  X(cores, "", "cube cores, or the CPUs this process may use")                                 \
  X(vector_cores, "", "vector cores; on the host a core is both")                              \
  X(clock_mhz, "MHz", "clock of the cube")                                                     \
  X(vector_clock_mhz, "MHz", "clock of the vector units")                                      \
  X(mac_f32, "MAC/cycle", "multiply-adds per cycle and core in f32")                           \
  X(mac_f16, "MAC/cycle", "multiply-adds per cycle and core in f16")                           \
  X(mac_bf16, "MAC/cycle", "multiply-adds per cycle and core in bf16")                         \
  X(mac_s8, "MAC/cycle", "multiply-adds per cycle and core in s8")                             \
  X(vector_bytes, "B/cycle", "bytes one vector instruction handles per cycle and vector core") \
  X(l0a_bytes, "B", "left operand buffer of the cube")                                         \
  X(l0b_bytes, "B", "right operand buffer of the cube")                                        \
  X(l0c_bytes, "B", "accumulator buffer of the cube")                                          \
  X(l1_bytes, "B", "L1 per core")                                                              \
  X(ub_bytes, "B", "unified buffer per vector core")                                           \
  X(l2_bytes, "B", "L2, shared by all cores")                                                  \
  X(hbm_bytes, "B", "device memory")                                                           \
  X(hbm_rate, "B/cycle", "device memory to core")                                              \
  X(hbm_total_rate, "B/cycle", "device memory, all cores together; 0 = cores x hbm_rate")      \
  X(l2_read_rate, "B/cycle", "L2 to core")                                                     \
  X(l2_write_rate, "B/cycle", "core to L2")                                                    \
  X(l1_rate, "B/cycle", "L1 to the units behind it")                                           \
  X(ub_rate, "B/cycle", "UB to the vector unit")                                               \
  X(l1_to_l0a_rate, "B/cycle", "L1 to L0A")                                                    \
  X(l1_to_l0b_rate, "B/cycle", "L1 to L0B")                                                    \
  X(l0c_to_ub_rate, "B/cycle", "accumulators to UB; 0 where there is no such path")            \
  X(ub_to_l2_rate, "B/cycle", "UB to L2")                                                      \
  X(launch_us, "us", "starting one more operator")                                             \
  X(sync_us, "us", "joining all cores at the end of an operator")                              \
  X(handover_cycles, "cycles", "passing one block from cube to vector unit")                   \
  X(c0_f32, "", "channels per block for f32")                                                  \
  X(c0_f16, "", "channels per block for f16 and bf16")                                         \
  X(c0_s8, "", "channels per block for 8-bit types")                                           \
  X(fractal_rows, "", "rows of a fractal: tiles of m are multiples of it")                     \
  X(fractal_bytes, "B", "bytes of a fractal's row: tiles of k and n are multiples of it")      \
  X(line_bytes, "B", "memory line: transfers below it are rounded up")

enum class Field : uint8_t {
#define OPSNN_FIELD_ENUM(id, unit, help) k_##id,
  OPSNN_DEVICE_FIELDS(OPSNN_FIELD_ENUM)
#undef OPSNN_FIELD_ENUM
};
#define OPSNN_FIELD_COUNT(id, unit, help) +1
inline constexpr int kNumFields = 0 OPSNN_DEVICE_FIELDS(OPSNN_FIELD_COUNT);
#undef OPSNN_FIELD_COUNT

struct FieldInfo {
  const char* name;
  const char* unit;
  const char* help;
};
const FieldInfo& Info(Field f);

// The memory a block of a fused operator is charged to.
enum class Pool : uint8_t { kL1, kUb, kL0c };
const char* Name(Pool p);

struct DeviceProfile {
  struct Entry {
    double value = 0;
    bool assumed = false;
    std::string source;  // where the value comes from; for assumed ones, the reasoning
  };

  std::string name;      // "host", "Ascend910B1"
  std::string product;   // one line for people: CPU model, "Atlas A2 (910B)"
  int64_t npu_arch = 0;  // 2201 and so on; 0 for the host
  std::array<Entry, kNumFields> fields;
  // Where the four kinds of blocks live. On the host all share L1, and the vector program works on slices of
  // the C block that fit UB. On an NPU A and B are in L1, C in L0C, epilogue blocks in UB.
  Pool a_pool = Pool::kL1, c_pool = Pool::kL1, epilogue_pool = Pool::kL1;

  bool is_host() const { return npu_arch == 0; }
  double operator[](Field f) const { return fields[static_cast<int>(f)].value; }
  bool assumed(Field f) const { return fields[static_cast<int>(f)].assumed; }
  const Entry& entry(Field f) const { return fields[static_cast<int>(f)]; }
  void Set(Field f, double value, std::string source, bool assumed = false) {
    fields[static_cast<int>(f)] = {value, assumed, std::move(source)};
  }

#define OPSNN_FIELD_GETTER(id, unit, help) \
  double id() const { return (*this)[Field::k_##id]; }
  OPSNN_DEVICE_FIELDS(OPSNN_FIELD_GETTER)
#undef OPSNN_FIELD_GETTER

  double mac(
      DType t) const;  // multiply-adds per cycle and core; of f32 where the type has no rate of its own
  int c0(DType t) const;
  double PoolBytes(Pool p) const;
  // Does the cube's result reach the vector unit without going through L2?
  bool cube_feeds_vector() const { return is_host() || l0c_to_ub_rate() > 0; }
  // Changes whenever any value does: part of the key of cached plans.
  uint64_t Fingerprint() const;
};

std::optional<Field> FieldFromName(std::string_view name);
// Sets one field by name; the text may carry a suffix K, M or G (of 1024). The error names field and range.
Status Override(DeviceProfile& p, std::string_view field, std::string_view value);

// "host", an NPU's name with or without "Ascend" ("910B1"), a family ("A2", "A3", "310P", "910", "950PR",
// "950DT"); any of them followed by overrides: "910B1:l1_bytes=256K,cores=8". The error lists what is known.
Result<DeviceProfile> FindProfile(std::string_view name);
std::vector<std::string> ProfileNames();  // "host" first

// The host with caches and cores as found and rates as measured: by this process on first use (under 100 ms)
// or read from the cache file. Costs a pointer afterwards.
const DeviceProfile& HostProfile();
// The same, with rates that follow from the instruction set and are marked assumed unless they have been
// measured before: never measures, so the first operator call does not wait for it.
const DeviceProfile& HostProfileUnmeasured();

}  // namespace opsnn::device

#endif  // OPSNN_DEVICE_PROFILE_H_
