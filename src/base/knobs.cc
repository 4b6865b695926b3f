#include "base/knobs.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <variant>

#include "base/config_file.h"
#include "base/toml_file.h"

extern char** environ;

namespace opsnn {
namespace {

using Member =
    std::variant<int Knobs::*, int64_t Knobs::*, double Knobs::*, bool Knobs::*, std::string Knobs::*,
                 FusionMode Knobs::*, NumericsPolicy Knobs::*, ProductMode Knobs::*>;

// How the words of a text knob are judged. kNames: a list of names that base does not know.
enum class Words : uint8_t { kAny, kOne, kList, kNames };

struct Row {
  const char* key;
  const char* env;
  Member member;
  double lo, hi;      // of numbers
  const char* words;  // comma-separated words that a text knob may hold; "" is always among them for kList
  Words rule;
  const char* help;
};

constexpr double kTera = 1024.0 * 1024 * 1024 * 1024;

const Row kRows[] = {
    {"threads", "OPSNN_THREADS", &Knobs::threads, 0, 4096, "", Words::kAny,
     "computing threads in all; 0 = as many as the process may use"},
    {"max_isa", "OPSNN_MAX_ISA", &Knobs::max_isa, 0, 0, ",sse4,avx2,avx512", Words::kOne,
     "best instruction set to use; empty = what the CPU has"},
    {"fusion", "OPSNN_FUSION", &Knobs::fusion, 0, 0, "auto,off,force", Words::kOne,
     "auto: the planner decides; off: never; force: wherever it is legal"},
    {"fusion_off", "OPSNN_FUSION_OFF", &Knobs::fusion_off, 0, 0, "", Words::kNames,
     "comma-separated names of graph passes that do not run"},
    {"policy", "OPSNN_POLICY", &Knobs::policy, 0, 0, "excess,exact", Words::kOne,
     "excess: fusing may drop an intermediate rounding; exact: it is kept"},
    {"profile", "OPSNN_PROFILE", &Knobs::profile, 0, 0, "", Words::kAny,
     "device that explain and the capacity queries answer for: host or the name of an NPU profile"},
    {"l1_reserve", "OPSNN_L1_RESERVE", &Knobs::l1_reserve, 0, 0.9, "", Words::kAny,
     "share of L1 that the planner leaves alone"},
    {"min_tile_k", "OPSNN_MIN_TILE_K", &Knobs::min_tile_k, 0, 1 << 20, "", Words::kAny,
     "smallest tile_k the planner may choose; 0 = none"},
    {"retry_order", "OPSNN_RETRY_ORDER", &Knobs::retry_order, 0, 0,
     "k,m,n,km,kn,mk,mn,nk,nm,kmn,knm,mkn,mnk,nkm,nmk", Words::kOne,
     "sides of a tile in the order in which they are halved until it fits; those not named follow, the "
     "longer "
     "first"},
    {"product", "OPSNN_PRODUCT", &Knobs::product, 0, 0, "planned,plain", Words::kOne,
     "planned: blocks and packing of products follow from their sizes; plain: fixed blocks, to compare with"},
    {"fuse_threshold", "OPSNN_FUSE_THRESHOLD", &Knobs::fuse_threshold, 0, 1, "", Words::kAny,
     "benefit that fusing needs, as a share of the split time"},
    {"plan_cache_bytes", "OPSNN_PLAN_CACHE_BYTES", &Knobs::plan_cache_bytes, 0, kTera, "", Words::kAny,
     "memory for cached plans"},
    {"model_cache_bytes", "OPSNN_MODEL_CACHE_BYTES", &Knobs::model_cache_bytes, 0, kTera, "", Words::kAny,
     "memory that a model keeps for input shapes seen before, and again for buffers between runs"},
    {"weight_cache_bytes", "OPSNN_WEIGHT_CACHE_BYTES", &Knobs::weight_cache_bytes, 0, kTera, "", Words::kAny,
     "memory for packed weights that no prepared form of a model uses at present"},
    {"memory_limit", "OPSNN_MEMORY_LIMIT", &Knobs::memory_limit, 0, 1024 * kTera, "", Words::kAny,
     "bytes of device memory; 0 = what the machine has"},
    {"verbose", "OPSNN_VERBOSE", &Knobs::verbose, 0, 0, "plan,trace,graph", Words::kList,
     "what to print on standard error while working"},
    {"log_level", "OPSNN_LOG", &Knobs::log_level, 0, 0, "trace,debug,info,warn,error,off", Words::kOne,
     "least severe message that is logged"},
    {"strict", "OPSNN_STRICT", &Knobs::strict, 0, 1, "", Words::kAny, "1: a fallback is an error"},
    {"num_devices", "OPSNN_NUM_DEVICES", &Knobs::num_devices, 1, 64, "", Words::kAny,
     "devices that the runtime shows"},
};

// Read by tests, benches and the config lookup; not knobs, but not unknown either.
constexpr std::string_view kOtherVariables[] = {"OPSNN_CONFIG", "OPSNN_TEST_SEED", "OPSNN_FUZZ_SCALE"};
// The checker reads its modes itself, before anything runs (runtime/check.cc). A word that it does not know
// would quietly look for nothing, so it is an error like that of a knob.
constexpr std::string_view kCheckVariable = "OPSNN_CHECK", kCheckWords = ",memory,sync,leak";

bool InWords(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin <= words.size();) {
    const size_t comma = std::min(words.find(',', begin), words.size());
    if (words.substr(begin, comma - begin) == word) return true;
    begin = comma + 1;
  }
  return false;
}

std::string Allowed(const Row& row) {
  if (std::holds_alternative<bool Knobs::*>(row.member)) return "0 or 1";
  if (std::holds_alternative<double Knobs::*>(row.member))
    return StrFormat("a number from %g to %g", row.lo, row.hi);
  if (std::holds_alternative<int Knobs::*>(row.member) ||
      std::holds_alternative<int64_t Knobs::*>(row.member)) {
    return StrFormat("an integer from %.0f to %.0f", row.lo, row.hi);
  }
  if (row.rule == Words::kAny) return "text";
  if (row.rule == Words::kNames) return "names, separated by commas";
  std::string s = row.rule == Words::kList ? "any of " : row.words[0] == ',' ? "empty or one of " : "one of ";
  const std::string_view words = row.words[0] == ',' ? row.words + 1 : row.words;
  for (char c : words) {
    s += c;
    if (c == ',') s += ' ';
  }
  return s;
}

std::string Trim(std::string_view v) {
  while (!v.empty() && std::isspace(static_cast<unsigned char>(v.front()))) v.remove_prefix(1);
  while (!v.empty() && std::isspace(static_cast<unsigned char>(v.back()))) v.remove_suffix(1);
  return std::string(v);
}

bool ParseNumber(const std::string& text, double* value) {
  if (text.empty()) return false;
  char* end = nullptr;
  errno = 0;
  *value = std::strtod(text.c_str(), &end);
  return errno == 0 && *end == '\0' && std::isfinite(*value);
}

bool ParseInteger(const std::string& text, double lo, double hi, int64_t* value) {
  if (text.empty()) return false;
  char* end = nullptr;
  errno = 0;
  *value = std::strtoll(text.c_str(), &end, 10);
  return errno == 0 && *end == '\0' && *value >= lo && *value <= hi;
}

bool ParseBool(const std::string& text, bool* value) {
  *value = text == "1" || text == "true" || text == "on";
  return *value || text == "0" || text == "false" || text == "off";
}

bool WordsAllow(const Row& row, const std::string& text) {
  if (row.rule == Words::kAny) return true;
  if (row.rule == Words::kOne) return InWords(row.words, text);
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    if (row.rule == Words::kNames ? word.empty() : !InWords(row.words, word)) return false;
    begin = comma + 1;
  }
  return true;
}

