// All ways to run a program give the same bits: template and interpreter, in place and out of place, any cut
// into blocks and tasks, any number of threads; conversions agree with the scalar ones.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/buffer.h"
#include "base/half.h"
#include "base/parallel.h"
#include "isa/tier.h"
#include "testing/testing.h"
#include "vector/compiled.h"
#include "vector/convert.h"
#include "vector/convert_simd.h"
#include "vector/modes_for_test.h"
#include "vector/reference_for_test.h"
#include "vector/streaming.h"

namespace opsnn::vector {
namespace {

INSTANTIATE_TEST_SUITE_P(Tiers, ModesTier, ::testing::Range(0, isa::kNumTiers),
                         [](const auto& i) { return isa::Name(static_cast<isa::Tier>(i.param)); });

TEST_P(ModesTier, TemplatesEqualTheInterpreter) {
  Rng rng;
  for (const RowCase& c : RowCases()) {
    const auto compiled = Compile(c.program).value();
    ASSERT_NE(compiled->row_template.family, RowFamily::kNone) << c.name;
    for (int64_t cols : {1, 2, 7, 16, 31, 64, 65, 768, 1000, 4099, 9000}) {
      const int64_t rows = rng.Int(1, 5), stride = cols + rng.Int(0, 3);
      const std::vector<float> x = RandomFloats(rng, rows * stride), g = RandomFloats(rng, cols),
                               b = RandomFloats(rng, cols);
      std::vector<float> results[2][3];
      for (int mode = 0; mode < 3; ++mode) {  // template, interpreter, template with streaming stores
        std::vector<float> y(rows * stride, -7.0f), s1(rows), s2(rows);
        std::vector<BlockArg> args = {{const_cast<float*>(x.data()), DType::kF32, stride, 1}};
        const std::vector<float>* vectors[] = {&g, &b};
        for (int k = 0; k < c.vectors; ++k)
          args.push_back({const_cast<float*>(vectors[k]->data()), DType::kF32, 0, 1});
        args.push_back({y.data(), DType::kF32, stride, 1});
        if (c.statistics > 0) args.push_back({s1.data(), DType::kF32, 1, 0});
        if (c.statistics > 1) args.push_back({s2.data(), DType::kF32, 1, 0});
        Execute(*compiled, rows, cols, args.data(), {mode == 2, mode != 1});
        if (mode == 0) {
          results[0][0] = y, results[0][1] = s1, results[0][2] = s2;
        } else {
          EXPECT_TRUE(SameBits(results[0][0], y)) << c.name << " cols " << cols << " mode " << mode;
          EXPECT_TRUE(SameBits(results[0][1], s1) && SameBits(results[0][2], s2)) << c.name << " statistics";
        }
      }
      std::vector<std::vector<double>> values(1 + c.vectors);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < cols; ++i) {
          values[0].push_back(x[r * stride + i]);
          if (c.vectors > 0) values[1].push_back(g[i]);
          if (c.vectors > 1) values[2].push_back(b[i]);
        }
      }
      const std::vector<double> want = ReferenceProgram(c.program, values, rows, cols)[0];
      std::vector<double> got;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < cols; ++i) got.push_back(results[0][0][r * stride + i]);
      }
      // Sums of n terms of magnitude 3 .. 9, divided by a standard deviation that short rows make small.
      const double tol = cols < 16 ? 2e-2 : (std::sqrt(static_cast<double>(cols)) + 64) * 0x1p-22;
      EXPECT_EQ(testing::Compare(got, want, tol, tol), "") << c.name << " cols " << cols;
    }
  }
}

// The same bits when the rows lie in the columns of memory, for template and interpreter.
TEST_P(ModesTier, RowsInColumns) {
  Rng rng;
  for (const RowCase& c : RowCases()) {
    if (c.vectors != 0 || c.statistics != 0) continue;
    const auto compiled = Compile(c.program).value();
    for (int64_t cols : {1, 3, 4, 17, 100}) {
      const int64_t rows = rng.Int(1, 40), stride = rows + rng.Int(0, 3);
      const std::vector<float> x = RandomFloats(rng, rows * cols);
      std::vector<float> turned(cols * stride), y(rows * cols), y2(cols * stride);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < cols; ++i) turned[i * stride + r] = x[r * cols + i];
      }
      const BlockArg dense[] = {{const_cast<float*>(x.data()), DType::kF32, cols, 1},
                                {y.data(), DType::kF32, cols, 1}};
      const BlockArg columns[] = {{turned.data(), DType::kF32, 1, stride},
                                  {y2.data(), DType::kF32, 1, stride}};
      Execute(*compiled, rows, cols, dense, {});
      for (bool use_templates : {true, false}) {
        Execute(*compiled, rows, cols, columns, {false, use_templates});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < cols; ++i) {
            ASSERT_EQ(std::bit_cast<uint32_t>(y2[i * stride + r]), std::bit_cast<uint32_t>(y[r * cols + i]))
                << c.name;
          }
        }
      }
    }
  }
}

