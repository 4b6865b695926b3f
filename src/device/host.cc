#include "device/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_count.h"
#include "base/parallel.h"
#include "base/toml_file.h"
#include "isa/bf16_dots.h"
#include "isa/caches.h"
#include "isa/cpuid.h"
#include "isa/tier.h"

namespace opsnn::device {
namespace {

std::string HostName() {
  std::string brand = isa::CpuBrand();
  return brand.empty() ? "unknown processor" : brand;
}

// Multiply-adds per cycle and vector bytes of a tier, where nothing was measured: two multiply-add units (one
// multiplier and one adder without FMA), as every x86 server core of the last ten years has.
struct TierWidth {
  double mac_f32, vector_bytes;
};
TierWidth WidthOf(isa::Tier t) {
  if (t == isa::Tier::kAvx512) return {32, 64};
  if (t == isa::Tier::kAvx2) return {16, 32};
  return {4, 16};
}

// A virtual machine is shown the whole socket's cache, which its neighbours use too. What one core can count
// on there is about what processors have per core.
constexpr int64_t kSharedCachePerCore = 16 << 20;

// Nominal rates in bytes per cycle, of the slower of two current machines: reading L1d, L2, L3 and memory.
constexpr double kNominalL1d = 64, kNominalL2 = 32, kNominalL3 = 10, kNominalMemory = 4;
constexpr double kNominalGhz = 3;

void SetRates(DeviceProfile& p, const HostRates& r, int cores) {
  const TierWidth width = WidthOf(isa::ActiveTier());
  const bool core = r.clock_ghz > 0 && r.fma_gflops > 0, memory = core && r.dram_read_gbps > 0;
  const double ghz = core ? r.clock_ghz : kNominalGhz;
  const auto set_if = [&p](bool measured, Field f, double measured_value, double nominal) {
    p.Set(f, measured ? measured_value : nominal, measured ? "measured" : "nominal: not measured yet",
          !measured);
  };
  set_if(core, Field::k_clock_mhz, ghz * 1e3, kNominalGhz * 1e3);
  set_if(core, Field::k_vector_clock_mhz, ghz * 1e3, kNominalGhz * 1e3);
  set_if(core, Field::k_mac_f32, r.fma_gflops / 2 / ghz, width.mac_f32);
  const auto set = [&](Field f, double value, double nominal) { set_if(memory, f, value, nominal); };
  set(Field::k_ub_rate, r.l1d_gbps / ghz, kNominalL1d);
  set(Field::k_l1_rate, r.l2_gbps / ghz, kNominalL2);
  set(Field::k_l2_read_rate, r.l3_gbps / ghz, kNominalL3);
  // Plain stores into a cache first read the line: half the read rate.
  set(Field::k_l2_write_rate, r.l3_gbps / ghz / 2, kNominalL3 / 2);
  set(Field::k_ub_to_l2_rate, r.l3_gbps / ghz / 2, kNominalL3 / 2);
  set(Field::k_hbm_rate, r.dram_read_gbps / ghz, kNominalMemory);
  const bool together = memory && r.together;
  const double one_core = memory ? r.dram_read_gbps / ghz : kNominalMemory;
  set_if(together, Field::k_hbm_total_rate, r.dram_total_gbps / ghz, one_core * cores);
  set_if(together, Field::k_sync_us, r.sync_us, cores > 1 ? 2 : 0);
  // Between cores, line by line: there is no hand-over from cube to vector unit.
  set_if(together, Field::k_handover_cycles, r.cross_line_ns * ghz, 0);
  p.Set(Field::k_vector_bytes, width.vector_bytes, "width of the tier: one arithmetic instruction per cycle");
  const double f32 = p.mac_f32();
  p.Set(Field::k_mac_f16, f32, "halves are computed in f32");
  p.Set(Field::k_mac_bf16, isa::Bf16DotsPay() ? 2 * f32 : f32,
        isa::Bf16DotsPay() ? "two products per lane and instruction (computed in f32 under the exact policy)"
                           : "halves are computed in f32");
  p.Set(Field::k_mac_s8, isa::HasVnni() ? 4 * f32 : f32,
        isa::HasVnni() ? "four products per lane and instruction" : "computed in wider lanes");
}

}  // namespace

DeviceProfile BuildHostProfile(const isa::Caches& caches, int cores, const HostRates& rates) {
  DeviceProfile p;
  p.name = "host";
  p.product = HostName() + ", " + isa::FeatureString();
  p.Set(Field::k_cores, cores, "affinity and cgroup quota");
  p.Set(Field::k_vector_cores, cores, "a core is both");
  p.Set(Field::k_ub_bytes, static_cast<double>(caches.l1d), caches.source);
  p.Set(Field::k_l1_bytes, static_cast<double>(caches.l2), caches.source);
  const int64_t share = kSharedCachePerCore * cores;
  const bool capped = isa::InVirtualMachine() && caches.l3 > share;
  const double shown = static_cast<double>(capped ? share : caches.l3);
  const double counted = rates.shared_mib * (1 << 20);
  if (counted > 0 && counted < shown) {
    p.Set(Field::k_l2_bytes, counted, "measured: what stays there beside the neighbours");
  } else {
    p.Set(Field::k_l2_bytes, shown,
          capped ? "16 MiB per core: a virtual machine shares the socket's cache with others" : caches.source,
          capped);
  }
  p.Set(Field::k_hbm_bytes,
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)),
        "operating system");
  SetRates(p, rates, cores);
  const double lanes = p.vector_bytes() / static_cast<double>(sizeof(float));
  p.Set(Field::k_l0c_bytes,
        lanes * static_cast<double>(sizeof(float)) * (isa::ActiveTier() == isa::Tier::kAvx512 ? 32 : 16),
        "vector registers");
  p.Set(Field::k_launch_us, 0.5, "planning look-up and dispatch of one more operator", true);
  p.Set(Field::k_c0_f32, 16, "host layout");
  p.Set(Field::k_c0_f16, 16, "host layout");
  p.Set(Field::k_c0_s8, 32, "host layout");
  p.Set(Field::k_fractal_rows, 1, "micro-kernels take any number of rows");
  p.Set(Field::k_fractal_bytes, p.vector_bytes(), "one vector");
  p.Set(Field::k_line_bytes, 64, "cache line");
  return p;
}