// Writes `text` into the member; false when the value is not allowed (then nothing changes).
struct Assign {
  const Row& row;
  const std::string& text;
  Knobs& knobs;

  bool operator()(int Knobs::*m) const {
    int64_t v;
    if (!ParseInteger(text, row.lo, row.hi, &v)) return false;
    knobs.*m = static_cast<int>(v);
    return true;
  }
  bool operator()(int64_t Knobs::*m) const {
    int64_t v;
    if (!ParseInteger(text, row.lo, row.hi, &v)) return false;
    knobs.*m = v;
    return true;
  }
  bool operator()(double Knobs::*m) const {
    double v;
    if (!ParseNumber(text, &v) || v < row.lo || v > row.hi) return false;
    knobs.*m = v;
    return true;
  }
  bool operator()(bool Knobs::*m) const {
    bool v;
    if (!ParseBool(text, &v)) return false;
    knobs.*m = v;
    return true;
  }
  bool operator()(std::string Knobs::*m) const {
    if (!WordsAllow(row, text)) return false;
    knobs.*m = text;
    return true;
  }
  bool operator()(FusionMode Knobs::*m) const {
    if (!InWords(row.words, text)) return false;
    knobs.*m = text == "off" ? FusionMode::kOff : text == "force" ? FusionMode::kForce : FusionMode::kAuto;
    return true;
  }
  bool operator()(NumericsPolicy Knobs::*m) const {
    if (!InWords(row.words, text)) return false;
    knobs.*m = text == "exact" ? NumericsPolicy::kExact : NumericsPolicy::kExcess;
    return true;
  }
  bool operator()(ProductMode Knobs::*m) const {
    if (!InWords(row.words, text)) return false;
    knobs.*m = text == "plain" ? ProductMode::kPlain : ProductMode::kPlanned;
    return true;
  }
};

