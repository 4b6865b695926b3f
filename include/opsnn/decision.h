// Decision: what the planner decided for one fusable edge, and everything it weighed. `explain` prints it.
#ifndef OPSNN_DECISION_H_
#define OPSNN_DECISION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace opsnn::plan {

enum class Verdict : uint8_t { kFuse, kSplit, kRefuse, kHybrid };
constexpr const char* Name(Verdict v) {
  constexpr const char* kNames[] = {"fuse", "split", "refuse", "hybrid"};
  return kNames[static_cast<int>(v)];
}

struct BudgetItem {
  std::string block;  // "A", "B", "C", "epilogue:gelu"
  std::string pool;   // "L1", "UB", "L0C"
  int64_t bytes = 0;
};
struct Retry {
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  int64_t bytes = 0, available = 0;
  bool fits = false;
};
struct CostTerm {
  std::string name;  // "cube", "epilogue", "write C", "read C", "launch", "lost parallelism"
  double us = 0;
};

// Rows of a result that are treated alike: `rows` of them from `first` on, in blocks of `block`.
struct Region {
  int64_t first = 0, rows = 0, block = 0;
  Verdict verdict = Verdict::kFuse;  // kFuse or kSplit
  double fused_us = 0, split_us = 0;
};

struct Decision {
  std::string chain;  // "conv+add+relu"
  std::string where;  // node of a model, "" for a direct call
  std::string shape;  // "m=128 n=768 k=3072"
  std::string dtype;
  std::string profile;
  Verdict verdict = Verdict::kSplit;
  std::string reason;  // one sentence: the first condition that decided, with its values
  std::vector<BudgetItem> budget;
  std::vector<Retry> retries;
  std::vector<CostTerm> fused_terms, split_terms;
  double time_fused_us = 0, time_split_us = 0, benefit_us = 0, threshold_us = 0;
  std::vector<Region> regions;    // kHybrid: what was chosen where, covering the rows in order
  double time_hybrid_us = 0;      // of the best cut into regions; 0: none was considered
  bool rests_on_assumed = false;  // a profile field marked `assumed` entered the verdict
};

}  // namespace opsnn::plan

#endif  // OPSNN_DECISION_H_
