// Plans by shape class: the least recently used go first when the plan_cache_bytes knob is reached.
#ifndef OPSNN_CAPI_PLAN_CACHE_H_
#define OPSNN_CAPI_PLAN_CACHE_H_

#include <memory>
#include <string>
#include <vector>

#include "capi/plan.h"

namespace opsnn::capi {

// The part of a key that says how the tensors of a call share memory (AliasPattern).
void AppendAliases(const std::vector<int>& same_memory, std::string* key);
// Null when the key is not there.
std::shared_ptr<const CallPlan> FindPlan(const std::string& key);
void KeepPlan(const std::string& key, std::shared_ptr<const CallPlan> plan);

struct PlanCacheUse {
  size_t plans = 0, bytes = 0;
  uint64_t hits = 0, misses = 0;
};
PlanCacheUse GetPlanCacheUse();

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_PLAN_CACHE_H_