struct Print {
  const Knobs& knobs;
  std::string operator()(int Knobs::*m) const { return std::to_string(knobs.*m); }
  std::string operator()(int64_t Knobs::*m) const { return std::to_string(knobs.*m); }
  std::string operator()(double Knobs::*m) const { return StrFormat("%g", knobs.*m); }
  std::string operator()(bool Knobs::*m) const { return knobs.*m ? "1" : "0"; }
  std::string operator()(std::string Knobs::*m) const { return knobs.*m; }
  std::string operator()(FusionMode Knobs::*m) const {
    static constexpr const char* kNames[] = {"auto", "off", "force"};
    return kNames[static_cast<int>(knobs.*m)];
  }
  std::string operator()(NumericsPolicy Knobs::*m) const {
    return knobs.*m == NumericsPolicy::kExact ? "exact" : "excess";
  }
  std::string operator()(ProductMode Knobs::*m) const {
    return knobs.*m == ProductMode::kPlain ? "plain" : "planned";
  }
};

const Row* FindRow(std::string_view key) {
  for (const Row& row : kRows) {
    if (key == row.key) return &row;
  }
  return nullptr;
}

std::string AllKeys() {
  std::string s;
  for (const Row& row : kRows) s += (s.empty() ? "" : ", ") + std::string(row.key);
  return s;
}

std::string Quoted(std::string_view v) { return "\"" + std::string(v) + "\""; }

// `name` is how the user wrote the key: the environment variable, or "key in file".
Status Set(const Row& row, std::string_view name, std::string_view value, Knobs& knobs) {
  const std::string text = Trim(value);
  if (std::visit(Assign{row, text, knobs}, row.member)) return OkStatus();
  return InvalidArgument("%s: value %s is not allowed; allowed: %s", std::string(name).c_str(),
                         Quoted(text).c_str(), Allowed(row).c_str());
}

// Everything known about the settings. Readers use an immutable snapshot, so a change never tears. Old
// snapshots stay for long, because references to them may be held; not for ever, because programs may change
// settings in a loop.
constexpr size_t kSnapshots = 4096;  // about a megabyte

struct State {
  std::mutex mutex;
  Knobs current;
  std::map<std::string, std::string, std::less<>> source;  // key -> config | environment | api
  std::string config_file;                                 // that was read; "" where there is none
  std::deque<std::unique_ptr<const Knobs>> snapshots;
  Status status;
};

