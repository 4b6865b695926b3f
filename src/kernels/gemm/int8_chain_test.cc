#include "kernels/gemm/int8_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "isa/tier.h"
#include "kernels/gemm/int8.h"
#include "kernels/gemm/tiers_for_test.h"
#include "program/program.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::FuzzFor;
using opsnn::testing::Rng;

class ChainTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};
INSTANTIATE_TEST_SUITE_P(Tiers, ChainTest, ::testing::ValuesIn(Tiers()),
                         [](const auto& info) { return isa::Name(info.param); });

// A product with a random chain of the kind behind it.
class Case {
 public:
  Case(Rng& rng, int64_t m, int64_t n, int64_t k) : m_(m), n_(n), k_(k) {
    for (auto* bytes : {&a_, &b_}) {
      bytes->resize(static_cast<size_t>((bytes == &a_ ? m : n) * k));
      for (uint8_t& x : *bytes) x = static_cast<uint8_t>(rng.Int(0, 255));
    }
    to_ = rng.Chance(0.3) ? DType::kF32 : rng.Chance(0.5) ? DType::kU8 : DType::kS8;
    SlotId x = builder_.Input(ComputeType::kS32);
    std::vector<SlotId> inputs;
    const bool scales = rng.Chance(0.9), biases = rng.Chance(0.7), adds = rng.Chance(0.3);
    step_is_operand_ = to_ != DType::kF32 && rng.Chance(0.2);
    for (int i = 0; i < scales + biases + adds + (step_is_operand_ ? 1 : 0); ++i)
      inputs.push_back(builder_.Input());
    auto next = inputs.begin();
    x = builder_.Convert(x, ComputeType::kF32);
    const float size = static_cast<float>(127.0 * 127 * std::sqrt(static_cast<double>(k) + 1) / 3);
    if (scales) x = builder_.Binary(StageOp::kMul, x, *next++), Small(rng, 1 / size);
    if (biases) x = builder_.Binary(StageOp::kAdd, *next++, x), Small(rng, 1);
    if (adds) x = builder_.Binary(StageOp::kAdd, x, *next++), Full(rng);
    if (rng.Chance(0.4))
      x = builder_.Unary(StageOp::kRelu, x);
    else if (rng.Chance(0.3))
      x = builder_.Unary(StageOp::kClip, x, rng.Real(-2, 0), rng.Real(0, 2));
    if (to_ != DType::kF32) x = Quantise(rng, x, step_is_operand_ ? *next : kNoSlot, scales ? 1 : size);
    builder_.Output(x);
    program_ = std::move(builder_).Build();
    program_.exact = rng.Chance(0.5);
    y_.resize(static_cast<size_t>(m * n) * 4);
    args_.push_back({y_.data(), to_, m * n, 0, n, 1});
  }

  std::vector<uint8_t> Run(bool by_chain) {
    const auto compiled = vector::Compile(program_);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    const auto chain = MatchInt8Chain(**compiled, args_);
    EXPECT_NE(chain, nullptr) << program_.ToString();
    Int8Params p;
    p.m = m_, p.n = n_, p.k = k_;
    p.a = {a_.data(), DType::kU8, k_, 1, 0};
    p.b = {b_.data(), DType::kS8, 1, k_, 0};
    p.a_zero = {&zero_, 0};
    p.program = compiled->get(), p.args = args_;
    if (by_chain) p.chain = chain.get();
    std::fill(y_.begin(), y_.end(), uint8_t{0xAA});
    RunInt8(p);
    return y_;
  }
  std::string Text() const {
    return std::to_string(m_) + "," + std::to_string(n_) + "," + std::to_string(k_) + " " +
           program_.ToString();
  }

 private:
  float Odd(Rng& rng, float usual) {
    if (!rng.Chance(0.02)) return usual;
    const float odd[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         0,
                         3e38f,
                         1e-40f};
    return odd[rng.Int(0, 5)];
  }
  void Add(std::vector<float> values, int64_t rows, int64_t cols) {
    floats_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    args_.push_back({floats_.back()->data(), DType::kF32, 0, 0, rows, cols});
  }
  void Small(Rng& rng, float size) {
    const int64_t which = rng.Int(0, 2);
    std::vector<float> values(static_cast<size_t>(which == 0 ? 1 : which == 1 ? m_ : n_));
    for (float& v : values) v = Odd(rng, static_cast<float>(rng.Real(-1, 1)) * size);
    Add(std::move(values), which == 1, which == 2);
  }
  void Full(Rng& rng) {
    std::vector<float> values(static_cast<size_t>(m_ * n_));
    for (float& v : values) v = Odd(rng, static_cast<float>(rng.Real(-1, 1)));
    Add(std::move(values), n_, 1);
  }
  SlotId Quantise(Rng& rng, SlotId x, SlotId step, float size) {
    const float usual = size * static_cast<float>(std::exp2(rng.Real(-10, -4)));
    const float value = rng.Chance(0.3) ? std::exp2(std::round(std::log2(usual))) : Odd(rng, usual);
    if (step != kNoSlot) {
      Add({value}, 0, 0);
    } else {
      step = builder_.Const(value);
    }
    x = builder_.Unary(StageOp::kRound, builder_.Binary(StageOp::kDiv, x, step));
    const bool u8 = to_ == DType::kU8;
    if (rng.Chance(0.7))
      x = builder_.Binary(StageOp::kAdd, x,
                          builder_.Const(static_cast<double>(rng.Int(u8 ? 0 : -128, u8 ? 255 : 127))));
    return builder_.Unary(StageOp::kClip, x, u8 ? 0 : -128, u8 ? 255 : 127);
  }

