#include "op/op_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;

TEST(PairedMasks, PositionsGoTogetherInOrder) {
  testing::Rng rng;
  for (int round = 0; round < 60; ++round) {
    const Dims a = rng.Shape(1, 2, 30), b = rng.Shape(1, 2, 30);
    GuardedTensor x(DType::kBool, a, &rng, round % 3 == 1),
        z(round % 2 ? DType::kU8 : DType::kBool, b, &rng, round % 3 == 2);
    x.FillRandom(rng, 0, 1), z.FillRandom(rng, 0, 1);
    const auto named = [](const GuardedTensor& m) {
      std::vector<size_t> at;
      const auto v = m.Get();
      for (size_t i = 0; i < v.size(); ++i)
        if (v[i] != 0) at.push_back(i);
      return at;
    };
    const auto p = named(x), q = named(z);
    OpTester call("PairedMasks");
    call.In(x).In(z);
    const Status s = call.Run();
    if (p.size() != q.size() && p.size() != 1 && q.size() != 1) {
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.message(), "PairedMasks: the masks name " + std::to_string(p.size()) + ", " +
                                 std::to_string(q.size()) + " elements; allowed: as many each, or one");
      continue;
    }
    ASSERT_TRUE(s.ok()) << s.message();
    const auto columns = static_cast<size_t>(NumElements(b));
    std::vector<double> want(static_cast<size_t>(NumElements(a)) * columns);
    const size_t count = p.size() == 1 ? q.size() : p.size();
    for (size_t k = 0; k < count; ++k)
      want[p[p.size() == 1 ? 0 : k] * columns + q[q.size() == 1 ? 0 : k]] = 1;
    EXPECT_EQ(call.Out().Get(), want);
  }
}

TEST(PairedMasks, NoMoreDimsThanATensorHas) {
  GuardedTensor x(DType::kBool, {1, 1, 1, 1, 1});
  OpTester call("PairedMasks");
  call.In(x).In(x);
  EXPECT_FALSE(call.Run().ok());
}

}  // namespace
}  // namespace opsnn::op
