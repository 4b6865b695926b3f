// Runs tests/data/bug_cases.json: small cases that went wrong in other libraries, each with its right answer.
// A case whose operator, function or dtype does not exist yet waits: it becomes a test as soon as the
// operator table lists it.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "acl/acl.h"
#include "cases/case_data.h"

namespace opsnn::cases {
namespace {

// "waits": a shortcoming of the library that is known, in words.
std::string Missing(const Json& check) {
  if (check.contains("waits")) return check["waits"];
  return check.contains("aclnn") ? MissingForAclnn(check) : MissingForOnnx(check);
}

struct Split {
  std::vector<Case> live;            // with the checks that can run
  std::vector<std::string> waiting;  // "id: what it waits for"
};

const Split& SplitCases() {
  static const Split* split = [] {
    auto* s = new Split;
    for (const Case& c : AllCases()) {
      Case live = c;
      live.checks = Json::array();
      std::set<std::string> missing;
      for (const Json& check : c.checks) {
        for (const Json& one : Expand(check)) {
          const std::string m = Missing(one);
          if (m.empty()) {
            live.checks.push_back(one);
          } else {
            missing.insert(m);
          }
        }
      }
      if (!live.checks.empty()) s->live.push_back(live);
      if (missing.empty()) continue;
      std::string text = c.id + (live.checks.empty() ? ":" : " (in part):");
      for (const std::string& m : missing) text += " " + m;
      s->waiting.push_back(text);
    }
    return s;
  }();
  return *split;
}

class BugCase : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    aclInit(nullptr);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS); }
};

TEST_P(BugCase, GivesTheRightAnswer) {
  for (const Json& check : GetParam().checks) {
    SCOPED_TRACE(GetParam().about);
    SCOPED_TRACE(check.dump().substr(0, 400));
    if (check.contains("aclnn")) {
      RunAclnn(check);
    } else {
      RunOnnx(check);
    }
    if (HasFailure()) return;  // the others of a sweep fail alike
  }
}

INSTANTIATE_TEST_SUITE_P(All, BugCase, ::testing::ValuesIn(SplitCases().live), [](const auto& info) {
  std::string name = info.param.id;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

// The file itself: unique ids, and every case either has checks or names the test that covers it.
TEST(BugCaseFile, IsComplete) {
  std::set<std::string> ids;
  size_t elsewhere = 0;
  for (const Case& c : AllCases()) {
    EXPECT_TRUE(ids.insert(c.id).second) << c.id;
    EXPECT_FALSE(c.about.empty()) << c.id;
    EXPECT_TRUE(!c.checks.empty() || !c.elsewhere.empty()) << c.id;
    elsewhere += c.checks.empty();
  }
  const Split& s = SplitCases();
  std::printf("cases: %zu in all, %zu live here, %zu in tests of their own, %zu waiting\n", AllCases().size(),
              s.live.size(), elsewhere, s.waiting.size());
  for (const std::string& w : s.waiting) std::printf("  waiting: %s\n", w.c_str());
}

}  // namespace
}  // namespace opsnn::cases