  int64_t m_, n_, k_;
  DType to_;
  bool step_is_operand_ = false;
  ProgramBuilder builder_;
  Program program_;
  const int32_t zero_ = 120;
  std::vector<uint8_t> a_, b_, y_;
  std::vector<std::unique_ptr<std::vector<float>>> floats_;
  std::vector<vector::EpilogueArg> args_;
};

// NaN differ in sign and payload.
bool SameFloats(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    float x, y;
    std::memcpy(&x, &a[i], 4), std::memcpy(&y, &b[i], 4);
    if (std::memcmp(&x, &y, 4) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

TEST_P(ChainTest, HasTheBitsOfTheProgram) {
  Rng rng;
  for (auto _ : FuzzFor(400)) {
    const bool deep = rng.Chance(0.05);
    Case c(rng, rng.Size(60), rng.Size(90), deep ? rng.Int(1500, 3200) : rng.Size(80));
    const auto want = c.Run(false), got = c.Run(true);
    ASSERT_TRUE(want == got || SameFloats(want, got)) << c.Text();
  }
}

// Where quotients are not divided, every one of the floats around each step must round as the quotient does.
TEST(Int8Quotient, RoundsAsDivisionDoes) {
  Rng rng;
  int exact = 0, tried = 0;
  for (auto _ : FuzzFor(200)) {
    const float step =
        static_cast<float>(rng.Real(0.5, 1) * std::exp2(static_cast<double>(rng.Int(-30, 10))));
    const float lo = static_cast<float>(-rng.Int(0, 255)), hi = lo + 255;
    const vector::Quotient q = vector::FindQuotient(step, lo, hi);
    ++tried;
    if (!q.exact) continue;
    ++exact;
    for (int i = 0; i < 2000; ++i) {
      float x = step * (static_cast<float>(rng.Int(static_cast<int64_t>(lo), 255)) + 0.5f);
      for (int64_t n = rng.Int(-6, 6); n != 0; n -= n > 0 ? 1 : -1)
        x = std::nextafter(x, n > 0 ? 1e30f : -1e30f);
      if (rng.Chance(0.3)) x = step * static_cast<float>(rng.Real(lo - 1, hi + 1));
      const float want = std::min(hi, std::max(lo, std::nearbyint(x / step)));
      const float got = std::min(hi, std::max(lo, std::nearbyint(std::fma(x, q.high, x * q.low))));
      ASSERT_EQ(want, got) << x << " / " << step;
    }
  }
  EXPECT_GT(exact, tried / 2);
  EXPECT_FALSE(vector::FindQuotient(0, 0, 255).exact);
  EXPECT_FALSE(vector::FindQuotient(-1, 0, 255).exact);
  EXPECT_FALSE(vector::FindQuotient(std::numeric_limits<float>::quiet_NaN(), 0, 255).exact);
  EXPECT_FALSE(vector::FindQuotient(1e-42f, 0, 255).exact);
}

TEST(Int8Chain, OtherProgramsAreNone) {
  const std::vector<vector::EpilogueArg> args = {{nullptr, DType::kF32, 0, 0, 0, 1},
                                                 {nullptr, DType::kF32, 0, 0, 8, 1}};
  const auto matches = [&](auto fill) {
    ProgramBuilder b;
    const SlotId x = b.Input(ComputeType::kS32), y = b.Input();
    b.Output(fill(b, b.Convert(x, ComputeType::kF32), y));
    const auto compiled = vector::Compile(std::move(b).Build());
    return MatchInt8Chain(**compiled, args) != nullptr;
  };
  EXPECT_TRUE(matches([](ProgramBuilder& b, SlotId x, SlotId y) { return b.Binary(StageOp::kMul, x, y); }));
  EXPECT_FALSE(matches([](ProgramBuilder& b, SlotId x, SlotId y) {
    return b.Unary(StageOp::kTanh, b.Binary(StageOp::kMul, x, y));
  }));
  EXPECT_FALSE(matches([](ProgramBuilder& b, SlotId x, SlotId y) { return b.Binary(StageOp::kDiv, y, x); }));
  EXPECT_FALSE(matches([](ProgramBuilder& b, SlotId x, SlotId y) {  // read twice
    const SlotId z = b.Binary(StageOp::kMul, x, y);
    return b.Binary(StageOp::kAdd, z, b.Binary(StageOp::kMul, z, z));
  }));
  EXPECT_FALSE(matches([](ProgramBuilder& b, SlotId x, SlotId y) {  // the other order
    return b.Binary(StageOp::kMul, b.Unary(StageOp::kRelu, x), y);
  }));
}

}  // namespace
}  // namespace opsnn::gemm
