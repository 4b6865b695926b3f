#include "device/catalogue.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string>

#include "base/log.h"
#include "base/toml_file.h"

namespace opsnn::device {
namespace {

constexpr char kProfiles[] =
#include "device/profiles.inc"
    ;

struct Catalogue {
  std::vector<DeviceProfile> npus;
  std::map<std::string, std::string> families;  // lower case name -> device
};

std::string Lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "524288,platform file" -> the field's value and source.
void SetField(DeviceProfile& p, const std::string& field, const std::string& text, bool assumed) {
  const std::optional<Field> f = FieldFromName(field);
  if (!f) return;
  const size_t comma = text.find(',');
  const std::string source = comma == std::string::npos ? "" : text.substr(comma + 1);
  p.Set(*f, std::atof(text.c_str()), source, assumed);
}

DeviceProfile& ByName(std::map<std::string, DeviceProfile>& devices, const std::string& name) {
  DeviceProfile& p = devices[name];
  p.name = name;
  return p;
}

void Finish(DeviceProfile& p, const std::vector<TomlEntry>& common) {
  for (const TomlEntry& e : common) {
    const std::optional<Field> f = FieldFromName(e.key);
    if (f && p[*f] == 0) SetField(p, e.key, e.value, true);
  }
  // "As fast as the cube" cannot be a number in a table for all devices.
  if (p.vector_clock_mhz() == 0) {
    const std::string why = p.entry(Field::k_vector_clock_mhz).source;
    p.Set(Field::k_vector_clock_mhz, p.clock_mhz(), why, true);
  }
  p.c_pool = Pool::kL0c;
  p.epilogue_pool = Pool::kUb;
}

Catalogue Load() {
  Catalogue c;
  const Result<std::vector<TomlEntry>> entries = ParseToml(kProfiles, "profiles.toml");
  if (!entries.ok()) {  // cannot happen in a tested build: the text is part of it
    OPSNN_LOG(kError, "%s", entries.status().message().c_str());
    return c;
  }
  std::map<std::string, DeviceProfile> devices;
  std::vector<TomlEntry> common;
  for (const TomlEntry& e : *entries) {
    const size_t dot = e.key.find('.');
    const std::string table = e.key.substr(0, dot);
    std::string field = e.key.substr(dot + 1);
    if (table == "assumed") {
      common.push_back({field, e.value});
    } else if (table == "family") {
      c.families[Lower(field)] = e.value;
    } else if (field == "product") {
      ByName(devices, table).product = e.value;
    } else if (field == "npu_arch") {
      ByName(devices, table).npu_arch = std::atoll(e.value.c_str());
    } else {
      const bool assumed = field.rfind("assumed.", 0) == 0;
      if (assumed) field = field.substr(8);
      SetField(ByName(devices, table), field, e.value, assumed);
    }
  }
  for (auto& [name, p] : devices) {
    Finish(p, common);
    c.npus.push_back(std::move(p));
  }
  return c;
}

const Catalogue& TheCatalogue() {
  static const Catalogue* const catalogue = new Catalogue(Load());
  return *catalogue;
}

}  // namespace

const std::vector<DeviceProfile>& Npus() { return TheCatalogue().npus; }

Result<DeviceProfile> FindNpu(std::string_view name) {
  const Catalogue& c = TheCatalogue();
  std::string wanted = Lower(name);
  if (const auto it = c.families.find(wanted); it != c.families.end()) wanted = Lower(it->second);
  for (const DeviceProfile& p : c.npus) {
    const std::string lower = Lower(p.name);
    if (wanted == lower || "ascend" + wanted == lower) return p;
  }
  std::string known = "host";
  for (const DeviceProfile& p : c.npus) known += ", " + p.name;
  for (const auto& [family, device] : c.families) known += ", " + family;
  return InvalidArgument("unknown device profile \"%s\"; allowed: %s", std::string(name).c_str(),
                         known.c_str());
}

}  // namespace opsnn::device
