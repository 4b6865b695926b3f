// The helper types that host code of programs uses: every half against the library's own conversions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "aclnn/opdev/float4_e2m1.h"
#include "aclnn/opdev/fp16_t.h"
#include "base/half.h"
#include "securec.h"

namespace opsnn {
namespace {

TEST(HostTypes, HalvesConvertAsOurs) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    op::fp16_t h;
    h.val = static_cast<uint16_t>(bits);
    const float want = ToFloat(F16{static_cast<uint16_t>(bits)});
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(h)));
      continue;
    }
    EXPECT_EQ(static_cast<float>(h), want) << bits;
    // The value itself, its neighbours in f32 and the middle to the next half.
    const float next = ToFloat(F16{static_cast<uint16_t>(bits + 1)});
    for (float f : {want, std::nextafter(want, 1e30f), std::nextafter(want, -1e30f), want / 2 + next / 2}) {
      if (!std::isnan(f)) {
        EXPECT_EQ(op::fp16_t(f).val, ToF16(f).bits) << f;
      }
    }
  }
  EXPECT_EQ(op::fp16_t(1).val, 0x3C00);
  EXPECT_EQ(op::fp16_t(-2.0).val, 0xC000);
  EXPECT_EQ(op::fp16_t(1e30).val, 0x7C00);
  EXPECT_TRUE(std::isnan(static_cast<float>(op::fp16_t(std::numeric_limits<float>::quiet_NaN()))));
  op::fp16_t sum = 1.5;
  sum += op::fp16_t(2);
  EXPECT_EQ(static_cast<float>(sum), 3.5f);
}

TEST(HostTypes, FourBitFloats) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t i = 0; i < 8; ++i) {
    EXPECT_EQ(op::Float4E2M1(values[i]).value, i);
    EXPECT_EQ(static_cast<float>(op::Float4E2M1(-values[i])), -values[i]);
  }
  EXPECT_EQ(op::Float4E2M1(0.25f).value, 0);  // ties go to the even one
  EXPECT_EQ(op::Float4E2M1(0.75f).value, 2);
  EXPECT_EQ(op::Float4E2M1(5).value, 6);
  EXPECT_EQ(op::Float4E2M1(100).value, 7);
}

TEST(HostTypes, SizedCopies) {
  char to[4] = "abc";
  EXPECT_EQ(memcpy_s(to, sizeof(to), "xyz", 4), EOK);
  EXPECT_STREQ(to, "xyz");
  EXPECT_EQ(memcpy_s(to, sizeof(to), "12345", 5), ERANGE);
  EXPECT_STREQ(to, "xyz");
  EXPECT_EQ(strcpy_s(to, sizeof(to), "long"), ERANGE);
  EXPECT_EQ(strcpy_s(to, sizeof(to), "a"), EOK);
  EXPECT_EQ(strcat_s(to, sizeof(to), "bc"), EOK);
  EXPECT_STREQ(to, "abc");
  EXPECT_EQ(sprintf_s(to, sizeof(to), "%d", 12), 2);
  EXPECT_EQ(sprintf_s(to, sizeof(to), "%d", 1234), -1);
  EXPECT_EQ(memset_s(to, sizeof(to), 0, 5), ERANGE);
}

}  // namespace
}  // namespace opsnn
