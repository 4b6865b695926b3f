#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "tensor/element.h"
#include "tensor/host_tensor.h"
#include "tensor/layout.h"
#include "tensor/limits.h"
#include "tensor/tensor_view.h"
#include "testing/testing.h"

namespace opsnn {
namespace {

using testing::FuzzFor;
using testing::GuardedTensor;
using testing::Rng;

TEST(Dims, InsertEraseResize) {
  Dims d{2, 3};
  d.insert(1, 7);
  EXPECT_EQ(d, (Dims{2, 7, 3}));
  d.insert(3, 9);
  d.erase(0);
  EXPECT_EQ(d, (Dims{7, 3, 9}));
  d.resize(5);
  EXPECT_EQ(d, (Dims{7, 3, 9, 1, 1}));
  EXPECT_EQ(ToString(Dims{2, kUnknownDim}), "[2,?]");
  EXPECT_EQ(ToString(Dims{}), "[]");
}

TEST(Dims, Counts) {
  EXPECT_EQ(NumElements(Dims{}), 1);
  EXPECT_EQ(NumElements(Dims{3, 0, 5}), 0);
  EXPECT_EQ(NumElements(Dims{3, kUnknownDim}), kUnknownDim);
  EXPECT_FALSE(IsKnown(Dims{3, kUnknownDim}));
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(CheckedNumElements(Dims{big, big}), std::nullopt);
  EXPECT_EQ(CheckedNumElements(Dims{big, big, 0}), std::nullopt);  // its strides would overflow
  EXPECT_EQ(CheckedNumElements(Dims{big, 0, 4}), 0);
  EXPECT_TRUE(WithinLimits(Dims{big, 0, 1 << 13}));
  EXPECT_FALSE(WithinLimits(Dims{big, 0, 1 << 14}));
  EXPECT_FALSE(WithinLimits(Dims{big + 1, kUnknownDim}));
  EXPECT_EQ(NumElements(Dims{big, big, 0}), 0);
  EXPECT_EQ(CheckedNumElements(Dims{big, 1 << 20}), int64_t{1} << 60);
  EXPECT_EQ(ContiguousStrides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
}

TEST(Dims, Broadcast) {
  EXPECT_EQ(*BroadcastDims(Dims{2, 1, 4}, Dims{3, 1}), (Dims{2, 3, 4}));
  EXPECT_EQ(*BroadcastDims(Dims{}, Dims{0, 3}), (Dims{0, 3}));
  EXPECT_EQ(*BroadcastDims(Dims{1}, Dims{0}), (Dims{0}));
  EXPECT_EQ(*BroadcastDims(Dims{kUnknownDim, 5}, Dims{7, 1}), (Dims{7, 5}));
  EXPECT_EQ(*BroadcastDims(Dims{kUnknownDim}, Dims{1}), (Dims{kUnknownDim}));
  const Status bad = BroadcastDims(Dims{2, 3}, Dims{4, 3}).status();
  EXPECT_EQ(bad.message(), "shapes [2,3] and [4,3] do not broadcast: sizes 2 and 4 meet at dimension 0");
}

TEST(Dims, Axis) {
  EXPECT_EQ(*NormalizeAxis(-1, 3), 2);
  EXPECT_EQ(*NormalizeAxis(0, 3), 0);
  EXPECT_EQ(NormalizeAxis(3, 3).status().message(), "axis 3 is out of range for rank 3; allowed: -3 to 2");
  EXPECT_FALSE(NormalizeAxis(0, 0).ok());
}

TEST(Element, RoundsToNearestEvenAndSaturates) {
  auto trip = [](DType t, double v) {
    uint64_t storage = 0;
    WriteElement(&storage, t, v);
    return ReadElement(&storage, t);
  };
  EXPECT_EQ(trip(DType::kS8, 2.5), 2);
  EXPECT_EQ(trip(DType::kS8, 3.5), 4);
  EXPECT_EQ(trip(DType::kS8, 1000), 127);
  EXPECT_EQ(trip(DType::kS8, -1000), -128);
  EXPECT_EQ(trip(DType::kU8, -3), 0);
  EXPECT_EQ(trip(DType::kU8, 255.4), 255);
  EXPECT_EQ(trip(DType::kS32, std::nan("")), 0);
  EXPECT_EQ(trip(DType::kS32, INFINITY), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(trip(DType::kBool, 0.25), 1);
  int64_t s64 = 0;
  WriteElement(&s64, DType::kS64, 1e300);
  EXPECT_EQ(s64, std::numeric_limits<int64_t>::max());
  WriteElement(&s64, DType::kS64, -1e300);
  EXPECT_EQ(s64, std::numeric_limits<int64_t>::min());
  // One rounding, not two: just above a tie of f16 that f32 would round onto the tie first.
  EXPECT_EQ(trip(DType::kF16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(trip(DType::kF16, 1 + 0x1p-11 - 0x1p-40), 1);
  EXPECT_EQ(trip(DType::kF16, 1 + 0x1p-11), 1);
  EXPECT_EQ(trip(DType::kBF16, -(1 + 0x1p-8 + 0x1p-40)), -(1 + 0x1p-7));
  EXPECT_TRUE(std::isnan(trip(DType::kBF16, std::nan(""))));
  EXPECT_TRUE(std::signbit(trip(DType::kF16, -0.0)));
}

// Every byte address that an element of the view starts at, with how many indices name it.
std::map<int64_t, int> Addresses(const TensorView& v) {
  std::map<int64_t, int> count;
  const Dims order = ContiguousStrides(v.dims);
  for (int64_t i = 0; i < v.size(); ++i) {
    int64_t offset = 0;
    for (int d = 0; d < v.rank(); ++d) offset += i / order[d] % v.dims[d] * v.strides[d];
    count[reinterpret_cast<intptr_t>(v.data) + offset * static_cast<int64_t>(SizeOf(v.dtype))]++;
  }
  return count;
}

TEST(View, OverlapAgainstEnumeration) {
  Rng rng;
  std::vector<char> memory(1 << 16);
  auto random_view = [&] {
    TensorView v{memory.data() + 4 * rng.Int(0, 60), DType::kF32, rng.Shape(0, 3, 60, true), {}};
    v.strides = Dims::Filled(v.rank(), 0);
    for (int i = 0; i < v.rank(); ++i) v.strides[i] = rng.Int(0, 12);
    return v;
  };
  for (auto _ : FuzzFor(200)) {
    const TensorView a = random_view(), b = random_view();
    const auto in_a = Addresses(a), in_b = Addresses(b);
    bool shared = false, repeated = false;
    for (const auto& [at, n] : in_a) {
      shared |= in_b.count(at) > 0;
      repeated |= n > 1;
      ASSERT_GE(at, reinterpret_cast<intptr_t>(TouchedBytes(a).begin));
      ASSERT_LE(at + 4, reinterpret_cast<intptr_t>(TouchedBytes(a).end));
    }
    EXPECT_EQ(HasInternalOverlap(a), repeated) << ToString(a.dims) << ToString(a.strides);
    EXPECT_EQ(CheckOverlap(a, b) != Overlap::kNone, shared)
        << ToString(a.dims) << ToString(a.strides) << " " << ToString(b.dims) << ToString(b.strides);
    if (a.size() > 0) {
      EXPECT_EQ(CheckOverlap(a, a), Overlap::kSame);
    }
  }
}

TEST(View, OverlapKinds) {
  float memory[64] = {};
  const TensorView a = TensorView::Contiguous(memory, DType::kF32, {4, 4});
  EXPECT_EQ(CheckOverlap(a, TensorView::Contiguous(memory + 16, DType::kF32, {4})), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(a, TensorView::Contiguous(memory + 15, DType::kF32, {4})), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(a, TensorView::Contiguous(memory, DType::kS32, {4, 4})), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(a, TensorView{memory, DType::kF32, {4, 4}, {1, 4}}), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(a, TensorView::Contiguous(memory, DType::kF32, {0, 4})), Overlap::kNone);
}

// Too large to be counted: parted by rows or by a period.
TEST(View, InterleavedViewsAreApart) {
  std::vector<float> memory(1 << 20);
  auto view = [&](Dims dims, Dims strides, int64_t offset) {
    return TensorView{memory.data() + offset, DType::kF32, dims, strides};
  };
  const TensorView left = view({512, 100}, {2000, 1}, 0);
  EXPECT_EQ(CheckOverlap(left, view({512, 100}, {2000, 1}, 100)), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(view({512, 100}, {2000, 1}, 100), left), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(left, view({512, 100}, {2000, 1}, 99)), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(left, view({200, 512}, {1, 2000}, 1800)), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(left, view({201, 512}, {1, 2000}, 1800)), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(view({512, 50}, {2000, 2}, 0), view({511, 50}, {2000, 2}, 1901)), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(view({10000}, {2}, 0), view({10000}, {2}, 1)), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(view({10000}, {2}, 0), view({10000}, {2}, 2)), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(view({10000}, {6}, 0), view({10000}, {4}, 1)), Overlap::kNone);
  EXPECT_EQ(CheckOverlap(view({10000}, {6}, 0), view({10000}, {4}, 2)), Overlap::kPartial);
  EXPECT_EQ(CheckOverlap(view({10000}, {-2}, 19998), view({10000}, {2}, 1)), Overlap::kNone);
}

TEST(View, ContiguityIgnoresSizesOfOneAndEmptyTensors) {
  EXPECT_TRUE((TensorView{nullptr, DType::kF32, {3, 1, 4}, {4, 99, 1}}.IsContiguous()));
  EXPECT_FALSE((TensorView{nullptr, DType::kF32, {3, 4}, {5, 1}}.IsContiguous()));
  EXPECT_TRUE((TensorView{nullptr, DType::kF32, {0, 4}, {5, 1}}.IsContiguous()));
  EXPECT_TRUE((TensorView{nullptr, DType::kF32, {}, {}}.IsContiguous()));
}

TEST(View, BroadcastTo) {
  float memory[3] = {1, 2, 3};
  const TensorView v = BroadcastTo(TensorView::Contiguous(memory, DType::kF32, {3, 1}), {2, 3, 4});
  EXPECT_EQ(v.strides, (Dims{0, 1, 0}));
  EXPECT_TRUE(HasInternalOverlap(v));
}

TEST(Layout, StoredDims) {
  const Dims nchw{8, 3, 224, 224};
  EXPECT_EQ(StoredDims(nchw, {Format::kNC1HWC0, 16}), (Dims{8, 1, 224, 224, 16}));
  EXPECT_EQ(StoredDims({2, 20, 3, 5}, {Format::kNC1HWC0, 16}), (Dims{2, 2, 3, 5, 16}));
  EXPECT_EQ(StoredDims({2, kUnknownDim, 3, 5}, {Format::kNC1HWC0, 32}), (Dims{2, kUnknownDim, 3, 5, 32}));
  EXPECT_EQ(StoredDims(nchw, {Format::kNHWC, 0}), (Dims{8, 224, 224, 3}));
  EXPECT_EQ(StoredDims({5, 6}, {Format::kND, 0}), (Dims{5, 6}));
  EXPECT_EQ(StoredElements({2, 20, 3, 5}, {Format::kNC1HWC0, 16}), 2 * 2 * 3 * 5 * 16);
  EXPECT_EQ(HostC0(DType::kF32), 16);
  EXPECT_EQ(HostC0(DType::kBF16), 16);
  EXPECT_EQ(HostC0(DType::kU8), 32);
  EXPECT_EQ(ToString(BlockedLayout(DType::kF32)), "NC1HWC0:16");
}

TEST(HostTensor, Values) {
  const ConstTensor t = HostTensor::From<int64_t>({2}, {(int64_t{1} << 53) + 1, -1});
  EXPECT_EQ(ToInts(*t), (std::vector<int64_t>{(int64_t{1} << 53) + 1, -1}));
  EXPECT_EQ(ToDoubles(*HostTensor::From<float>({3}, {1, 2.5, -3})), (std::vector<double>{1, 2.5, -3}));
  EXPECT_EQ(HostTensor::From<float>({0, 3}, {})->size(), 0);
}

TEST(Testing, GuardsCatchStrayWrites) {
  Rng rng;
  for (auto _ : FuzzFor(50)) {
    const Dims dims = rng.Shape(0, 4, 200, true);
    GuardedTensor g(static_cast<DType>(rng.Int(0, kNumDTypes - 1)), dims, &rng, true);
    g.FillRandom(rng);
    ASSERT_TRUE(g.GuardsIntact());
    std::vector<double> values(static_cast<size_t>(NumElements(dims)));
    for (double& v : values) v = static_cast<double>(rng.Int(0, 1));
    g.Set(values);
    ASSERT_EQ(g.Get(), values);
    ASSERT_TRUE(g.GuardsIntact());
    *const_cast<char*>(TouchedBytes(g.view()).end) = 1;
    ASSERT_FALSE(g.GuardsIntact());
  }
}

TEST(Testing, Compare) {
  const double nan = std::nan(""), inf = INFINITY;
  EXPECT_EQ(testing::Compare({1, nan, inf}, {1, nan, inf}, 0, 0), "");
  EXPECT_NE(testing::Compare({nan}, {1}, 10, 10), "");
  EXPECT_NE(testing::Compare({inf}, {-inf}, 10, 10), "");
  EXPECT_NE(testing::Compare({1}, {inf}, 10, 10), "");
  EXPECT_EQ(testing::Compare({1.5}, {1}, 0.5, 0), "");
  EXPECT_EQ(testing::Compare({1, 3}, {1, 2}, 0.5, 0), "element 1 of 2: got 3, want 2, error 1, allowed 0.5");
  EXPECT_NE(testing::Compare({1}, {1, 2}, 1, 1), "");
}

TEST(Testing, FuzzForRunsAtLeastOnce) {
  int runs = 0;
  for (auto _ : FuzzFor(0)) ++runs;
  EXPECT_GE(runs, 1);
}

}  // namespace
}  // namespace opsnn