std::atomic<const Knobs*> g_snapshot{nullptr};

void Publish(State& s) {
  s.snapshots.push_back(std::make_unique<const Knobs>(s.current));
  g_snapshot.store(s.snapshots.back().get(), std::memory_order_release);
  if (s.snapshots.size() > kSnapshots) s.snapshots.pop_front();
}

void Keep(Status& first, Status next) {
  if (next.ok()) return;
  first = first.ok() ? next : Status(first.code(), first.message() + "; " + next.message());
}

constexpr const char* kConfig = "config";

// Settings that one source gives together although one leaves the other without a say. A source of higher
// rank may overrule a lower one: OPSNN_FUSION=off for one run does not contradict the threshold of a config
// file.
Status CheckContradictions(State& s, std::string_view source) {
  const auto from = s.source.find("fusion"), with = s.source.find("fuse_threshold");
  if (from == s.source.end() || with == s.source.end() || from->second != source || with->second != source)
    return OkStatus();
  if (s.current.fusion == FusionMode::kAuto || s.current.fuse_threshold == 0) return OkStatus();
  return InvalidArgument(
      "fuse_threshold: %g contradicts fusion = %s, which asks for no benefit; allowed with it: 0",
      s.current.fuse_threshold, Print{s.current}(&Knobs::fusion).c_str());
}

// While files and variables are read: the error is kept, and the threshold has its default.
void DropContradiction(State& s, std::string_view source) {
  const Status status = CheckContradictions(s, source);
  if (status.ok()) return;
  s.current.fuse_threshold = Knobs{}.fuse_threshold;
  Keep(s.status, source == kConfig ? status.WithContext(s.config_file) : status);
}

// A list for what takes one value, and lists of lists.
Status CheckForm(const Row& row, const std::string& name, const TomlEntry& e) {
  const bool takes_list = row.rule == Words::kList || row.rule == Words::kNames;
  if (e.form == TomlEntry::Form::kScalar || (e.form == TomlEntry::Form::kList && takes_list))
    return OkStatus();
  return InvalidArgument("%s: got %s; allowed: %s%s", name.c_str(),
                         e.form == TomlEntry::Form::kList ? ("the list [" + e.value + "]").c_str()
                                                          : "a table or a list of lists",
                         Allowed(row).c_str(), takes_list ? ", as a text or a list of texts" : "");
}

void LoadConfig(State& s) {
  std::string path;
  bool required = false;
  if (const char* named = std::getenv("OPSNN_CONFIG"); named && *named) {
    path = named;
    required = true;
  } else if (access("opsnn.toml", F_OK) == 0) {
    path = "opsnn.toml";
  } else if (const char* home = std::getenv("HOME"); home && *home) {
    path = std::string(home) + "/.config/opsnn.toml";
  }
  if (path.empty() || (!required && access(path.c_str(), F_OK) != 0)) return;
  s.config_file = path;
  Result<std::vector<TomlEntry>> entries = ReadTomlFile(path);
  if (!entries.ok()) {
    Keep(s.status, entries.status());
    return;
  }
  for (const TomlEntry& e : *entries) {
    const Row* row = FindRow(e.key);
    if (!row) {
      Keep(s.status, InvalidArgument("%s: unknown key \"%s\"; allowed: %s", path.c_str(), e.key.c_str(),
                                     AllKeys().c_str()));
      continue;
    }
    Status st = CheckForm(*row, path + ": " + e.key, e);
    if (st.ok()) st = Set(*row, path + ": " + e.key, e.value, s.current);
    if (st.ok()) s.source[row->key] = kConfig;
    Keep(s.status, st);
  }
  DropContradiction(s, kConfig);
}

Status CheckWordList(std::string_view value) {
  for (size_t begin = 0; begin <= value.size();) {
    const size_t comma = std::min(value.find(',', begin), value.size());
    const std::string word = Trim(value.substr(begin, comma - begin));
    if (!InWords(kCheckWords, word)) {
      return InvalidArgument(
          "%s: the word %s is not allowed; allowed: any of memory, sync, leak, separated by commas",
          std::string(kCheckVariable).c_str(), Quoted(word).c_str());
    }
    begin = comma + 1;
  }
  return OkStatus();
}