TEST(Modes, HalfRowsAndEdges) {
  // Large means, as the operators' users report them: two passes keep the variance.
  const float x[] = {5000, 5001, 5002, 5003};
  float y[4];
  NormOptions o;
  const BlockArg args[] = {{const_cast<float*>(x), DType::kF32, 4, 1}, {y, DType::kF32, 4, 1}};
  RunBlock(*Compile(LayerNormProgram(o)).value(), 1, 4, args);
  const double want[] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[i], 2e-4);
  // A row of -Inf is NaN in a plain softmax and leaves its neighbours alone.
  const float inf = std::numeric_limits<float>::infinity();
  const float s[] = {0, 0, -inf, -inf, 1, 1};
  float t[6];
  const BlockArg soft[] = {{const_cast<float*>(s), DType::kF32, 2, 1}, {t, DType::kF32, 2, 1}};
  RunBlock(*Compile(SoftmaxProgram()).value(), 3, 2, soft);
  EXPECT_EQ(t[0], 0.5f);
  EXPECT_EQ(t[5], 0.5f);
  EXPECT_TRUE(std::isnan(t[2]) && std::isnan(t[3]));
  // bf16 in and out, f32 inside: one rounding.
  Rng rng;
  const int64_t cols = 100;
  std::vector<BF16> h(cols), hy(cols);
  std::vector<float> f(cols), fy(cols);
  for (int64_t i = 0; i < cols; ++i) h[i] = ToBF16(static_cast<float>(rng.Real(-3, 3))), f[i] = ToFloat(h[i]);
  const BlockArg ha[] = {{h.data(), DType::kBF16, cols, 1}, {hy.data(), DType::kBF16, cols, 1}};
  const BlockArg fa[] = {{f.data(), DType::kF32, cols, 1}, {fy.data(), DType::kF32, cols, 1}};
  RunBlock(*Compile(SoftmaxProgram()).value(), 1, cols, ha);
  RunBlock(*Compile(SoftmaxProgram()).value(), 1, cols, fa);
  for (int64_t i = 0; i < cols; ++i) EXPECT_EQ(hy[i].bits, ToBF16(fy[i]).bits);
}

