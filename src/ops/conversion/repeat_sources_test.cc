#include "op/op_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;

Status Sources(const GuardedTensor& repeats, int64_t sources, int64_t total, std::vector<double>* y) {
  OpTester call("RepeatSources");
  call.In(repeats).Attr("sources", sources).Attr("total", total);
  Status s = call.Run();
  if (s.ok()) *y = call.Out().Get();
  return s;
}

TEST(RepeatSources, EachFillsItsPlaces) {
  testing::Rng rng;
  for (int round = 0; round < 60; ++round) {
    const int64_t sources = rng.Int(0, 40);
    const bool one = round % 4 == 3;
    GuardedTensor repeats(round % 2 ? DType::kS32 : DType::kS64, {one ? 1 : sources}, &rng, round % 3 == 1);
    repeats.FillRandom(rng, 0, 4);
    const auto counts = repeats.Get();
    std::vector<double> want, got;
    for (int64_t i = 0; i < sources; ++i)
      want.insert(want.end(), static_cast<size_t>(counts[one ? 0 : static_cast<size_t>(i)]),
                  static_cast<double>(i));
    const Status s = Sources(repeats, sources, static_cast<int64_t>(want.size()), &got);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(got, want);
  }
}

TEST(RepeatSources, WrongCountsAreTold) {
  std::vector<double> y;
  GuardedTensor repeats(DType::kS64, {3});
  repeats.Set({1, 0, 2});
  EXPECT_EQ(Sources(repeats, 3, 4, &y).message(),
            "RepeatSources: repeats add up to 3; allowed: 4, as many as the result has room for");
  EXPECT_EQ(Sources(repeats, 3, 2, &y).message(),
            "RepeatSources: repeats add up to 3; allowed: 2, as many as the result has room for");
  repeats.Set({4, -1, 0});
  EXPECT_EQ(Sources(repeats, 3, 3, &y).message(), "RepeatSources: repeats has -1 at 1; allowed: 0 or more");
  repeats.Set({0x1p62, 0x1p62, 1});
  EXPECT_EQ(Sources(repeats, 3, 3, &y).message(), "RepeatSources: repeats add up to more than 64 bits hold");
  EXPECT_EQ(Sources(repeats, 4, 3, &y).message(),
            "RepeatSources: input repeats has shape [3]; allowed: [1] or [4]");
}

}  // namespace
}  // namespace opsnn::op
