// PlanCache: least recently used plans up to a number of bytes, with counters. Any thread may use it.
//
// Keys are plain numbers (shape class, dtype, profile, knobs); values are immutable and shared, so a plan
// that is evicted lives on with whoever still holds it.
#ifndef OPSNN_PLAN_PLAN_CACHE_H_
#define OPSNN_PLAN_PLAN_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace opsnn::plan {

struct CacheCounters {
  int64_t hits = 0, misses = 0, entries = 0, bytes = 0;
};

// Hash of a key made of 64-bit words: Key needs `static constexpr int kWords` and `const uint64_t* words()
// const`.
struct WordHash {
  template <typename Key>
  size_t operator()(const Key& k) const {
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < Key::kWords; ++i) h = (h ^ k.words()[i]) * 0xFF51AFD7ED558CCDu + (h >> 29);
    return static_cast<size_t>(h ^ (h >> 32));
  }
};

template <typename Key, typename Value, typename Hash = WordHash>
class PlanCache {
 public:
  using Ptr = std::shared_ptr<const Value>;

  // The value of `key`, now the most recently used; null when it is not there.
  Ptr Find(const Key& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) {
      ++counters_.misses;
      return nullptr;
    }
    ++counters_.hits;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->value;
  }

  // Stores a value that takes `bytes`; drops the least recently used until all fit `limit`. A value larger
  // than the limit is not kept. The first of two threads that made the same value wins; its value is
  // returned.
  Ptr Insert(const Key& key, Ptr value, int64_t bytes, int64_t limit) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = index_.find(key); it != index_.end()) return it->second->value;
    if (bytes > limit) return value;
    order_.push_front({key, value, bytes});
    index_[key] = order_.begin();
    counters_.bytes += bytes;
    while (counters_.bytes > limit) {
      counters_.bytes -= order_.back().bytes;
      index_.erase(order_.back().key);
      order_.pop_back();
    }
    return value;
  }

  CacheCounters counters() const {
    std::lock_guard<std::mutex> lock(mutex_);
    CacheCounters c = counters_;
    c.entries = static_cast<int64_t>(order_.size());
    return c;
  }

  void Clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    order_.clear();
    index_.clear();
    counters_ = {};
  }

 private:
  struct Entry {
    Key key;
    Ptr value;
    int64_t bytes;
  };
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> index_;
  CacheCounters counters_;
};

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_PLAN_CACHE_H_
