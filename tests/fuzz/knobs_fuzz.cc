// Bytes as a config file: entries that knobs take or refuse by name, or a message that names the file.
#include "base/knobs.h"
#include "base/toml_file.h"
#include "fuzz/fuzz.h"

namespace opsnn::fuzz {

std::vector<std::string> Seeds() {
  std::string all;
  for (const KnobInfo& k : ListKnobs()) all += k.key + " = \"" + k.default_value + "\"\n";
  return {all, "threads = 2\nl1_reserve = 0.25\nstrict = true\n",
          "fusion = \"off\"\nfusion_off = [\"gelu\", \"layout\"]\n[table]\nkey = 1979-05-27T07:32:00Z\n",
          "memory_limit = 0x7fffffffffffffff\nplan_cache_bytes = 1_000\nlog = 'debug' # comment\n"};
}

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn;  // NOLINT
  const auto entries = ParseToml({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!entries.ok()) {
    fuzz::Require(entries.status().message().find("fuzz.toml") != std::string::npos,
                  "the error names the file", entries.status().message());
    return 0;
  }
  for (const TomlEntry& e : *entries) {
    const Status s = SetKnob(e.key, e.value);
    fuzz::Require(s.ok() || s.message().find(e.key) != std::string::npos, "the error names the key",
                  s.message());
  }
  for (const KnobInfo& k : ListKnobs())
    fuzz::Require(SetKnob(k.key, k.value).ok(), "a value that a knob has can be set", k.key + "=" + k.value);
  ReloadKnobsForTest();
  return 0;
}
