#include "kernels/transpose/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "isa/tier.h"
#include "kernels/transpose/tile.h"
#include "testing/testing.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

constexpr uint8_t kGuard = 0xA5;

// Memory in which every byte outside the written elements must keep its value.
struct Arena {
  std::vector<uint8_t> bytes;
  int64_t origin = 0;  // byte offset of element (0, ..., 0)
};

// Room for a tensor with these strides (of any sign), filled by `fill`.
template <typename Fill>
Arena MakeArena(int elem_bytes, const Dims& dims, const Dims& strides, int64_t misalign, Fill fill) {
  int64_t lo = 0, hi = 0;
  for (int i = 0; i < dims.rank(); ++i) {
    const int64_t reach = (dims[i] - 1) * strides[i];
    (reach < 0 ? lo : hi) += reach;
  }
  constexpr int64_t kMargin = 128;
  Arena a;
  a.origin = kMargin + misalign - lo * elem_bytes;
  a.bytes.resize(a.origin + (hi + 1) * elem_bytes + 2 * kMargin);
  for (uint8_t& b : a.bytes) b = fill();
  return a;
}

// The slow way: one element after the other, index by index.
template <typename Fn>
void ForEachIndex(const Dims& dims, Fn fn) {
  if (NumElements(dims) == 0) return;
  std::vector<int64_t> index(dims.rank(), 0);
  for (;;) {
    fn(index);
    int k = dims.rank() - 1;
    while (k >= 0 && ++index[k] == dims[k]) index[k--] = 0;
    if (k < 0) return;
  }
}

int64_t Offset(const std::vector<int64_t>& index, const Dims& strides) {
  int64_t at = 0;
  for (int i = 0; i < strides.rank(); ++i) at += index[i] * strides[i];
  return at;
}

void Check(testing::Rng& rng, int elem_bytes, const Dims& dims, const Dims& src_strides,
           const Dims& dst_strides) {
  if (NumElements(dims) == 0)
    return CopyPlan(elem_bytes, dims, src_strides, dst_strides).Run(nullptr, nullptr);
  const int64_t misalign = rng.Chance(0.5) ? 0 : rng.Int(0, 63);
  uint64_t state = rng.engine()();  // a congruential sequence: cheap enough for megabytes
  Arena src = MakeArena(elem_bytes, dims, src_strides, misalign, [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint8_t>(state >> 56);
  });
  Arena got =
      MakeArena(elem_bytes, dims, dst_strides, rng.Chance(0.5) ? 0 : rng.Int(0, 63), [] { return kGuard; });
  if (rng.Chance(0.5)) {  // a line begins with the result
    constexpr uintptr_t kLine = 64;
    const auto at = reinterpret_cast<uintptr_t>(&got.bytes[got.origin]);
    got.origin += static_cast<int64_t>((kLine - at % kLine) % kLine);
  }
  Arena want = got;
  ForEachIndex(dims, [&](const std::vector<int64_t>& i) {
    std::memcpy(&want.bytes[want.origin + Offset(i, dst_strides) * elem_bytes],
                &src.bytes[src.origin + Offset(i, src_strides) * elem_bytes], elem_bytes);
  });
  const CopyPlan plan(elem_bytes, dims, src_strides, dst_strides);
  plan.Run(&src.bytes[src.origin], &got.bytes[got.origin]);
  ASSERT_EQ(got.bytes, want.bytes) << plan.variant() << " " << elem_bytes << " bytes, dims " << ToString(dims)
                                   << ", strides " << ToString(src_strides) << " -> "
                                   << ToString(dst_strides);
}

Dims RandomPermutation(testing::Rng& rng, int rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), rng.engine());
  return Dims(std::span<const int64_t>(perm));
}

// Strides of a tensor stored in the axis order `order` (outermost first) with random gaps.
Dims StridesFor(testing::Rng& rng, const Dims& dims, const Dims& order, bool gaps) {
  Dims strides = dims;
  int64_t step = gaps && rng.Chance(0.3) ? rng.Int(1, 3) : 1;
  for (int k = dims.rank() - 1; k >= 0; --k) {
    const int axis = static_cast<int>(order[k]);
    strides[axis] = step;
    step *= std::max<int64_t>(dims[axis], 1);
    if (gaps && rng.Chance(0.3)) step += rng.Int(0, 5);
  }
  return strides;
}

int ElemBytes(testing::Rng& rng) { return 1 << rng.Int(0, 3); }

