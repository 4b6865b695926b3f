// Knobs: settings that bound what the library decides. Precedence: API (SetKnob), then environment, then
// config file (OPSNN_CONFIG, else ./opsnn.toml, else ~/.config/opsnn.toml), then default. One table
// (knobs.cc) holds, per key, its environment name, config key, default, allowed values and help text; the
// documentation page and `opsnn info` print that table. An unknown key in a config file, an unknown OPSNN_*
// variable or a value out of range is an error that names the key and what is allowed; it surfaces as the
// Status of InitKnobs(), which the tool, aclInit and the C++ API report.
#ifndef OPSNN_BASE_KNOBS_H_
#define OPSNN_BASE_KNOBS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace opsnn {

enum class FusionMode : uint8_t { kAuto, kOff, kForce };  // judge decides / never / wherever it is legal
enum class NumericsPolicy : uint8_t { kExcess, kExact };  // may fusing drop an intermediate rounding?
enum class ProductMode : uint8_t { kPlanned, kPlain };  // blocks of the planner / fixed ones, as a yardstick

struct Knobs {
  int threads = 0;                        // OPSNN_THREADS, 0 = as many as the process may use
  std::string max_isa;                    // OPSNN_MAX_ISA, "" = no cap
  FusionMode fusion = FusionMode::kAuto;  // OPSNN_FUSION = auto|off|force
  std::string fusion_off;  // OPSNN_FUSION_OFF: comma-separated names of graph passes that do not run
  NumericsPolicy policy = NumericsPolicy::kExcess;  // OPSNN_POLICY = excess|exact
  std::string profile = "host";  // OPSNN_PROFILE: device that explain and capacity queries answer for
  double l1_reserve = 0.0;       // OPSNN_L1_RESERVE in [0, 0.9]: share of L1 the planner leaves alone
  int64_t min_tile_k = 0;        // OPSNN_MIN_TILE_K, 0 = none
  std::string retry_order =
      "k";  // OPSNN_RETRY_ORDER: sides of a tile that does not fit as they are halved, "kmn"
  ProductMode product = ProductMode::kPlanned;  // OPSNN_PRODUCT = planned|plain
  double fuse_threshold = 0.0;  // OPSNN_FUSE_THRESHOLD: benefit needed, as a share of the split time, [0, 1]
  int64_t plan_cache_bytes = 8 << 20;      // OPSNN_PLAN_CACHE_BYTES
  int64_t model_cache_bytes = 256 << 20;   // OPSNN_MODEL_CACHE_BYTES: prepared forms, and arenas between runs
  int64_t weight_cache_bytes = 256 << 20;  // OPSNN_WEIGHT_CACHE_BYTES: packed weights that no form uses now
  int64_t memory_limit = 0;                // OPSNN_MEMORY_LIMIT bytes, 0 = what the machine has
  std::string verbose;                     // OPSNN_VERBOSE: comma-separated of plan, trace, graph
  std::string log_level = "warn";          // OPSNN_LOG = trace|debug|info|warn|error|off
  bool strict = false;                     // OPSNN_STRICT=1: a fallback is an error
  int num_devices = 1;                     // OPSNN_NUM_DEVICES: devices that the runtime shows, 1..64
};

// Reads environment and config file once; later calls return the same Status.
Status InitKnobs();
// The current values. Never fails: before or after a failed InitKnobs the good keys hold, the bad keep
// defaults.
const Knobs& GetKnobs();
// Sets one key by its config name ("threads", "l1_reserve", ...), with the checks of the table.
Status SetKnob(std::string_view key, std::string_view value);

struct KnobInfo {
  std::string key, env, value, default_value, allowed, help,
      source;  // source: default|config|environment|api
};
std::vector<KnobInfo> ListKnobs();
bool VerboseHas(std::string_view word);  // is `word` in the verbose list?

// Forgets everything, so that the next use reads environment and config file again. For tests.
void ReloadKnobsForTest();

}  // namespace opsnn

#endif  // OPSNN_BASE_KNOBS_H_