// Rows of half types are those of f32, rounded once: whatever the length, the place of the row, the way it is
// stored, and with NaN and infinities in some of the rows.
template <typename T>
void HalfRowsEqualRoundedF32(DType type, T (*round)(float)) {
  Rng rng;
  for (const RowCase& c : RowCases()) {
    if (c.statistics != 0) continue;
    const auto compiled = Compile(c.program).value();
    for (int64_t cols : {1, 5, 16, 63, 64, 129, 768, 5000}) {
      constexpr int64_t kRows = 4, kGuard = 40;
      const int64_t shift = rng.Int(0, 5);  // rows begin anywhere
      std::vector<T> x(kRows * cols), y(kRows * cols + 2 * kGuard);
      std::vector<float> wide(x.size()), want(x.size()), g = RandomFloats(rng, cols),
                                                         b = RandomFloats(rng, cols);
      for (size_t i = 0; i < x.size(); ++i) {
        const double spread = i / static_cast<size_t>(cols) == 3 ? 45 : 3;  // some exponentials are subnormal
        x[i] = round(static_cast<float>(rng.Real(-spread, spread)));
        if (i / static_cast<size_t>(cols) == 1 && rng.Chance(0.1)) x[i] = round(std::nanf(""));
        if (i / static_cast<size_t>(cols) == 2 && rng.Chance(0.1)) x[i] = round(-HUGE_VALF);
        wide[i] = ToFloat(x[i]);
      }
      if (rng.Chance(0.3)) g[0] = HUGE_VALF;
      const auto arguments = [&](BlockArg in, BlockArg out) {
        std::vector<BlockArg> args = {in};
        for (int k = 0; k < c.vectors; ++k) args.push_back({k == 0 ? g.data() : b.data(), DType::kF32, 0, 1});
        args.push_back(out);
        return args;
      };
      const auto f32 = arguments({wide.data(), DType::kF32, cols, 1}, {want.data(), DType::kF32, cols, 1});
      Execute(*compiled, kRows, cols, f32.data(), {});
      for (bool stream : {false, true}) {
        std::fill(y.begin(), y.end(), round(-7.0f));
        const auto half = arguments({x.data(), type, cols, 1}, {y.data() + kGuard - shift, type, cols, 1});
        Execute(*compiled, kRows, cols, half.data(), {stream, true});
        for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
          const int64_t at = i - (kGuard - shift);
          const bool inside = at >= 0 && at < kRows * cols;
          const T expected = inside ? round(want[static_cast<size_t>(at)]) : round(-7.0f);
          const T got = y[static_cast<size_t>(i)];
          if (inside && std::isnan(want[static_cast<size_t>(at)])) {
            ASSERT_TRUE(std::isnan(ToFloat(got))) << c.name << " cols " << cols << " at " << at;
          } else {
            ASSERT_EQ(got.bits, expected.bits)
                << c.name << " cols " << cols << " at " << at << " stream " << stream;
          }
        }
      }
    }
  }
}
TEST_P(ModesTier, HalfRowsEqualRoundedF32) {
  HalfRowsEqualRoundedF32<BF16>(DType::kBF16, [](float v) { return ToBF16(v); });
  HalfRowsEqualRoundedF32<F16>(DType::kF16, [](float v) { return ToF16(v); });
}

// Every f16 and bf16 through the activations that have a pass of their own: what the interpreter gives, at
// any address, streamed or not.
TEST_P(ModesTier, ActivationsOfHalvesEqualTheInterpreter) {
  for (const StageOp op :
       {StageOp::kRelu, StageOp::kGeluErf, StageOp::kGeluTanh, StageOp::kSilu, StageOp::kSigmoid}) {
    ProgramBuilder b;
    b.Output(b.Unary(op, b.Input()));
    const auto compiled = Compile(std::move(b).Build()).value();
    Rng rng;
    for (const DType type : {DType::kF16, DType::kBF16}) {
      constexpr int64_t kGuard = 64;
      std::vector<uint16_t> x(1 << 16), want(x.size());
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
      const auto n = static_cast<int64_t>(x.size()) - rng.Int(0, 70);
      const BlockArg plain[] = {{x.data(), type, n, 1}, {want.data(), type, n, 1}};
      Execute(*compiled, 1, n, plain, {false, false});
      for (const bool stream : {false, true}) {
        const int64_t shift = rng.Int(0, 40);
        std::vector<uint16_t> y(x.size() + 2 * kGuard, 0x5555);
        const BlockArg args[] = {{x.data(), type, n, 1}, {y.data() + shift, type, n, 1}};
        Execute(*compiled, 1, n, args, {stream, true});
        for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
          const bool inside = i >= shift && i < shift + n;
          ASSERT_EQ(y[static_cast<size_t>(i)], inside ? want[static_cast<size_t>(i - shift)] : 0x5555)
              << Name(type) << " stage " << static_cast<int>(op) << " of bits " << std::hex << i - shift;
        }
      }
    }
  }
}

