// Decisions by shape class.
#include <array>
#include <bit>
#include <cstring>

#include "base/parallel.h"
#include "plan/judge.h"
#include "plan/pair.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

struct JudgeKey {
  static constexpr int kWords = 18;
  std::array<uint64_t, kWords> data{};
  const uint64_t* words() const { return data.data(); }
  friend bool operator==(const JudgeKey&, const JudgeKey&) = default;
};

using Cache = PlanCache<JudgeKey, Decision>;

Cache& TheCache() {
  static Cache* const cache = new Cache;  // outlives static destructors of programs that still plan
  return *cache;
}

// Sizes up to 16 are classes of their own; above, each octave has four, named by their largest member. So
// powers of two (the usual sequence lengths) are classes, and any other size takes the plan of the next
// larger class.
int64_t ClassOf(int64_t v) {
  constexpr int64_t kExact = 16;
  constexpr int kStepsPerOctave = 4;
  if (v <= kExact) return v;
  const int64_t step = std::max<int64_t>(
      1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(v - 1))) / kStepsPerOctave);
  return (v + step - 1) / step * step;
}

uint64_t Bits(double v) { return std::bit_cast<uint64_t>(v); }

// Up to three of k, m and n in six bits.
uint64_t OrderWord(std::string_view order) {
  uint64_t word = 0;
  for (const char side : order) word = word << 2 | (side == 'k' ? 1u : side == 'm' ? 2u : 3u);
  return word;
}

uint64_t KnobWord(const Knobs& k) {
  return static_cast<uint64_t>(k.fusion) | static_cast<uint64_t>(k.policy) << 8 |
         OrderWord(k.retry_order) << 10 | static_cast<uint64_t>(k.min_tile_k) << 16;
}

// Strings and the Decision itself; an estimate, good enough to bound the cache.
int64_t SizeInBytes(const Decision& d) {
  size_t bytes =
      sizeof(Decision) + sizeof(JudgeKey) + 128 + d.chain.size() + d.reason.size() + d.profile.size();
  bytes += d.budget.size() * sizeof(BudgetItem) + d.retries.size() * sizeof(Retry);
  bytes += d.regions.size() * sizeof(Region);
  bytes += (d.fused_terms.size() + d.split_terms.size()) * sizeof(CostTerm);
  return static_cast<int64_t>(bytes);
}

template <typename Judge>
std::shared_ptr<const Decision> FindOrJudge(const JudgeKey& key, const Knobs& knobs, Judge judge) {
  if (auto found = TheCache().Find(key)) return found;
  auto made = std::make_shared<Decision>(judge());
  made->where.clear();
  made->shape.clear();
  const int64_t bytes = SizeInBytes(*made);
  return TheCache().Insert(key, std::move(made), bytes, knobs.plan_cache_bytes);
}

}  // namespace

std::shared_ptr<const Decision> CachedJudgeContraction(const ContractionEdge& e, const DeviceProfile& p,
                                                       const Knobs& knobs) {
  // An edge that is refused without looking at sizes carries its reason as text: not worth a key.
  if (!e.legal) return std::make_shared<Decision>(JudgeContraction(e, p, knobs));
  const int threads = p.is_host() ? (e.threads > 0 ? e.threads : ThreadsAvailable()) : 0;
  JudgeKey key;
  key.data = {uint64_t{1} | static_cast<uint64_t>(e.kind) << 8 | static_cast<uint64_t>(e.dtype) << 16 |
                  static_cast<uint64_t>(e.out_dtype) << 24 | static_cast<uint64_t>(e.precision_first) << 32 |
                  static_cast<uint64_t>(e.full_operands) << 40 | static_cast<uint64_t>(e.training) << 33 |
                  static_cast<uint64_t>(e.words) << 34 | static_cast<uint64_t>(e.concurrent) << 48,
              static_cast<uint64_t>(ClassOf(e.m)),
              static_cast<uint64_t>(ClassOf(e.n)),
              static_cast<uint64_t>(ClassOf(e.k)),
              static_cast<uint64_t>(ClassOf(e.batch)),
              static_cast<uint64_t>(ClassOf(e.input_bytes)),
              static_cast<uint64_t>(ClassOf(e.small_operand_bytes)),
              static_cast<uint64_t>(ClassOf(e.convert_elements)),
              e.tail ? e.tail->Hash() : 0,
              static_cast<uint64_t>(threads),
              p.Fingerprint(),
              KnobWord(knobs),
              Bits(knobs.l1_reserve),
              Bits(knobs.fuse_threshold),
              std::hash<std::string>{}(e.chain),
              static_cast<uint64_t>(ClassOf(e.cast_elements))};
  auto decision = FindOrJudge(key, knobs, [&] {
    ContractionEdge of_class = e;
    of_class.m = ClassOf(e.m);
    of_class.n = ClassOf(e.n);
    of_class.k = ClassOf(e.k);
    of_class.batch = ClassOf(e.batch);
    of_class.input_bytes = ClassOf(e.input_bytes);
    of_class.cast_elements = ClassOf(e.cast_elements);
    of_class.threads = threads;
    return JudgeContraction(of_class, p, knobs);
  });
  // Regions are counted in rows, of which a class has many.
  return decision->verdict == Verdict::kHybrid ? std::make_shared<Decision>(JudgeContraction(e, p, knobs))
                                               : decision;
}

