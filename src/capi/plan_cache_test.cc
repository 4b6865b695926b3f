// What plans are found by, and what they count for.
#include "capi/plan_cache.h"

#include "base/knobs.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

TEST(PlanCache, PositionsFarApartAreApart) {
  std::vector<int> near(600), far(600);
  for (int i = 0; i < 600; ++i) near[i] = far[i] = i;
  near[599] = 3, far[599] = 3 + 256;
  std::string a, b, none;
  AppendAliases(near, &a);
  AppendAliases(far, &b);
  AppendAliases({}, &none);
  EXPECT_NE(a, b);
  EXPECT_EQ(none, "");
}

TEST(PlanCache, ConstantsCount) {
  const int64_t limit = GetKnobs().plan_cache_bytes;
  const auto keep = [](const char* key, int64_t constant_bytes) {
    auto plan = std::make_shared<CallPlan>();
    if (constant_bytes) {
      plan->constants.push_back(std::make_shared<HostTensor>(DType::kBool, Dims{constant_bytes}));
    }
    KeepPlan(key, plan);
    return FindPlan(key) != nullptr;
  };
  EXPECT_TRUE(keep("small", 0));
  EXPECT_TRUE(keep("almost the bound", limit - 5000));
  EXPECT_FALSE(FindPlan("small"));  // no room beside it
  EXPECT_FALSE(keep("above the bound", limit));
  EXPECT_LE(GetPlanCacheUse().bytes, static_cast<size_t>(limit));
}

}  // namespace
}  // namespace opsnn::capi