// Long rows of cheap stages have passes of their own: the bits of the common ones, in place as well, with
// NaN, infinities and zeros of both signs among the operands.
TEST_P(ModesTier, NarrowPassesEqualTheCommonOnes) {
  using enum StageOp;
  Rng rng;
  for (const StageOp op :
       {kCopy, kNeg, kAbs, kRelu, kLeakyRelu, kClip, kAffine, kAdd, kSub, kMul, kMax, kMin}) {
    ProgramBuilder b;
    const SlotId x = b.Input();
    const bool binary = Info(op).arity == 2;
    b.Output(binary ? b.Binary(op, x, b.Input()) : b.Unary(op, x, -0.5, 0.75));
    const auto compiled = Compile(std::move(b).Build()).value();
    const int64_t n = 33000 + rng.Int(0, 40), shift = rng.Int(0, 20);
    std::vector<float> operands[] = {RandomFloats(rng, n), RandomFloats(rng, n)};
    const float kSpecial[] = {std::nanf(""), HUGE_VALF, -HUGE_VALF, 0.0f, -0.0f};
    for (std::vector<float>& v : operands) {
      for (int i = 0; i < 200; ++i) v[static_cast<size_t>(rng.Int(0, n - 1))] = kSpecial[rng.Int(0, 4)];
    }
    std::vector<float> y[3];
    for (int mode = 0; mode < 3; ++mode) {  // common, narrow, narrow in place
      y[mode].assign(static_cast<size_t>(n + 40), -7.0f);
      float* const to = y[mode].data() + shift;
      if (mode == 2) std::copy(operands[0].begin(), operands[0].end(), to);
      std::vector<BlockArg> args = {{mode == 2 ? to : operands[0].data(), DType::kF32, n, 1}};
      if (binary) args.push_back({operands[1].data(), DType::kF32, n, 1});
      args.push_back({to, DType::kF32, n, 1});
      Execute(*compiled, 1, n, args.data(), {false, mode != 0});
    }
    EXPECT_TRUE(SameBits(y[0], y[1]) && SameBits(y[0], y[2])) << Info(op).name;
  }
}

// A chain with a value that is used twice, a bias and several stages after the first: many ways to go wrong
// in place.
Program Chain() {
  ProgramBuilder b;
  const SlotId x = b.Input(), bias = b.Input(), z = b.Input();
  const SlotId t = b.Unary(StageOp::kTanh, b.Binary(StageOp::kAdd, x, bias));
  const SlotId u = b.Binary(StageOp::kMul, t, b.Unary(StageOp::kExp, x));
  const SlotId v = b.Binary(StageOp::kSub, u, z);
  b.Output(b.Binary(StageOp::kAdd, v, b.Binary(StageOp::kMul, z, x)));
  return std::move(b).Build();
}

TEST_P(ModesTier, InPlaceThreadsAndBlocks) {
  Rng rng;
  const auto compiled = Compile(Chain()).value();
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                   {3, 5},
                                   {40, 3},
                                   {7, 300},
                                   {2, 5000},
                                   {300, 257},
                                   {1, 100000},
                                   {1000, 130}}) {
    const std::vector<float> x = RandomFloats(rng, rows * cols), bias = RandomFloats(rng, cols),
                             z = RandomFloats(rng, rows * cols);
    auto run = [&](float* out, const float* xp, const float* zp, int threads) {
      SetNumThreads(threads);
      const TensorView in[] = {TensorView::Contiguous(const_cast<float*>(xp), DType::kF32, {rows, cols}),
                               TensorView::Contiguous(const_cast<float*>(bias.data()), DType::kF32, {cols}),
                               TensorView::Contiguous(const_cast<float*>(zp), DType::kF32, {rows, cols})};
      const TensorView o = TensorView::Contiguous(out, DType::kF32, {rows, cols});
      RunTensors(*compiled, in, std::span(&o, 1));
      SetNumThreads(0);
    };
    std::vector<float> y(rows * cols), y2(rows * cols), over_x = x, over_z = z;
    run(y.data(), x.data(), z.data(), 1);
    run(y2.data(), x.data(), z.data(), 4);
    run(over_x.data(), over_x.data(), z.data(), 2);
    run(over_z.data(), x.data(), over_z.data(), 2);
    EXPECT_TRUE(SameBits(y, y2)) << rows << "x" << cols;
    EXPECT_TRUE(SameBits(y, over_x)) << rows << "x" << cols;
    EXPECT_TRUE(SameBits(y, over_z)) << rows << "x" << cols;
    // Element by element through RunBlock on one element at a time.
    for (int i = 0; i < 20; ++i) {
      const int64_t r = rng.Int(0, rows - 1), c = rng.Int(0, cols - 1);
      float one = 0;
      const BlockArg args[] = {{const_cast<float*>(&x[r * cols + c]), DType::kF32, 1, 1},
                               {const_cast<float*>(&bias[c]), DType::kF32, 0, 1},
                               {const_cast<float*>(&z[r * cols + c]), DType::kF32, 1, 1},
                               {&one, DType::kF32, 1, 1}};
      RunBlock(*compiled, 1, 1, args);
      ASSERT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(y[r * cols + c])) << r << " " << c;
    }
  }
}

