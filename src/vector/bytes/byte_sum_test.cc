#include "vector/bytes/byte_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "isa/tier.h"
#include "testing/testing.h"
#include "vector/compiled.h"

namespace opsnn::vector {
namespace {

using opsnn::testing::FuzzFor;
using opsnn::testing::Rng;

SlotId Dequantised(Rng& rng, ProgramBuilder& b, SlotId x, DType t) {
  const bool floats = t == DType::kF32;
  if (rng.Chance(floats ? 0.1 : 0.8))
    x = b.Binary(StageOp::kSub, x, b.Const(static_cast<double>(rng.Int(t == DType::kS8 ? -128 : 0, 127))));
  if (!rng.Chance(floats ? 0.2 : 0.9)) return x;
  const SlotId scale = b.Const(static_cast<float>(rng.Real(0.001, 0.1)));
  return rng.Chance(0.5) ? b.Binary(StageOp::kMul, x, scale) : b.Binary(StageOp::kMul, scale, x);
}

Program RandomSum(Rng& rng, DType from, DType to, bool two) {
  ProgramBuilder b;
  const SlotId x = b.Input(), y = two ? b.Input() : kNoSlot;
  SlotId sum = Dequantised(rng, b, x, from);
  if (two) sum = b.Binary(StageOp::kAdd, sum, Dequantised(rng, b, y, from));
  if (rng.Chance(0.4))
    sum = b.Unary(StageOp::kRelu, sum);
  else if (rng.Chance(0.3))
    sum = b.Unary(StageOp::kClip, sum, rng.Real(-1, 0), rng.Real(0, 3));
  const float odd[] = {0, -1, 1e-40f, std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  const float step = rng.Chance(0.05)  ? odd[rng.Int(0, 4)]
                     : rng.Chance(0.3) ? static_cast<float>(std::exp2(static_cast<double>(rng.Int(-8, 1))))
                                       : static_cast<float>(rng.Real(0.005, 0.9));
  sum = b.Unary(StageOp::kRound, b.Binary(StageOp::kDiv, sum, b.Const(step)));
  const bool u8 = to == DType::kU8;
  if (rng.Chance(0.7))
    sum = b.Binary(StageOp::kAdd, sum, b.Const(static_cast<double>(rng.Int(u8 ? 0 : -128, 127))));
  b.Output(b.Unary(StageOp::kClip, sum, u8 ? 0 : -128, u8 ? 255 : 127));
  Program p = std::move(b).Build();
  p.exact = rng.Chance(0.5);
  return p;
}

TEST(ByteSum, HasTheBitsOfTheInterpreter) {
  Rng rng;
  for (auto _ : FuzzFor(400)) {
    isa::SetMaxTier(static_cast<isa::Tier>(rng.Int(0, static_cast<int64_t>(isa::BestTier()))));
    const DType types[] = {DType::kU8, DType::kS8, DType::kF32};
    const DType from = types[rng.Int(0, 2)], to = types[rng.Int(0, 1)];
    const bool two = rng.Chance(0.6);
    const auto compiled = Compile(RandomSum(rng, from, to, two));
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    ASSERT_TRUE((*compiled)->byte_sum.has_value()) << Source(**compiled).ToString();
    const int64_t rows = rng.Int(1, 3), cols = rng.Size(200), gap = rng.Int(0, 2), stride = cols + gap;
    const auto size = static_cast<size_t>(rows * stride);
    std::vector<float> floats[2];
    std::vector<uint8_t> bytes[2], want(size, 7), got(size, 7);
    BlockArg args[3];
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      floats[i].resize(size), bytes[i].resize(size);
      for (size_t j = 0; j < size; ++j) {
        bytes[i][j] = static_cast<uint8_t>(rng.Int(0, 255));
        floats[i][j] = rng.Chance(0.01)   ? std::numeric_limits<float>::quiet_NaN()
                       : rng.Chance(0.01) ? -std::numeric_limits<float>::infinity()
                       : rng.Chance(0.2)  ? static_cast<float>(rng.Int(-40, 40)) / 8
                                          : static_cast<float>(rng.Real(-30, 30));
      }
      args[i] = {from == DType::kF32 ? static_cast<void*>(floats[i].data()) : bytes[i].data(), from, stride,
                 1};
    }
    BlockArg& y = args[two ? 2 : 1];
    y = {want.data(), to, stride, 1};
    Execute(**compiled, rows, cols, args, {.use_templates = false});
    y.data = got.data();
    Execute(**compiled, rows, cols, args, {});
    ASSERT_EQ(want, got) << Source(**compiled).ToString() << " " << rows << "x" << cols << " " << Name(from);
    if (from == DType::kF32 || SizeOf(from) != 1) continue;
    args[0].data = bytes[0].data(), y.data = bytes[0].data();  // in place
    Execute(**compiled, rows, cols, args, {});
    for (int64_t r = 0; r < rows; ++r)
      ASSERT_TRUE(std::equal(want.begin() + r * stride, want.begin() + r * stride + cols,
                             bytes[0].begin() + r * stride));
  }
  isa::SetMaxTier(isa::BestTier());
}

}  // namespace
}  // namespace opsnn::vector
