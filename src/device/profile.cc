#include "device/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/catalogue.h"

namespace opsnn::device {
namespace {

constexpr FieldInfo kFieldInfo[] = {
#define OPSNN_FIELD_INFO(id, unit, help) {#id, unit, help},
    OPSNN_DEVICE_FIELDS(OPSNN_FIELD_INFO)
#undef OPSNN_FIELD_INFO
};

// The largest value that makes sense of any field; keeps products of two of them exact in a double.
constexpr double kMaxFieldValue = 1e15;

// "256K" and the like; false when it is not a number.
bool ParseSize(std::string_view text, double* value) {
  const std::string s(text);
  char* end = nullptr;
  *value = std::strtod(s.c_str(), &end);
  if (end == s.c_str() || !std::isfinite(*value)) return false;
  const std::string suffix = end;
  if (suffix == "K" || suffix == "KiB")
    *value *= 1 << 10;
  else if (suffix == "M" || suffix == "MiB")
    *value *= 1 << 20;
  else if (suffix == "G" || suffix == "GiB")
    *value *= 1 << 30;
  else
    return suffix.empty();
  return true;
}

}  // namespace

const FieldInfo& Info(Field f) { return kFieldInfo[static_cast<int>(f)]; }

const char* Name(Pool p) {
  static constexpr const char* kNames[] = {"L1", "UB", "L0C"};
  return kNames[static_cast<int>(p)];
}

double DeviceProfile::mac(DType t) const {
  const double by_type = t == DType::kF16                                          ? mac_f16()
                         : t == DType::kBF16                                       ? mac_bf16()
                         : t == DType::kS8 || t == DType::kU8 || t == DType::kBool ? mac_s8()
                                                                                   : mac_f32();
  if (by_type > 0) return by_type;
  if (mac_f32() > 0) return mac_f32();
  // No such type in the cube (f32 on the first generations): the vector units of the core do it, one
  // multiply-add per lane.
  const double per_core = cores() > 0 ? vector_cores() / cores() : 1;
  return vector_bytes() / static_cast<double>(SizeOf(DType::kF32)) * std::max(per_core, 1.0);
}

int DeviceProfile::c0(DType t) const {
  return static_cast<int>(SizeOf(t) == 1 ? c0_s8() : SizeOf(t) == 2 ? c0_f16() : c0_f32());
}

double DeviceProfile::PoolBytes(Pool p) const {
  return p == Pool::kL1 ? l1_bytes() : p == Pool::kUb ? ub_bytes() : l0c_bytes();
}

uint64_t DeviceProfile::Fingerprint() const {
  uint64_t h = 0xCBF29CE484222325u;
  for (const Entry& e : fields) {
    uint64_t bits;
    std::memcpy(&bits, &e.value, sizeof bits);
    h = (h ^ bits ^ (h >> 31)) * 0x9E3779B97F4A7C15u;
  }
  return h ^ static_cast<uint64_t>(npu_arch);
}

std::optional<Field> FieldFromName(std::string_view name) {
  for (int i = 0; i < kNumFields; ++i) {
    if (name == kFieldInfo[i].name) return static_cast<Field>(i);
  }
  return std::nullopt;
}

Status Override(DeviceProfile& p, std::string_view field, std::string_view value) {
  const std::optional<Field> f = FieldFromName(field);
  if (!f) {
    std::string known;
    for (const FieldInfo& info : kFieldInfo) known += (known.empty() ? "" : ", ") + std::string(info.name);
    return InvalidArgument("unknown profile field \"%s\"; allowed: %s", std::string(field).c_str(),
                           known.c_str());
  }
  const bool must_be_positive = *f == Field::k_cores || *f == Field::k_clock_mhz || *f == Field::k_l1_bytes;
  double v = 0;
  if (!ParseSize(value, &v) || v < 0 || v > kMaxFieldValue || (must_be_positive && v == 0)) {
    return InvalidArgument("%s: value \"%s\" is not allowed; allowed: a number %s %g, K, M or G may follow",
                           std::string(field).c_str(), std::string(value).c_str(),
                           must_be_positive ? "above 0, up to" : "from 0 to", kMaxFieldValue);
  }
  p.Set(*f, v, "override");
  return OkStatus();
}

Result<DeviceProfile> FindProfile(std::string_view name) {
  const size_t colon = std::min(name.find(':'), name.size());
  const std::string_view base = name.substr(0, colon);
  DeviceProfile profile;
  if (base == "host" || base.empty()) {
    profile = HostProfile();
  } else {
    OPSNN_ASSIGN_OR_RETURN(profile, FindNpu(base));
  }
  if (colon == name.size()) return profile;
  std::string_view rest = name.substr(colon + 1);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("profile %s: got the override \"%s\"; allowed: FIELD=VALUE, as in l1_bytes=512K",
                             std::string(base.empty() ? "host" : base).c_str(), std::string(item).c_str());
    }
    if (Status s = Override(profile, item.substr(0, equals), item.substr(equals + 1)); !s.ok())
      return s.WithContext("profile " + std::string(base.empty() ? "host" : base));
  }
  profile.name += std::string(name.substr(colon));
  return profile;
}

std::vector<std::string> ProfileNames() {
  std::vector<std::string> names = {"host"};
  for (const DeviceProfile& p : Npus()) names.push_back(p.name);
  return names;
}

}  // namespace opsnn::device