// An output over its input while the input itself is an output, too; one slot stored twice, with two types.
TEST(Modes, OutputsThatShareValues) {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId y = b.Unary(StageOp::kNeg, x);
  b.Output(y), b.Output(x), b.Output(y);
  const auto compiled = Compile(std::move(b).Build()).value();
  std::vector<float> v(100), copy(100);
  std::vector<double> third(100);
  for (int i = 0; i < 100; ++i) v[i] = static_cast<float>(i);
  const BlockArg args[] = {{v.data(), DType::kF32, 100, 1},
                           {v.data(), DType::kF32, 100, 1},
                           {copy.data(), DType::kF32, 100, 1},
                           {third.data(), DType::kF64, 100, 1}};
  RunBlock(*compiled, 1, 100, args);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(v[i], static_cast<float>(-i));
    EXPECT_EQ(copy[i], static_cast<float>(i));
    EXPECT_EQ(third[i], static_cast<double>(-i));
  }
}

TEST_P(ModesTier, HalfConversionsMatchScalar) {
  std::vector<F16> h(65536);
  std::vector<BF16> b(65536);
  for (uint32_t i = 0; i < 65536; ++i) h[i].bits = b[i].bits = static_cast<uint16_t>(i);
  std::vector<float> f(65536);
  LoadConvert(DType::kF16, h.data(), 1, ComputeType::kF32, f.data(), 65535);
  for (uint32_t i = 0; i < 65535; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(f[i]), std::bit_cast<uint32_t>(ToFloat(h[i]))) << i;
  LoadConvert(DType::kBF16, b.data(), 1, ComputeType::kF32, f.data(), 65535);
  for (uint32_t i = 0; i < 65535; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(f[i]), std::bit_cast<uint32_t>(ToFloat(b[i]))) << i;
  Rng rng;
  std::vector<float> v;
  for (int i = 0; i < 200000; ++i) v.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng.engine()())));
  for (uint32_t i = 0; i < 65536; ++i) {  // every half, its neighbours and the ties between halves
    const uint32_t u = std::bit_cast<uint32_t>(ToFloat(h[i]));
    for (uint32_t delta : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u}) v.push_back(std::bit_cast<float>(u + delta));
    for (uint32_t delta : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u})
      v.push_back(std::bit_cast<float>((i << 16) + delta));
  }
  std::vector<F16> h2(v.size());
  std::vector<BF16> b2(v.size());
  StoreConvert(ComputeType::kF32, v.data(), DType::kF16, h2.data(), 1, v.size());
  StoreConvert(ComputeType::kF32, v.data(), DType::kBF16, b2.data(), 1, v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    ASSERT_EQ(h2[i].bits, ToF16(v[i]).bits) << std::hex << std::bit_cast<uint32_t>(v[i]);
    ASSERT_EQ(b2[i].bits, ToBF16(v[i]).bits) << std::hex << std::bit_cast<uint32_t>(v[i]);
  }
}

TEST(Modes, FloatToIntegerRule) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float values[] = {nan, inf, -inf, 300.7f, -300.7f, -1.9f, 1.9f, 2147483648.0f, -2147483904.0f, 0.5f};
  const int8_t want8[] = {0, 127, -128, 127, -128, -1, 1, 127, -128, 0};
  const int32_t want32[] = {0, INT32_MAX, INT32_MIN, 300, -300, -1, 1, INT32_MAX, INT32_MIN, 0};
  const uint8_t wantu8[] = {0, 255, 0, 255, 0, 0, 1, 255, 0, 0};
  for (int length = 1; length <= 67; ++length) {  // the same in every lane and tail
    for (int at = 0; at < length; ++at) {
      std::vector<float> x(length, 1.0f);
      for (int k = 0; k < 10; ++k) {
        x[at] = values[k];
        std::vector<int8_t> s8(length);
        std::vector<uint8_t> u8(length);
        std::vector<int32_t> s32(length);
        const TensorView in = TensorView::Contiguous(x.data(), DType::kF32, {length});
        CopyConvert(in, TensorView::Contiguous(s8.data(), DType::kS8, {length}));
        CopyConvert(in, TensorView::Contiguous(u8.data(), DType::kU8, {length}));
        CopyConvert(in, TensorView::Contiguous(s32.data(), DType::kS32, {length}));
        ASSERT_EQ(s8[at], want8[k]) << values[k];
        ASSERT_EQ(u8[at], wantu8[k]) << values[k];
        ASSERT_EQ(s32[at], want32[k]) << values[k];
      }
    }
  }
}

