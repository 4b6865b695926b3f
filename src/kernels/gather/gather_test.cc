#include "kernels/gather/gather.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/stream_row.h"
#include "testing/testing.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kGuard = 32;

std::vector<uint8_t> RandomBytes(testing::Rng& rng, int64_t n) {
  std::vector<uint8_t> bytes(n);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Int(0, 255));
  return bytes;
}

// Indices in both widths, so that tests can use either.
struct TestIndices {
  std::vector<int64_t> wide;
  std::vector<int32_t> narrow;
  IndexArray Get(bool is_s64) const {
    const int64_t count = static_cast<int64_t>(wide.size());
    return {is_s64 ? static_cast<const void*>(wide.data()) : narrow.data(), is_s64, count};
  }
  void Add(int64_t i) {
    wide.push_back(i);
    narrow.push_back(static_cast<int32_t>(i));
  }
};

TEST(GatherTest, RandomRows) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(300)) {
    const int64_t outer = rng.Int(0, 5), axis = rng.Int(1, 40), inner = rng.Size(200, true);
    TestIndices idx;
    for (int64_t n = rng.Int(0, 30); n > 0; --n) idx.Add(rng.Int(-axis, axis - 1));
    const int64_t count = static_cast<int64_t>(idx.wide.size());
    const auto src = RandomBytes(rng, outer * axis * inner + 1);
    std::vector<uint8_t> got(outer * count * inner + 2 * kGuard, 0xA5), want = got;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t row = idx.wide[j] < 0 ? idx.wide[j] + axis : idx.wide[j];
        for (int64_t b = 0; b < inner; ++b) {
          want[kGuard + (o * count + j) * inner + b] = src[(o * axis + row) * inner + b];
        }
      }
    }
    ASSERT_TRUE(Gather({outer, axis, inner, idx.Get(rng.Chance(0.5)), src.data(), &got[kGuard]}).ok());
    ASSERT_EQ(got, want);
  }
}

// Rows that are streamed: heads and tails of any length, on two threads.
TEST(GatherTest, RowsPastTheCaches) {
  testing::Rng rng;
  SetNumThreads(2);
  const int64_t axis = 37, inner = rng.Int(kLeastStreamedRow, 3000);
  const int64_t count = vector::StreamingThreshold() / inner + 3, offset = rng.Int(0, 70);
  const auto src = RandomBytes(rng, axis * inner);
  TestIndices idx;
  for (int64_t i = 0; i < count; ++i) idx.Add(rng.Int(-axis, axis - 1));
  std::vector<uint8_t> got(static_cast<size_t>(count * inner + offset + kGuard), 0xA5);
  ASSERT_TRUE(Gather({1, axis, inner, idx.Get(true), src.data(), &got[static_cast<size_t>(offset)]}).ok());
  SetNumThreads(0);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t row = (idx.wide[static_cast<size_t>(j)] + axis) % axis;
    ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(offset + j * inner)],
                          &src[static_cast<size_t>(row * inner)], static_cast<size_t>(inner)),
              0)
        << "row " << j << ", rows of " << inner;
  }
  for (int64_t i = 0; i < offset; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], 0xA5);
  for (size_t i = got.size() - kGuard; i < got.size(); ++i) ASSERT_EQ(got[i], 0xA5);
}

TEST(GatherTest, LargeInTasks) {
  testing::Rng rng;
  SetNumThreads(3);
  const int64_t axis = 1000, inner = 300;
  const auto src = RandomBytes(rng, 2 * axis * inner);
  TestIndices idx;
  for (int i = 0; i < 3000; ++i) idx.Add(rng.Int(-axis, axis - 1));
  std::vector<uint8_t> got(2 * 3000 * inner);
  ASSERT_TRUE(Gather({2, axis, inner, idx.Get(true), src.data(), got.data()}).ok());
  for (int64_t r = 0; r < 6000; ++r) {
    const int64_t row = (idx.wide[r % 3000] + axis) % axis + r / 3000 * axis;
    ASSERT_EQ(std::memcmp(&got[r * inner], &src[row * inner], inner), 0) << r;
  }
  SetNumThreads(0);
}