TEST(CopyPlanTest, RandomStrides) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(700)) {
    const Dims dims = rng.Shape(0, 8, 4000, true);
    Dims src = StridesFor(rng, dims, RandomPermutation(rng, dims.rank()), true);
    const Dims dst = StridesFor(rng, dims, RandomPermutation(rng, dims.rank()), true);
    for (int64_t& s : src) {
      if (rng.Chance(0.1)) s = 0;
      if (rng.Chance(0.1)) s = -s;
    }
    Check(rng, ElemBytes(rng), dims, src, dst);
    if (HasFatalFailure()) return;
  }
}

TEST(CopyPlanTest, DensePermutations) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(500)) {
    const Dims dims = rng.Shape(1, 6, 20000, true);
    Dims order = dims;
    for (int i = 0; i < dims.rank(); ++i) order[i] = i;
    Check(rng, ElemBytes(rng), dims, StridesFor(rng, dims, RandomPermutation(rng, dims.rank()), false),
          StridesFor(rng, dims, order, false));
    if (HasFatalFailure()) return;
  }
}

// Two-dimensional transposes around every tile and panel edge, on every tier.
TEST(CopyPlanTest, EveryTileEdgeOnEveryTier) {
  testing::Rng rng;
  const isa::Tier saved = isa::ActiveTier();
  for (int t = 0; t <= static_cast<int>(saved); ++t) {
    isa::SetMaxTier(static_cast<isa::Tier>(t));
    for (const int elem_bytes : {1, 2, 4, 8}) {
      for (auto _ : testing::FuzzFor(60)) {
        const int64_t rows = rng.Int(1, 150), cols = rng.Chance(0.3) ? rng.Int(1, 4) : rng.Int(1, 70);
        const bool tall = rng.Chance(0.5);
        const Dims dims = tall ? Dims{cols, rows} : Dims{rows, cols};
        const int64_t src_gap = rng.Chance(0.5) ? 0 : rng.Int(0, 9),
                      dst_gap = rng.Chance(0.5) ? 0 : rng.Int(0, 9);
        Check(rng, elem_bytes, dims, {1, dims[0] + src_gap}, {dims[1] + dst_gap, 1});
        if (HasFatalFailure()) return isa::SetMaxTier(saved);
      }
    }
  }
  isa::SetMaxTier(saved);
}

// Large enough to be cut into tasks in each of the ways Run knows, and to be streamed.
TEST(CopyPlanTest, LargeCopiesInTasks) {
  testing::Rng rng;
  SetNumThreads(3);
  const Dims shapes[] = {{1031, 517},    {40, 33, 515},   {3, 700, 257},
                         {1, 2'000'003}, {5, 61, 63, 37}, {2, 300'001}};
  for (const Dims& dims : shapes) {
    for (const int elem_bytes : {1, 4, 8}) {
      Dims order = dims, reversed = dims;
      for (int i = 0; i < dims.rank(); ++i) order[i] = i, reversed[i] = dims.rank() - 1 - i;
      const Dims dst = StridesFor(rng, dims, order, false);
      Check(rng, elem_bytes, dims, StridesFor(rng, dims, reversed, false), dst);
      Check(rng, elem_bytes, dims, StridesFor(rng, dims, order, true), dst);
    }
  }
  SetNumThreads(0);
}

// All forms of blocks, of many panels, two and one, rows and columns that fill no line, for every size and
// tier.
TEST(CopyPlanTest, StreamedTransposesOfAnyShape) {
  testing::Rng rng;
  const isa::Tier saved = isa::ActiveTier();
  for (int tier = 0; tier < isa::kNumTiers; ++tier) {
    isa::SetMaxTier(static_cast<isa::Tier>(tier));
    for (const int64_t size : {1, 2, 4, 8}) {
      for (int round = 0; round < 40; ++round) {
        constexpr int64_t kLine = 64;
        const int64_t panel = kLine / size,
                      rows = rng.Chance(0.3) ? rng.Int(1, 400) : panel * rng.Int(0, 5) + rng.Int(1, panel),
                      cols = rng.Int(1, 4 * panel), to_stride = (rows * size / kLine + 2) * kLine,
                      from_stride = cols * size + (rng.Chance(0.4) ? 0 : rng.Int(0, 70));
        std::vector<uint8_t> src(static_cast<size_t>(rows * from_stride)),
            dst(static_cast<size_t>(cols * to_stride + kLine), kGuard);
        for (uint8_t& b : src) b = static_cast<uint8_t>(rng.Int(0, 255));
        uint8_t* const to = dst.data() + (kLine - reinterpret_cast<uintptr_t>(dst.data()) % kLine) % kLine;
        std::vector<uint8_t> want(static_cast<size_t>(cols * to_stride), kGuard);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c)
            std::memcpy(&want[static_cast<size_t>(c * to_stride + r * size)],
                        &src[static_cast<size_t>(r * from_stride + c * size)], static_cast<size_t>(size));
        }
        using Blocks = Transpose2DParams::Blocks;
        constexpr Blocks kForms[] = {Blocks::kSmall, Blocks::kTall, Blocks::kStrips};
        const Blocks blocks = kForms[rng.Int(0, 2)];
        Transpose2D(
            {static_cast<int>(size), rows, cols, src.data(), from_stride, to, to_stride, true, blocks});
        ASSERT_EQ(std::memcmp(to, want.data(), want.size()), 0)
            << size << " bytes, " << rows << " x " << cols << ", " << isa::Name(isa::ActiveTier());
      }
    }
  }
  isa::SetMaxTier(saved);
}