// Any length from any place within a line: the same halves as without streams, and nothing beside them.
TEST_P(ModesTier, HalvesPastTheCaches) {
  constexpr int64_t kMost = 300, kGuard = 64;
  constexpr size_t kBytes = (kMost + 3 * kGuard) * sizeof(uint16_t);
  Rng rng;
  for (auto _ : testing::FuzzFor(50)) {
    const int64_t n = rng.Int(0, kMost), at = kGuard + rng.Int(0, 63);
    const std::vector<float> src = RandomFloats(rng, n, -7e4, 7e4);
    for (const DType type : {DType::kF16, DType::kBF16}) {
      AlignedBuffer streamed(kBytes), plain(kBytes);
      std::memset(streamed.data(), 0x5a, kBytes);
      std::memset(plain.data(), 0x5a, kBytes);
      StreamHalf(src.data(), type, streamed.as<uint16_t>() + at, n);
      FlushStreams();
      if (type == DType::kF16) {
        ConvertSimd(src.data(), plain.as<F16>() + at, n);
      } else {
        ConvertSimd(src.data(), plain.as<BF16>() + at, n);
      }
      ASSERT_EQ(std::memcmp(streamed.data(), plain.data(), kBytes), 0) << n << " at " << at;
    }
  }
}

TEST(Modes, CopyConvertBetweenAllTypesAndViews) {
  Rng rng;
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const Dims dims = rng.Shape(0, 4, 500);
      testing::GuardedTensor a(static_cast<DType>(from), dims, &rng, rng.Chance(0.5));
      testing::GuardedTensor b(static_cast<DType>(to), dims, &rng, rng.Chance(0.5));
      a.FillRandom(rng, 0, 100);
      CopyConvert(a.view(), b.view());
      std::vector<double> want = a.Get();
      for (double& v : want) {
        if (static_cast<DType>(to) == DType::kBool)
          v = v != 0;
        else if (!IsFloat(static_cast<DType>(to)))
          v = std::trunc(v);
      }
      EXPECT_EQ(testing::Compare(b.Get(), want, 1e-7, testing::Epsilon(static_cast<DType>(to)) * 1.01), "")
          << Name(static_cast<DType>(from)) << " to " << Name(static_cast<DType>(to)) << " "
          << ToString(dims);
      EXPECT_TRUE(b.GuardsIntact());
    }
  }
}

// Rows over several dims, some of which are not one run in memory; broadcast gamma over two row dims.
TEST(Modes, RowsOfSeveralDims) {
  Rng rng;
  NormOptions o;
  o.gamma = true;
  const auto compiled = Compile(LayerNormProgram(o)).value();
  for (int i = 0; i < 50; ++i) {
    const Dims dims = {rng.Int(1, 4), rng.Int(1, 5), rng.Int(1, 9)};
    const int row_rank = static_cast<int>(rng.Int(1, 3));
    testing::GuardedTensor x(DType::kF32, dims, &rng, true), y(DType::kF32, dims, &rng, true);
    Dims gd = {dims[1], rng.Chance(0.5) ? 1 : dims[2]};
    testing::GuardedTensor g(DType::kF32, gd, &rng, true);
    x.FillRandom(rng, -2, 2), g.FillRandom(rng, -2, 2);
    if (row_rank == 1) {
      gd = {dims[2]};
      g = testing::GuardedTensor(DType::kF32, gd, &rng, true);
      g.FillRandom(rng, -2, 2);
    }
    const TensorView in[] = {x.view(), g.view()};
    RunTensors(*compiled, in, std::span(&y.view(), 1), row_rank);
    int64_t cols = 1;
    for (int k = 3 - row_rank; k < 3; ++k) cols *= dims[k];
    const int64_t rows = NumElements(dims) / cols;
    const auto want =
        ReferenceProgram(Source(*compiled), {x.Get(), BroadcastValues(g.Get(), gd, dims)}, rows, cols);
    EXPECT_EQ(testing::Compare(y.Get(), want[0], 2e-3, 1e-3), "")
        << ToString(dims) << " row rank " << row_rank;
    EXPECT_TRUE(y.GuardsIntact());
  }
}

}  // namespace
}  // namespace opsnn::vector
