#include "kernels/conv/candidates.h"

#include <gtest/gtest.h>

#include "base/int_math.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

ConvShape Square(int64_t c, int64_t size, int64_t oc, int64_t k) {
  ConvShape s;
  s.c = c, s.h = s.w = s.oh = s.ow = size, s.oc = oc, s.kh = s.kw = k, s.pt = s.pl = k / 2;
  return s;
}

const Candidate& Running(const std::vector<Candidate>& all) {
  static const Candidate none;
  const Candidate* found = nullptr;
  for (const Candidate& c : all) {
    if (!c.refused.empty()) continue;
    EXPECT_EQ(found, nullptr) << c.name;
    found = &c;
  }
  EXPECT_NE(found, nullptr);
  return found ? *found : none;
}

// What Candidates says is what PlanConv does, for any shape.
TEST(Candidates, AgreeWithThePlan) {
  Rng rng;
  for (auto _ : testing::FuzzFor(300)) {
    ConvShape s = Square(rng.Int(1, 40), rng.Int(3, 20), rng.Int(1, 40), rng.Chance(0.5) ? 3 : 1);
    s.n = rng.Int(1, 3);
    if (rng.Chance(0.3)) s.groups = 2, s.c *= 2, s.oc *= 2;
    if (rng.Chance(0.2)) s.groups = s.oc = s.c;
    if (rng.Chance(0.2)) s.transposed = true;
    s.x_blocked = rng.Chance(0.5);
    if (rng.Chance(0.5)) s.winograd = rng.Chance(0.5) ? 2 : 4;
    s.im2col = rng.Chance(0.2);
    const ConvPlan plan = PlanConv(s);
    const std::vector<Candidate> all = Candidates(s);
    const Candidate& runs = Running(all);
    EXPECT_EQ(runs.name.rfind(Name(plan.variant), 0), 0u) << runs.name << " " << plan.Describe();
    EXPECT_GT(runs.multiply_adds, 0);
    EXPECT_EQ(all.back().refused.empty(), plan.variant == Variant::kIm2col);
    const int64_t blocks = RoundUp(s.c * s.taps(), int64_t{kC0}), columns = s.n * s.plane() * 4;
    EXPECT_EQ(all.back().buffer_bytes, s.transposed    ? s.oc * s.taps() * columns
                                       : s.groups == 1 ? blocks * columns
                                                       : s.c * s.taps() * columns);
    if (plan.product) {
      EXPECT_GE(plan.workspace_bytes, static_cast<size_t>(all.back().buffer_bytes));
    }
  }
}

TEST(Candidates, ReasonsNameWhatDecides) {
  ConvShape s = Square(64, 56, 64, 3);
  const auto reason = [&](const char* name) {
    for (const Candidate& c : Candidates(s))
      if (c.name.rfind(name, 0) == 0) return c.refused;
    return std::string("missing");
  };
  EXPECT_NE(reason("winograd, tiles of 4x4").find("is not accepted"), std::string::npos);
  EXPECT_EQ(reason("direct"), "");
  EXPECT_NE(reason("im2col").find("6.89 MiB of columns, 9.0 times"), std::string::npos) << reason("im2col");
  s.winograd = 4;
  EXPECT_EQ(reason("winograd, tiles of 4x4"), "");
  EXPECT_EQ(reason("winograd, tiles of 2x2"), "tiles of 4x4 were asked for");
  EXPECT_EQ(reason("direct"), "not needed: winograd, tiles of 4x4 outputs comes first");
  s.sh = s.sw = 2, s.oh = s.ow = 28;
  EXPECT_EQ(reason("winograd, tiles of 4x4"), "stride above 1");
}

TEST(Candidates, PaddingOfBlocks) {
  const BlockPadding none = PaddingOfBlocks(Square(32, 8, 64, 1));
  EXPECT_EQ(none.in_channels + none.out_channels + none.bytes, 0);
  EXPECT_EQ(none.hint, "");
  const BlockPadding some = PaddingOfBlocks(Square(20, 8, 17, 1));
  EXPECT_EQ(some.in_channels, 12);
  EXPECT_EQ(some.out_channels, 15);
  EXPECT_EQ(some.bytes, (12 + 15) * 64 * 4);
  EXPECT_DOUBLE_EQ(some.products, 15.0 / 32);
  EXPECT_NE(some.hint.find("15 of 32 output channels"), std::string::npos) << some.hint;
  ConvShape first = Square(3, 8, 16, 3);
  first.x_blocked = false;
  EXPECT_EQ(PaddingOfBlocks(first).in_channels, 0);  // read as it is
}

}  // namespace
}  // namespace opsnn::conv
