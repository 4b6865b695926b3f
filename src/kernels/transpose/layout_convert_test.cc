#include "kernels/transpose/layout_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::kernels {
namespace {

using testing::ReadElement;
using testing::WriteElement;

constexpr Layout kNchw = {Format::kNCHW, 0}, kNhwc = {Format::kNHWC, 0}, kNd = {Format::kND, 0};
Layout Blocked(int c0) { return {Format::kNC1HWC0, c0}; }

// Element offset of (n, c, pixel) by the definition of each layout; pixels are h * W + w.
int64_t OffsetOf(const Layout& layout, int64_t channels, int64_t pixels, int64_t n, int64_t c,
                 int64_t pixel) {
  if (layout.format == Format::kNC1HWC0) {
    const int64_t c0 = layout.c0, c1 = (channels + c0 - 1) / c0;
    return ((n * c1 + c / c0) * pixels + pixel) * c0 + c % c0;
  }
  if (layout.format == Format::kNHWC) return (n * pixels + pixel) * channels + c;
  return (n * channels + c) * pixels + pixel;
}

struct Buffer {
  static constexpr int64_t kGuard = 64;
  Buffer(DType t, int64_t elements, uint8_t fill)
      : dtype(t), bytes(elements * SizeOf(t) + 2 * kGuard, fill), elements(elements) {}
  void* at(int64_t i) { return &bytes[kGuard + i * SizeOf(dtype)]; }
  DType dtype;
  std::vector<uint8_t> bytes;
  int64_t elements;
};

// Converts random values and compares every stored element, padding and guard byte with the definition.
void Check(testing::Rng& rng, const Dims& dims, DType from, const Layout& a, DType to, const Layout& b) {
  SCOPED_TRACE(ToString(dims) + " " + Name(from) + " " + ToString(a) + " -> " + Name(to) + " " + ToString(b));
  const int64_t channels = dims[1], pixels = dims[2] * dims[3];
  Buffer src(from, StoredElements(dims, a), 0x7F);  // padding lanes start as NaN or garbage
  Buffer got(to, StoredElements(dims, b), 0xA5), want = got;
  for (int64_t i = 0; i < want.elements; ++i) WriteElement(want.at(i), to, 0.0);
  const bool integral = !IsFloat(to);
  const bool is_unsigned = to == DType::kU8 || from == DType::kU8;
  for (int64_t n = 0; n < dims[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < pixels; ++p) {
        const double drawn = rng.Real(is_unsigned ? 0 : -100, 100);
        void* element = src.at(OffsetOf(a, channels, pixels, n, c, p));
        WriteElement(element, from, integral ? std::rint(drawn) : drawn);
        WriteElement(want.at(OffsetOf(b, channels, pixels, n, c, p)), to, ReadElement(element, from));
      }
    }
  }
  ConvertLayout({src.at(0), from, a, got.at(0), to, b, dims});
  ASSERT_EQ(got.bytes, want.bytes);
}

TEST(LayoutConvertTest, SampleOffsets) {
  // [8,3,224,224] with 16 channels a block: [8,1,224,224,16], element (1,2,0,1) at 802834.
  EXPECT_EQ(StoredDims({8, 3, 224, 224}, Blocked(16)), (Dims{8, 1, 224, 224, 16}));
  EXPECT_EQ(StoredDims({2, 20, 3, 5}, Blocked(16)), (Dims{2, 2, 3, 5, 16}));
  const Dims dims = {2, 20, 3, 5};
  std::vector<float> src(2 * 20 * 15), dst(2 * 2 * 15 * 16, -1.0f);
  src[((1 * 20 + 17) * 3 + 2) * 5 + 4] = 42.0f;
  ConvertLayout({src.data(), DType::kF32, kNchw, dst.data(), DType::kF32, Blocked(16), dims});
  for (size_t i = 0; i < dst.size(); ++i) {
    ASSERT_EQ(dst[i], i == 945 ? 42.0f : 0.0f) << i;
  }
  const Dims large = {8, 3, 224, 224};
  std::vector<float> image(8 * 3 * 224 * 224), blocks(8 * 224 * 224 * 16);
  image[((1 * 3 + 2) * 224 + 0) * 224 + 1] = 7.0f;
  ConvertLayout({image.data(), DType::kF32, kNchw, blocks.data(), DType::kF32, Blocked(16), large});
  EXPECT_EQ(blocks[802834], 7.0f);
}

Dims RandomImage(testing::Rng& rng) {
  return {rng.Int(0, 3), rng.Size(70), rng.Size(20, true), rng.Size(40)};
}

Layout RandomLayout(testing::Rng& rng) {
  const Layout layouts[] = {kNd, kNchw, kNhwc, Blocked(4), Blocked(8), Blocked(16), Blocked(32)};
  return layouts[rng.Int(0, 6)];
}

TEST(LayoutConvertTest, EveryPairOfLayoutsSameType) {
  testing::Rng rng;
  const DType types[] = {DType::kF32, DType::kF16, DType::kS8, DType::kF64};
  for (auto _ : testing::FuzzFor(400)) {
    const DType t = types[rng.Int(0, 3)];
    Check(rng, RandomImage(rng), t, RandomLayout(rng), t, RandomLayout(rng));
    if (HasFatalFailure()) return;
  }
}

TEST(LayoutConvertTest, EveryPairOfTypes) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    const auto from = static_cast<DType>(rng.Int(0, kNumDTypes - 2));  // Bool apart: it has two values only
    const auto to = static_cast<DType>(rng.Int(0, kNumDTypes - 2));
    Check(rng, RandomImage(rng), from, RandomLayout(rng), to, RandomLayout(rng));
    if (HasFatalFailure()) return;
  }
}

TEST(LayoutConvertTest, LargeImagesInTasks) {
  testing::Rng rng;
  SetNumThreads(3);
  for (const Dims& dims :
       {Dims{1, 20, 200, 310}, Dims{3, 40, 61, 67}, Dims{1, 3, 300, 400}, Dims{1, 40000, 2, 3}}) {
    for (const Layout& a : {kNchw, kNhwc, Blocked(16)}) {
      for (const Layout& b : {kNchw, kNhwc, Blocked(16)}) {
        Check(rng, dims, DType::kF32, a, DType::kF32, b);
        Check(rng, dims, DType::kF32, a, DType::kBF16, b);
      }
    }
  }
  SetNumThreads(0);
}

TEST(LayoutConvertTest, RoundTripIsBitExact) {
  testing::Rng rng;
  const Dims dims = {2, 37, 9, 11};
  Buffer src(DType::kF32, NumElements(dims), 0);
  for (uint8_t& b : src.bytes) b = static_cast<uint8_t>(rng.Int(0, 255));  // NaN payloads included
  Buffer back = src;
  Buffer blocks(DType::kF32, StoredElements(dims, Blocked(16)), 0xFF);
  ConvertLayout({src.at(0), DType::kF32, kNchw, blocks.at(0), DType::kF32, Blocked(16), dims});
  for (int64_t i = 0; i < back.elements; ++i) WriteElement(back.at(i), DType::kF32, -1);
  ConvertLayout({blocks.at(0), DType::kF32, Blocked(16), back.at(0), DType::kF32, kNchw, dims});
  EXPECT_EQ(src.bytes, back.bytes);
}

}  // namespace
}  // namespace opsnn::kernels
