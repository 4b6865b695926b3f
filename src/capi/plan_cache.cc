#include "capi/plan_cache.h"

#include <list>
#include <mutex>
#include <unordered_map>

#include "base/knobs.h"

namespace opsnn::capi {
namespace {

// Kernels with their views and compiled programs, a few KiB each; constants come on top.
constexpr size_t kBytesPerStep = 4096;

size_t BytesOf(const CallPlan& plan) {
  size_t bytes = (plan.steps.size() + 1) * kBytesPerStep;
  for (const ConstTensor& c : plan.constants) bytes += c->bytes();
  return bytes;
}

struct Entry {
  std::string key;
  std::shared_ptr<const CallPlan> plan;
  size_t bytes;
};

struct Cache {
  std::mutex mutex;
  std::list<Entry> newest_first;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key;  // views on the entries' keys
  PlanCacheUse use;
};

Cache& Plans() {
  static auto* cache = new Cache;
  return *cache;
}

}  // namespace

void AppendAliases(const std::vector<int>& same_memory, std::string* key) {
  if (same_memory.empty()) return;
  key->append(reinterpret_cast<const char*>(same_memory.data()), same_memory.size() * sizeof(int));
}

std::shared_ptr<const CallPlan> FindPlan(const std::string& key) {
  Cache& c = Plans();
  std::lock_guard lock(c.mutex);
  auto it = c.by_key.find(key);
  if (it == c.by_key.end()) {
    ++c.use.misses;
    return nullptr;
  }
  ++c.use.hits;
  if (it->second != c.newest_first.begin())
    c.newest_first.splice(c.newest_first.begin(), c.newest_first, it->second);
  return it->second->plan;
}

void KeepPlan(const std::string& key, std::shared_ptr<const CallPlan> plan) {
  const auto limit = static_cast<size_t>(GetKnobs().plan_cache_bytes);
  const size_t bytes = key.size() + sizeof(Entry) + BytesOf(*plan);
  Cache& c = Plans();
  std::lock_guard lock(c.mutex);
  if (bytes > limit || c.by_key.count(key)) return;
  c.newest_first.push_front({key, std::move(plan), bytes});
  c.by_key.emplace(c.newest_first.front().key, c.newest_first.begin());
  c.use.bytes += bytes;
  while (c.use.bytes > limit) {
    const Entry& oldest = c.newest_first.back();
    c.use.bytes -= oldest.bytes;
    c.by_key.erase(oldest.key);
    c.newest_first.pop_back();
  }
  c.use.plans = c.newest_first.size();
}

PlanCacheUse GetPlanCacheUse() {
  Cache& c = Plans();
  std::lock_guard lock(c.mutex);
  return c.use;
}

}  // namespace opsnn::capi