void LoadEnvironment(State& s) {
  for (char** e = environ; e && *e; ++e) {
    const std::string_view entry = *e;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || entry.substr(0, 6) != "OPSNN_") continue;
    const std::string_view name = entry.substr(0, equals), value = entry.substr(equals + 1);
    const Row* row = nullptr;
    for (const Row& r : kRows) {
      if (name == r.env) row = &r;
    }
    if (row) {
      const Status st = Set(*row, name, value, s.current);
      if (st.ok()) s.source[row->key] = "environment";
      Keep(s.status, st);
    } else if (name == kCheckVariable) {
      Keep(s.status, CheckWordList(value));
    } else if (std::find(std::begin(kOtherVariables), std::end(kOtherVariables), name) ==
               std::end(kOtherVariables)) {
      Keep(s.status,
           InvalidArgument("unknown environment variable %s; allowed: the settings that `opsnn info` lists",
                           std::string(name).c_str()));
    }
  }
  DropContradiction(s, "environment");
}

std::atomic<State*> g_state{nullptr};
std::mutex g_load_mutex;

State& TheState() {
  if (State* s = g_state.load(std::memory_order_acquire)) return *s;
  std::lock_guard<std::mutex> lock(g_load_mutex);
  if (State* s = g_state.load(std::memory_order_relaxed)) return *s;
  State* s = new State;  // never freed: outlives static destructors that may still ask
  LoadConfig(*s);
  LoadEnvironment(*s);
  Publish(*s);
  g_state.store(s, std::memory_order_release);
  return *s;
}

}  // namespace

void ReloadKnobsForTest() {
  std::lock_guard<std::mutex> lock(g_load_mutex);
  // Readers may still hold settings of before, so they stay, where a leak checker finds them.
  static auto* before = new std::vector<State*>;
  before->push_back(g_state.exchange(nullptr));
  g_snapshot.store(nullptr);
}

Status InitKnobs() { return TheState().status; }

std::string ConfigFile() { return TheState().config_file; }

const Knobs& GetKnobs() {
  const Knobs* k = g_snapshot.load(std::memory_order_acquire);
  if (k) return *k;
  TheState();
  return *g_snapshot.load(std::memory_order_acquire);
}

Status SetKnob(std::string_view key, std::string_view value) {
  const Row* row = FindRow(key);
  if (!row) {
    return InvalidArgument("unknown setting \"%s\"; allowed: %s", std::string(key).c_str(),
                           AllKeys().c_str());
  }
  State& s = TheState();
  std::lock_guard<std::mutex> lock(s.mutex);
  const std::string before = std::visit(Print{s.current}, row->member);
  const Knobs knobs_before = s.current;
  const auto source_before = s.source;
  OPSNN_RETURN_IF_ERROR(Set(*row, key, value, s.current));
  s.source[row->key] = "api";
  if (const Status status = CheckContradictions(s, "api"); !status.ok()) {
    s.current = knobs_before, s.source = source_before;
    return status;
  }
  if (std::visit(Print{s.current}, row->member) != before) Publish(s);
  return OkStatus();
}

std::vector<KnobInfo> ListKnobs() {
  State& s = TheState();
  std::lock_guard<std::mutex> lock(s.mutex);
  const Knobs defaults;
  std::vector<KnobInfo> list;
  for (const Row& row : kRows) {
    const auto it = s.source.find(row.key);
    list.push_back({row.key, row.env, std::visit(Print{s.current}, row.member),
                    std::visit(Print{defaults}, row.member), Allowed(row), row.help,
                    it == s.source.end() ? "default" : it->second});
  }
  return list;
}

bool VerboseHas(std::string_view word) {
  const std::string& list = GetKnobs().verbose;
  return !list.empty() && !word.empty() && InWords(list, word);
}

}  // namespace opsnn
