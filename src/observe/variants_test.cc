#include "observe/variants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

namespace opsnn::observe {
namespace {

TEST(Variants, EveryExampleRunsAsItsRowSays) {
  int examples = 0;
  for (const op::OpDef* def : op::AllOperators()) {
    for (const VariantRow& row : VariantsOf(*def)) {
      if (!*row.example) continue;
      ++examples;
      const auto name = PlanExample(row);
      ASSERT_TRUE(name.ok()) << row.op << " " << row.example << ": " << name.status().message();
      EXPECT_NE(name->find(row.name), std::string::npos)
          << row.op << " " << row.example << " runs as " << *name;
    }
  }
  EXPECT_GT(examples, 20);
}

TEST(Variants, RowsStandWithTheirOperator) {
  for (const op::OpDef* def : op::AllOperators()) {
    for (const VariantRow& row : VariantsOf(*def)) {
      EXPECT_EQ(row.op, def->name);
      EXPECT_FALSE(std::string_view(row.when).empty()) << row.op << " " << row.name;
    }
  }
}

// Operands of one form, in the first of some types that the operator takes; its attributes have their
// defaults. Empty where none will do.
std::string PlannedPlainly(const op::OpDef& def) {
  const size_t inputs = std::max<size_t>(1, static_cast<size_t>(def.min_inputs));
  for (const char* type : {"f32", "s32", "s64", "bool"}) {
    std::string example = type;
    for (size_t i = 0; i < inputs; ++i) example += " 4x8";
    if (auto name = PlanExample({def.name.c_str(), "", "", example.c_str()}); name.ok()) return *name;
  }
  return "";
}

// Without a row an operator of elements is one program, whatever it is called with, and the others one
// kernel.
TEST(Variants, OperatorsWithoutRowsAreWhatTheTableSays) {
  int planned = 0, elementwise = 0;
  for (const op::OpDef* def : op::AllOperators()) {
    const auto rows = VariantsOf(*def);
    ASSERT_FALSE(rows.empty()) << def->name;
    std::set<std::string> names;
    for (const VariantRow& r : rows) EXPECT_TRUE(names.insert(r.name).second) << def->name << " " << r.name;
    if (*rows[0].example) continue;
    EXPECT_EQ(rows.size(), 1u) << def->name;
    EXPECT_EQ(rows[0].op, def->name);
    if (!def->program) {
      EXPECT_STREQ(rows[0].name, "") << def->name;
      continue;
    }
    ++elementwise;
    const std::string name = PlannedPlainly(*def);
    planned += !name.empty();
    if (!name.empty()) {
      EXPECT_NE(name.find(rows[0].name), std::string::npos) << def->name << ": " << name;
    }
  }
  // Those that need attributes or operands of several types are not planned here.
  EXPECT_GE(planned, elementwise * 9 / 10) << planned << " of " << elementwise;
}

}  // namespace
}  // namespace opsnn::observe
