#include "opsnn/system.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/config_file.h"
#include "base/knobs.h"
#include "base/parallel.h"
#include "device/host.h"
#include "device/profile.h"
#include "graph/pass_manager.h"
#include "isa/tier.h"
#include "op/declaration.h"

#ifndef OPSNN_VERSION
#define OPSNN_VERSION "unknown"
#endif

namespace opsnn {

SystemInfo GetSystemInfo(bool measure) {
  const device::DeviceProfile& host = measure ? device::HostProfile() : device::HostProfileUnmeasured();
  SystemInfo info;
  info.version = OPSNN_VERSION;
  info.isa = isa::FeatureString();
  info.cpu = host.product;
  info.threads = NumThreads();
  info.caches = {{"L1d", static_cast<int64_t>(host.ub_bytes())},
                 {"L2", static_cast<int64_t>(host.l1_bytes())},
                 {"L3", static_cast<int64_t>(host.l2_bytes())}};
  info.profile = GetKnobs().profile;
  info.config_file = ConfigFile();
  if (!host.assumed(device::Field::k_mac_f32)) {
    info.fma_gflops = 2 * host.mac_f32() * host.clock_mhz() * 1e-3;
    info.read_gbps = host.hbm_rate() * host.clock_mhz() * 1e-3;
    device::HostRates kept;  // the planner has no use for the copy rate: it is in the file alone
    if (device::ReadRates(device::RateCachePath(), &kept)) info.copy_gbps = kept.dram_copy_gbps;
  }
  return info;
}

std::vector<Knob> ListOptions() {
  std::vector<Knob> out;
  for (KnobInfo& k : ListKnobs())
    out.push_back({k.key, k.env, k.value, k.default_value, k.allowed, k.help, k.source});
  return out;
}

Status SetOption(const std::string& key, const std::string& value) {
  OPSNN_RETURN_IF_ERROR(SetKnob(key, value));
  if (key == "max_isa") {  // the active tier was chosen at the first use: move it
    OPSNN_ASSIGN_OR_RETURN(const isa::Tier tier,
                           value.empty() ? Result<isa::Tier>(isa::BestTier()) : isa::TierFromName(value));
    isa::SetMaxTier(tier);
  }
  return OkStatus();
}

Status Initialize() {
  OPSNN_RETURN_IF_ERROR(InitKnobs());
  // These two name things that base does not know.
  // The host needs no looking up, which would measure it.
  if (GetKnobs().profile != "host") {
    if (auto p = device::FindProfile(GetKnobs().profile); !p.ok())
      return p.status().WithContext("knob profile (OPSNN_PROFILE)");
  }
  return graph::CheckPassNames(GetKnobs().fusion_off).WithContext("knob fusion_off (OPSNN_FUSION_OFF)");
}

std::vector<std::string> ProfileNames() { return device::ProfileNames(); }

}  // namespace opsnn
