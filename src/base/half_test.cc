// Half conversions against a definition that shares nothing with them: the value is built with ldexp, and the
// rounded result is the nearest of all representable values, ties to the even one.
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace opsnn {
namespace {

// sign, exponent bits, mantissa bits of a 16-bit format, as a double.
double Decode(uint16_t bits, int man_bits, int bias) {
  const int exp_bits = 15 - man_bits;
  const int man = bits & ((1 << man_bits) - 1), exp = (bits >> man_bits) & ((1 << exp_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exp == (1 << exp_bits) - 1) return man ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exp == 0) return sign * std::ldexp(man, 1 - bias - man_bits);
  return sign * std::ldexp((1 << man_bits) + man, exp - bias - man_bits);
}

bool SameValue(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

struct HalfFormat {
  int man_bits, bias;
  float (*to_float)(uint16_t);
  uint16_t (*from_float)(float);
};

const HalfFormat kF16Format = {10, 15, [](uint16_t b) { return ToFloat(F16{b}); },
                               [](float f) { return ToF16(f).bits; }};
const HalfFormat kBf16Format = {7, 127, [](uint16_t b) { return ToFloat(BF16{b}); },
                                [](float f) { return ToBF16(f).bits; }};

void CheckAllValues(const HalfFormat& h) {
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const double want = Decode(bits, h.man_bits, h.bias);
    const float got = h.to_float(bits);
    ASSERT_TRUE(SameValue(got, want)) << "bits " << i << ": " << got << " want " << want;
    const uint16_t back = h.from_float(got);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(h.to_float(back))) << "bits " << i;
      ASSERT_EQ(back & 0x8000, bits & 0x8000) << "bits " << i;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Between each pair of neighbours: the tie goes to the even one, its float neighbours to the nearer one.
void CheckRounding(const HalfFormat& h) {
  const int infinity = ((1 << (15 - h.man_bits)) - 1) << h.man_bits;
  for (int i = 0; i < infinity; ++i) {
    const uint16_t lo = static_cast<uint16_t>(i), hi = static_cast<uint16_t>(i + 1);
    const double below = Decode(lo, h.man_bits, h.bias);
    // Above the largest finite value the next one would be a power of two: its place is what rounds to Inf.
    const double above = hi == infinity ? 2 * below - Decode(static_cast<uint16_t>(i - 1), h.man_bits, h.bias)
                                        : Decode(hi, h.man_bits, h.bias);
    const double middle = below + (above - below) / 2;
    const float tie = static_cast<float>(middle);
    if (static_cast<double>(tie) != middle) continue;  // f32 cannot hold it: subnormal bf16 steps
    for (float sign : {1.f, -1.f}) {
      const uint16_t s = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(h.from_float(sign * tie), s | (i % 2 == 0 ? lo : hi)) << "tie above " << i;
      ASSERT_EQ(h.from_float(sign * std::nextafterf(tie, 0.f)), s | lo) << "below the tie above " << i;
      ASSERT_EQ(h.from_float(sign * std::nextafterf(tie, INFINITY)), s | hi) << "above the tie above " << i;
    }
  }
}

TEST(Half, F16AllValues) { CheckAllValues(kF16Format); }
TEST(Half, Bf16AllValues) { CheckAllValues(kBf16Format); }
TEST(Half, F16Rounding) { CheckRounding(kF16Format); }
TEST(Half, Bf16Rounding) { CheckRounding(kBf16Format); }

TEST(Half, OverflowGoesToInfinity) {
  EXPECT_EQ(ToF16(65519.f).bits, 0x7BFF);
  EXPECT_EQ(ToF16(65520.f).bits, 0x7C00);
  EXPECT_EQ(ToF16(-1e30f).bits, 0xFC00);
  EXPECT_EQ(ToBF16(std::numeric_limits<float>::max()).bits, 0x7F80);
}

TEST(Half, NanKeepsSignAndTopPayload) {
  const float nan = std::bit_cast<float>(0xFFA00000u);  // signalling, payload's top bits 01
  EXPECT_EQ(ToF16(nan).bits, 0xFF00);                   // quiet, payload kept
  EXPECT_EQ(ToBF16(nan).bits, 0xFFE0);
  // A payload that lives only in the bits that are cut off must not become Inf.
  const float low = std::bit_cast<float>(0x7F800001u);
  EXPECT_EQ(ToF16(low).bits, 0x7E00);
  EXPECT_EQ(ToBF16(low).bits, 0x7FC0);
}

}  // namespace
}  // namespace opsnn
