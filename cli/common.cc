#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/cli.h"

namespace cli {

Result<std::vector<int64_t>> ParseInts(const std::string& text, const std::string& what) {
  std::vector<int64_t> values;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    char* end = nullptr;
    errno = 0;
    const long long v = std::strtoll(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || errno != 0) {
      return Status(opsnn::Code::kInvalid,
                    what + ": got \"" + text + "\"; allowed: integers separated by commas, 1,3,640,640");
    }
    values.push_back(v);
    at = comma + 1;
  }
  return values;
}

Result<std::vector<std::string>> ParseList(const std::string& text, const std::string& what,
                                           const std::string& part) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma == at)
      return Status(opsnn::Code::kInvalid,
                    what + ": got \"" + text + "\"; allowed: " + part + " separated by commas, none empty");
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

std::string OneLine(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
    out += code;
  }
  return out;
}

namespace {

bool json_was_printed = false;
std::vector<std::string> notes;

}  // namespace

// Names from a file need not be UTF-8.
void PrintJson(const Json& json) {
  json_was_printed = true;
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

bool JsonWasPrinted() { return json_was_printed; }

void Note(const std::string& text) {
  for (const std::string& n : notes)
    if (n == text) return;
  notes.push_back(text);
  std::fprintf(stderr, "opsnn: note: %s\n", OneLine(text).c_str());
}

const std::vector<std::string>& Notes() { return notes; }

double Median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

int64_t Blocks(const opsnn::plan::Region& r) { return r.block > 0 ? (r.rows + r.block - 1) / r.block : 0; }

Json ToJson(const opsnn::plan::Decision& d) {
  Json budget = Json::object(), retries = Json::array();
  Json items = Json::array();
  int64_t total = 0;
  for (const auto& b : d.budget) {
    items.push_back({{"block", b.block}, {"pool", b.pool}, {"bytes", b.bytes}});
    total += b.bytes;
  }
  budget["items"] = items;
  budget["total_bytes"] = total;
  for (const auto& r : d.retries) {
    retries.push_back({{"tile_m", r.tile_m},
                       {"tile_n", r.tile_n},
                       {"tile_k", r.tile_k},
                       {"bytes", r.bytes},
                       {"available", r.available},
                       {"fits", r.fits}});
  }
  auto terms = [](const std::vector<opsnn::plan::CostTerm>& list) {
    Json j = Json::object();
    for (const auto& t : list) j[t.name] = t.us;
    return j;
  };
  Json regions = Json::array();
  for (const auto& r : d.regions) {
    regions.push_back({{"first_row", r.first},
                       {"rows", r.rows},
                       {"block", r.block},
                       {"blocks", Blocks(r)},
                       {"verdict", Name(r.verdict)},
                       {"block_fused_us", r.fused_us},
                       {"block_split_us", r.split_us}});
  }
  return {{"chain", d.chain},
          {"where", d.where},
          {"shape", d.shape},
          {"dtype", d.dtype},
          {"profile", d.profile},
          {"verdict", Name(d.verdict)},
          {"reason", d.reason},
          {"budget", budget},
          {"retries", retries},
          {"fused_terms_us", terms(d.fused_terms)},
          {"split_terms_us", terms(d.split_terms)},
          {"time_fused_us", d.time_fused_us},
          {"time_split_us", d.time_split_us},
          {"benefit_us", d.benefit_us},
          {"threshold_us", d.threshold_us},
          {"regions", regions},
          {"time_hybrid_us", d.time_hybrid_us},
          {"rests_on_assumed", d.rests_on_assumed}};
}

Json ToJson(const opsnn::PlanCacheUse& c) {
  return {{"hits", c.hits}, {"misses", c.misses}, {"entries", c.entries}, {"bytes", c.bytes}};
}

Progress::Progress(std::string label) : label_(std::move(label)), terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
}

void Progress::Update(int done, int total) {
  if (!terminal_) return;
  drawn_ = true;
  const int width = 30, filled = total > 0 ? width * done / total : 0;
  std::fprintf(stderr, "\r%s [%.*s%*s] %d/%d", label_.c_str(), filled, "##############################",
               width - filled, "", done, total);
  std::fflush(stderr);
}

}  // namespace cli