namespace {
// Rates of all cores together are those of the threads that the process computes with.
int MeasuredCores() { return std::min(AllowedCpus(), NumThreads()); }
}  // namespace

std::string RateCachePath() {
  std::string dir;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/') {
    dir = xdg;
  } else if (const char* home = std::getenv("HOME"); home && *home) {
    dir = std::string(home) + "/.cache";
  }
  if (dir.empty()) return "";
  const std::string key =
      HostName() + "-" + isa::Name(isa::ActiveTier()) + "-" + std::to_string(MeasuredCores());
  std::string file;
  for (char c : key) file += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return dir + "/opsnn/rates-" + file + ".toml";
}

#define OPSNN_HOST_RATES(X) \
  X(clock_ghz)              \
  X(fma_gflops)             \
  X(l1d_gbps)               \
  X(l2_gbps)                \
  X(l3_gbps) X(dram_read_gbps) X(dram_copy_gbps) X(dram_total_gbps) X(sync_us) X(cross_line_ns) X(shared_mib)

bool ReadRates(const std::string& path, HostRates* rates) {
  if (path.empty() || access(path.c_str(), R_OK) != 0) return false;
  const Result<std::vector<TomlEntry>> entries = ReadTomlFile(path);
  if (!entries.ok()) return false;
  HostRates r;
  bool all = true;
#define OPSNN_READ_RATE(name)                                              \
  {                                                                        \
    const auto is_it = [](const TomlEntry& e) { return e.key == #name; };  \
    const auto it = std::find_if(entries->begin(), entries->end(), is_it); \
    all = all && it != entries->end();                                     \
    r.name = it != entries->end() ? std::atof(it->value.c_str()) : 0;      \
  }
  OPSNN_HOST_RATES(OPSNN_READ_RATE)
#undef OPSNN_READ_RATE
  // Cut short, edited, or written before there was such a rate.
  if (!all || r.clock_ghz <= 0 || r.fma_gflops <= 0 || r.dram_read_gbps <= 0) return false;
  *rates = r;
  return true;
}

void WriteRates(const std::string& path, const HostRates& r) {
  if (path.empty()) return;
  const std::string dir = path.substr(0, path.rfind('/'));
  mkdir(dir.substr(0, dir.rfind('/')).c_str(), 0755);
  mkdir(dir.c_str(), 0755);
  // Written aside and renamed: another process never reads half a file.
  const std::string temporary = path + "." + std::to_string(getpid());
  std::FILE* f = std::fopen(temporary.c_str(), "w");
  if (!f) return;
  bool ok =
      std::fprintf(f, "# Rates of this machine, measured once; delete the file to measure again.\n") > 0;
#define OPSNN_WRITE_RATE(name) ok = ok && std::fprintf(f, #name " = %.6f\n", r.name) > 0;
  OPSNN_HOST_RATES(OPSNN_WRITE_RATE)
#undef OPSNN_WRITE_RATE
  ok = std::fclose(f) == 0 && ok;
  if (!ok || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

namespace {

// One profile per tier, because a test or the API may change the cap. Profiles are never freed, not even
// those that were replaced: references to them are held.
std::mutex g_mutex;
std::atomic<const DeviceProfile*> g_measured[isa::kNumTiers];
std::atomic<const DeviceProfile*> g_unmeasured[isa::kNumTiers];

std::atomic<const DeviceProfile*>& SlotOf(std::atomic<const DeviceProfile*>* slots) {
  return slots[static_cast<int>(isa::ActiveTier())];
}

// With g_mutex held.
const DeviceProfile* Publish(std::atomic<const DeviceProfile*>& slot, DeviceProfile profile) {
  static std::vector<std::unique_ptr<const DeviceProfile>>& all =
      *new std::vector<std::unique_ptr<const DeviceProfile>>;
  all.push_back(std::make_unique<const DeviceProfile>(std::move(profile)));
  slot.store(all.back().get(), std::memory_order_release);
  return all.back().get();
}

// On a thread of its own: the caller may have fewer at the moment (ScopedThreadLimit) or be one of many. If
// the caller is within a job of the pool, that has no threads to spare, and the rates say so.
HostRates MeasureAll(const isa::Caches& caches) {
  HostRates rates;
  const auto measure = [&] { rates = MeasureHost(caches.l1d, caches.l2, caches.l3, MeasuredCores()); };
  try {
    std::thread(measure).join();
  } catch (const std::system_error&) {  // no more threads
    measure();
  }
  return rates;
}

HostRates Measure(const isa::Caches& caches) {
  const HostRates rates = MeasureAll(caches);
  if (rates.together) WriteRates(RateCachePath(), rates);  // else the next process tries again
  return rates;
}

}  // namespace

const DeviceProfile& HostProfile() {
  std::atomic<const DeviceProfile*>& slot = SlotOf(g_measured);
  if (const DeviceProfile* p = slot.load(std::memory_order_acquire)) return *p;
  std::lock_guard<std::mutex> lock(g_mutex);
  if (const DeviceProfile* p = slot.load(std::memory_order_relaxed)) return *p;
  const isa::Caches& caches = isa::HostCaches();
  const int cores = AllowedCpus();
  HostRates rates;
  if (!ReadRates(RateCachePath(), &rates)) rates = Measure(caches);
  return *Publish(slot, BuildHostProfile(caches, cores, rates));
}

const DeviceProfile& HostProfileUnmeasured() {
  if (const DeviceProfile* p = SlotOf(g_measured).load(std::memory_order_acquire)) return *p;
  std::atomic<const DeviceProfile*>& slot = SlotOf(g_unmeasured);
  if (const DeviceProfile* p = slot.load(std::memory_order_acquire)) return *p;
  std::lock_guard<std::mutex> lock(g_mutex);
  if (const DeviceProfile* p = slot.load(std::memory_order_relaxed)) return *p;
  HostRates rates;
  if (!ReadRates(RateCachePath(), &rates)) rates = MeasureCore();
  return *Publish(slot, BuildHostProfile(isa::HostCaches(), AllowedCpus(), rates));
}

HostRates MeasureNow() { return MeasureAll(isa::HostCaches()); }

HostRates Recalibrate() {
  std::lock_guard<std::mutex> lock(g_mutex);
  const isa::Caches& caches = isa::HostCaches();
  const int cores = AllowedCpus();
  const HostRates rates = Measure(caches);
  Publish(SlotOf(g_measured), BuildHostProfile(caches, cores, rates));
  return rates;
}

}  // namespace opsnn::device