std::shared_ptr<const Decision> CachedJudgePointwise(const PointwiseEdge& e, const DeviceProfile& p,
                                                     const Knobs& knobs) {
  const int threads = p.is_host() ? (e.threads > 0 ? e.threads : ThreadsAvailable()) : 0;
  JudgeKey key;
  key.data = {uint64_t{2} | static_cast<uint64_t>(e.dtype) << 16 |
                  static_cast<uint64_t>(e.intermediate_kept) << 32 | static_cast<uint64_t>(e.words) << 34,
              static_cast<uint64_t>(ClassOf(e.elements)),
              static_cast<uint64_t>(ClassOf(e.first_bytes)),
              static_cast<uint64_t>(ClassOf(e.second_bytes)),
              static_cast<uint64_t>(ClassOf(e.output_bytes)),
              e.first ? e.first->Hash() : 0,
              e.second ? e.second->Hash() : 0,
              static_cast<uint64_t>(threads),
              p.Fingerprint(),
              KnobWord(knobs),
              Bits(knobs.fuse_threshold),
              std::hash<std::string>{}(e.chain),
              0,
              0,
              0,
              0};
  return FindOrJudge(key, knobs, [&] {
    PointwiseEdge of_class = e;
    of_class.elements = ClassOf(e.elements);
    of_class.first_bytes = ClassOf(e.first_bytes);
    of_class.second_bytes = ClassOf(e.second_bytes);
    of_class.output_bytes = ClassOf(e.output_bytes);
    of_class.threads = threads;
    return JudgePointwiseChain(of_class, p, knobs);
  });
}

std::shared_ptr<const Decision> CachedJudgePair(const PairEdge& e, const DeviceProfile& p,
                                                const Knobs& knobs) {
  const int threads = p.is_host() ? (e.threads > 0 ? e.threads : ThreadsAvailable()) : 0;
  const auto two = [](int64_t a, int64_t b) {
    return static_cast<uint64_t>(a) << 40 ^ static_cast<uint64_t>(b);
  };
  JudgeKey key;
  key.data = {uint64_t{3} | static_cast<uint64_t>(e.words) << 34,
              static_cast<uint64_t>(ClassOf(e.images)),
              static_cast<uint64_t>(ClassOf(e.rows)),
              static_cast<uint64_t>(ClassOf(e.columns)),
              static_cast<uint64_t>(ClassOf(e.channels)),
              static_cast<uint64_t>(ClassOf(e.out_channels)),
              static_cast<uint64_t>(e.taps),
              static_cast<uint64_t>(ClassOf(e.input_bytes)),
              static_cast<uint64_t>(e.strip_rows),
              static_cast<uint64_t>(ClassOf(e.overlap_bytes)),
              static_cast<uint64_t>(threads),
              p.Fingerprint(),
              KnobWord(knobs),
              Bits(knobs.l1_reserve),
              Bits(knobs.fuse_threshold),
              std::hash<std::string>{}(e.chain),
              two(e.pieces, e.expanded_strip_rows),
              two(ClassOf(e.expand_channels), ClassOf(e.expanded_rows * e.expanded_columns))};
  return FindOrJudge(key, knobs, [&] {
    PairEdge of_class = e;
    of_class.images = ClassOf(e.images);
    of_class.rows = ClassOf(e.rows), of_class.columns = ClassOf(e.columns);
    of_class.channels = ClassOf(e.channels), of_class.out_channels = ClassOf(e.out_channels);
    of_class.input_bytes = ClassOf(e.input_bytes), of_class.overlap_bytes = ClassOf(e.overlap_bytes);
    of_class.expand_channels = ClassOf(e.expand_channels);
    of_class.threads = threads;
    return JudgePair(of_class, p, knobs);
  });
}

CacheCounters JudgeCacheCounters() { return TheCache().counters(); }
void ClearJudgeCache() { TheCache().Clear(); }

}  // namespace opsnn::plan