// Any permutation as a part of a result that is written past the caches: in the order of the source, by lines
// where they are whole.
TEST(CopyPlanTest, PermutationsPastTheCachesOnEveryTier) {
  testing::Rng rng;
  const isa::Tier saved = isa::ActiveTier();
  const vector::PartOfResult part(vector::StreamingThreshold());
  for (int t = 0; t <= static_cast<int>(saved); ++t) {
    isa::SetMaxTier(static_cast<isa::Tier>(t));
    for (auto _ : testing::FuzzFor(400)) {
      SetNumThreads(static_cast<int>(rng.Int(1, 3)));
      Dims dims = rng.Shape(1, 5, 20000, false), order = dims;
      for (int i = 0; i < dims.rank(); ++i) order[i] = i;
      if (rng.Chance(0.6)) dims[dims.rank() - 1] = 16 * rng.Int(1, 12);
      if (rng.Chance(0.2)) dims[static_cast<int>(rng.Int(0, dims.rank() - 1))] = rng.Int(2, 4);
      Check(rng, ElemBytes(rng), dims, StridesFor(rng, dims, RandomPermutation(rng, dims.rank()), false),
            StridesFor(rng, dims, order, false));
      if (HasFatalFailure()) break;
    }
  }
  SetNumThreads(0);
  isa::SetMaxTier(saved);
}

TEST(CopyPlanTest, StreamedTranspose) {
  const int64_t rows = 2049, cols = 2111;
  std::vector<uint32_t> src(rows * cols), dst(rows * cols + 32, 7);
  std::iota(src.begin(), src.end(), 0u);
  uint32_t* aligned = dst.data();
  while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
  Transpose2D({4, 2048, cols, src.data(), cols * 4, aligned, 2048 * 4, true});
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < 2048; ++r) ASSERT_EQ(aligned[c * 2048 + r], r * cols + c);
  }
}

TEST(CopyPlanTest, ChoosesTheWay) {
  const auto variant = [](const Dims& dims, const Dims& perm) {
    return std::string(TransposePlan(4, dims, perm).variant());
  };
  EXPECT_EQ(variant({8, 9}, {1, 0}), "tile");
  EXPECT_EQ(variant({8, 9, 5}, {1, 0, 2}), "runs");
  EXPECT_EQ(variant({8, 1, 9}, {1, 0, 2}), "runs");  // only a dim of size 1 moves: one memory copy
  EXPECT_EQ(variant({8, 9, 2}, {1, 0, 2}), "tile");  // pairs move as 8-byte elements
  EXPECT_EQ(variant({0, 9}, {1, 0}), "empty");
  EXPECT_EQ(std::string(CopyPlan(4, {8, 9}, {18, 2}, {9, 1}).variant()), "walk");
}

TEST(CopyPlanTest, TransposeFollowsItsDefinition) {
  const Dims dims = {2, 3, 4}, perm = {2, 0, 1};
  std::vector<int16_t> src(24), dst(24);
  std::iota(src.begin(), src.end(), int16_t{0});
  Transpose(2, dims, perm, src.data(), dst.data());
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 2; ++b) {
      for (int c = 0; c < 3; ++c) EXPECT_EQ(dst[(a * 2 + b) * 3 + c], src[(b * 3 + c) * 4 + a]);
    }
  }
}

}  // namespace
}  // namespace opsnn::kernels
