#include "observe/variants.h"

#include <gtest/gtest.h>

#include <set>

namespace opsnn::observe {
namespace {

TEST(Variants, EveryExampleRunsAsItsRowSays) {
  for (const VariantRow& row : VariantRows()) {
    const auto name = PlanExample(row);
    ASSERT_TRUE(name.ok()) << row.op << " " << row.example << ": " << name.status().message();
    EXPECT_NE(name->find(row.name), std::string::npos)
        << row.op << " " << row.example << " runs as " << *name;
  }
}

TEST(Variants, EveryOperatorHasSome) {
  for (const op::OpDef* def : op::AllOperators()) {
    const auto rows = VariantsOf(*def);
    ASSERT_FALSE(rows.empty()) << def->name;
    std::set<std::string> names;
    for (const VariantRow& r : rows) EXPECT_TRUE(names.insert(r.name).second) << def->name << " " << r.name;
  }
}

}  // namespace
}  // namespace opsnn::observe