TEST(GatherTest, IndexOutsideWritesNothingAndSaysWhere) {
  const std::vector<float> src = {1, 2, 3, 4, 5};
  for (const bool is_s64 : {true, false}) {
    std::vector<float> dst(4, 9);
    TestIndices idx;
    for (const int64_t i : {0, -5, 4, -6}) idx.Add(i);
    const Status s = Gather({1, 5, 4, idx.Get(is_s64), src.data(), dst.data()});
    EXPECT_EQ(s.code(), Code::kInvalid);
    EXPECT_EQ(s.message(), "index -6 at position 3 is outside [-5, 4]");
    EXPECT_EQ(dst, std::vector<float>(4, 9));
  }
  TestIndices one;
  one.Add(0);
  EXPECT_EQ(Gather({1, 0, 4, one.Get(true), nullptr, nullptr}).message(),
            "index 0 at position 0 points into an empty dimension");
}

TEST(GatherElementsTest, RandomShapes) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(300)) {
    const Dims src_dims = rng.Shape(1, 5, 2000);
    const int axis = static_cast<int>(rng.Int(0, src_dims.rank() - 1));
    Dims dims = src_dims;
    for (int i = 0; i < dims.rank(); ++i) dims[i] = i == axis ? rng.Int(0, 20) : rng.Int(0, dims[i]);
    TestIndices idx;
    const int64_t count = NumElements(dims);
    for (int64_t i = 0; i < count; ++i) idx.Add(rng.Int(-src_dims[axis], src_dims[axis] - 1));
    std::vector<int32_t> src(NumElements(src_dims)), got(count + 2, -1), want(count + 2, -1);
    for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<int32_t>(i * 7 + 1);
    const Dims strides = ContiguousStrides(src_dims);
    for (int64_t e = 0; e < count; ++e) {
      int64_t at = 0, rest = e;
      for (int i = dims.rank() - 1; i >= 0; --i) {
        const int64_t index = i == axis ? (idx.wide[e] + src_dims[axis]) % src_dims[axis] : rest % dims[i];
        at += index * strides[i];
        rest /= dims[i];
      }
      want[e + 1] = src[at];
    }
    ASSERT_TRUE(
        GatherElements({4, axis, src_dims, dims, idx.Get(rng.Chance(0.5)), src.data(), got.data() + 1}).ok());
    ASSERT_EQ(got, want) << ToString(src_dims) << " " << ToString(dims) << " axis " << axis;
  }
}

TEST(GatherNdTest, SlicesAndBatches) {
  std::vector<int32_t> src(2 * 3 * 4 * 5);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<int32_t>(i);
  TestIndices idx;  // two batches, two tuples of two indices into (3, 4)
  for (const int64_t i : {0, 1, -1, -1, 2, 0, 1, 3}) idx.Add(i);
  const SliceIndexParams p = {2, 2, 5 * 4, {3, 4}, idx.Get(true)};
  std::vector<int32_t> got(4 * 5);
  ASSERT_TRUE(GatherNd(p, src.data(), got.data()).ok());
  const int64_t rows[] = {1, 11, 12 + 8, 12 + 7};
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(got[r * 5 + i], rows[r] * 5 + i);
  }
  std::vector<int32_t> back(src.size(), -1);
  ASSERT_TRUE(ScatterNd(p, got.data(), back.data()).ok());
  for (size_t i = 0; i < src.size(); ++i) {
    const bool written =
        std::find(std::begin(rows), std::end(rows), static_cast<int64_t>(i / 5)) != std::end(rows);
    EXPECT_EQ(back[i], written ? src[i] : -1) << i;
  }
}

TEST(GatherNdTest, BoundsOfEveryPlaceInATuple) {
  TestIndices idx;
  for (const int64_t i : {2, 3, 0, 4}) idx.Add(i);
  std::vector<int32_t> src(12), dst(2, 9);
  const Status s = GatherNd({1, 2, 4, {3, 4}, idx.Get(false)}, src.data(), dst.data());
  EXPECT_EQ(s.message(), "index 4 at position 3 is outside [-4, 3]");
  EXPECT_EQ(dst, std::vector<int32_t>(2, 9));
}

TEST(ScatterNdTest, LastOfEqualTuplesStays) {
  TestIndices idx;
  for (const int64_t i : {1, 1}) idx.Add(i);
  const std::vector<int32_t> updates = {5, 6};
  std::vector<int32_t> dst(3, 0);
  ASSERT_TRUE(ScatterNd({1, 2, 4, {3}, idx.Get(true)}, updates.data(), dst.data()).ok());
  EXPECT_EQ(dst, (std::vector<int32_t>{0, 6, 0}));
}

}  // namespace
}  // namespace opsnn::kernels
