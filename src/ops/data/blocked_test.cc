// Data operators on channel-blocked images: the same call on logical tensors, converted before and after, is
// the reference. Channels that exist only because blocks are whole start as NaN and must not matter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "op/op_tester.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;
using testing::Rng;

Layout Blocked(int c0) { return {Format::kNC1HWC0, c0}; }

// Stored position of logical element (n, c, h, w).
int64_t At(const Dims& d, int64_t c0, int64_t n, int64_t c, int64_t h, int64_t w) {
  const int64_t c1 = (d[1] + c0 - 1) / c0;
  return (((n * c1 + c / c0) * d[2] + h) * d[3] + w) * c0 + c % c0;
}

std::vector<double> ToBlocks(const std::vector<double>& x, const Dims& d, int c0, double padding) {
  std::vector<double> y(StoredElements(d, Blocked(c0)), padding);
  size_t i = 0;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t c = 0; c < d[1]; ++c)
      for (int64_t h = 0; h < d[2]; ++h)
        for (int64_t w = 0; w < d[3]; ++w) y[At(d, c0, n, c, h, w)] = x[i++];
  return y;
}

std::vector<double> FromBlocks(const std::vector<double>& y, const Dims& d, int c0) {
  std::vector<double> x;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t c = 0; c < d[1]; ++c)
      for (int64_t h = 0; h < d[2]; ++h)
        for (int64_t w = 0; w < d[3]; ++w) x.push_back(y[At(d, c0, n, c, h, w)]);
  return x;
}

struct Image {
  Dims dims;
  std::vector<double> values;
  GuardedTensor logical, blocked;
  Image(Rng& rng, const Dims& d, int c0)
      : dims(d), logical(DType::kF32, d), blocked(DType::kF32, StoredDims(d, Blocked(c0))) {
    logical.FillRandom(rng);
    values = logical.Get();
    blocked.Set(ToBlocks(values, d, c0, std::numeric_limits<double>::quiet_NaN()));
  }
};

ConstTensor Ints(const std::vector<int64_t>& v) {
  return HostTensor::From<int64_t>({static_cast<int64_t>(v.size())}, v);
}

TEST(BlockedTest, Concat) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int c0 = rng.Chance(0.7) ? 16 : 8, axis = static_cast<int>(rng.Int(0, 3));
    const Dims base = {rng.Int(1, 2), rng.Int(1, 40), rng.Int(1, 5), rng.Int(1, 5)};
    std::vector<Image> images;
    for (int64_t k = rng.Int(1, 4); k > 0; --k) {
      Dims d = base;
      d[axis] = axis == 1 && rng.Chance(0.5) ? 16 * rng.Int(1, 3) : rng.Int(1, 40);
      images.emplace_back(rng, d, c0);
    }
    OpTester plain("Concat"), blocked("Concat");
    for (const Image& m : images) plain.In(m.logical), blocked.In(m.blocked, m.dims, Blocked(c0));
    plain.Attr("axis", int64_t{axis});
    blocked.Attr("axis", int64_t{axis}).OutLayout(0, Blocked(c0));
    ASSERT_TRUE(plain.Run().ok() && blocked.Run().ok()) << blocked.status().message();
    ASSERT_EQ(FromBlocks(blocked.Out().Get(), blocked.OutDesc().dims, c0), plain.Out().Get()) << axis;
  }
}

// Several images of several steps, shared among threads; channel counts of a text detector's feature pyramid.
TEST(BlockedTest, ConcatInTasks) {
  Rng rng;
  SetNumThreads(3);
  std::vector<Image> images;
  for (int i = 0; i < 4; ++i) images.emplace_back(rng, Dims{2, 24, 37, 41}, 16);
  OpTester plain("Concat"), blocked("Concat");
  for (const Image& m : images) plain.In(m.logical), blocked.In(m.blocked, m.dims, Blocked(16));
  plain.Attr("axis", int64_t{1});
  blocked.Attr("axis", int64_t{1}).OutLayout(0, Blocked(16));
  ASSERT_TRUE(plain.Run().ok() && blocked.Run().ok()) << blocked.status().message();
  EXPECT_EQ(FromBlocks(blocked.Out().Get(), blocked.OutDesc().dims, 16), plain.Out().Get());
  SetNumThreads(0);
}

TEST(BlockedTest, SliceAndSplit) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int c0 = 16;
    const Image x(rng, {rng.Int(1, 3), rng.Int(1, 70), rng.Int(1, 6), rng.Int(1, 6)}, c0);
    std::vector<int64_t> axes, starts, ends, steps;
    for (int i = 0; i < 4; ++i) {
      if (rng.Chance(0.5)) continue;
      axes.push_back(i);
      starts.push_back(rng.Int(-1, x.dims[i]));
      ends.push_back(rng.Int(-1, x.dims[i]));
      steps.push_back(rng.Chance(0.6) ? 1 : rng.Chance(0.5) ? -1 : 2);
    }
    OpTester plain("Slice"), blocked("Slice");
    plain.In(x.logical).In(Ints(starts)).In(Ints(ends)).In(Ints(axes)).In(Ints(steps));
    blocked.In(x.blocked, x.dims, Blocked(c0)).In(Ints(starts)).In(Ints(ends)).In(Ints(axes)).In(Ints(steps));
    blocked.OutLayout(0, Blocked(c0));
    ASSERT_TRUE(plain.Run().ok() && blocked.Run().ok()) << blocked.status().message();
    ASSERT_EQ(FromBlocks(blocked.Out().Get(), blocked.OutDesc().dims, c0), plain.Out().Get());

    const int axis = static_cast<int>(rng.Int(0, 3));
    const int64_t cut = rng.Int(0, x.dims[axis]);
    OpTester plain_split("Split"), blocked_split("Split");
    plain_split.In(x.logical).In(Ints({cut, x.dims[axis] - cut})).Outputs(2).Attr("axis", int64_t{axis});
    blocked_split.In(x.blocked, x.dims, Blocked(c0)).In(Ints({cut, x.dims[axis] - cut})).Outputs(2);
    blocked_split.Attr("axis", int64_t{axis}).OutLayout(0, Blocked(c0)).OutLayout(1, Blocked(c0));
    ASSERT_TRUE(plain_split.Run().ok() && blocked_split.Run().ok()) << blocked_split.status().message();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(FromBlocks(blocked_split.Out(i).Get(), blocked_split.OutDesc(i).dims, c0),
                plain_split.Out(i).Get());
    }
  }
}

TEST(BlockedTest, TransDataThereAndBack) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const int c0 = rng.Chance(0.5) ? 16 : 32;
    const Image x(rng, {rng.Int(1, 2), rng.Int(1, 50), rng.Int(1, 7), rng.Int(1, 7)}, c0);
    OpTester there("TransData"), back("TransData");
    there.In(x.logical).OutLayout(0, Blocked(c0));
    ASSERT_TRUE(there.Run().ok()) << there.status().message();
    ASSERT_EQ(there.Out().Get(), ToBlocks(x.values, x.dims, c0, 0));
    back.In(x.blocked, x.dims, Blocked(c0)).OutDType(0, DType::kF64);
    ASSERT_TRUE(back.Run().ok()) << back.status().message();
    ASSERT_EQ(back.Out().Get(), x.values);
  }
}

}  // namespace
}  // namespace opsnn::ops
