// Many rows at a time: pipelines and blocks of short rows give the bits of the interpreter.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/buffer.h"
#include "vector/compiled.h"
#include "vector/convert.h"
#include "vector/modes_for_test.h"

namespace opsnn::vector {
namespace {

class RowsTier : public ModesTier {};
INSTANTIATE_TEST_SUITE_P(Tiers, RowsTier, ::testing::Range(0, isa::kNumTiers),
                         [](const auto& i) { return isa::Name(static_cast<isa::Tier>(i.param)); });

// Many rows go through the pipeline of norm_pipeline-inl.h: the bits are those of the interpreter, whatever
// the type, with stores past the caches, in place, with rows that hold what is not finite, and with values
// and results that are subnormal.
TEST_P(RowsTier, ManyNormRowsEqualTheInterpreter) {
  Rng rng;
  for (const RowCase& c : RowCases()) {
    if (!std::string_view(c.name).ends_with("norm")) continue;
    const auto compiled = Compile(c.program).value();
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const int64_t cols : {64, 192, 768, 2048}) {
        const int64_t rows = rng.Int(30, 60), n = rows * cols;
        AlignedBuffer x(static_cast<size_t>(n) * 4), y[4];
        std::vector<float> values = RandomFloats(rng, n);
        const float tiny = std::ldexp(1.0f, static_cast<int>(rng.Int(-140, -60)));
        for (int64_t r = 0; r < rows; ++r) {
          if (!rng.Chance(0.2)) continue;
          const bool one = rng.Chance(0.5);  // of a row of zeros, or all of them
          for (int64_t i = 0; i < cols; ++i)
            values[static_cast<size_t>(r * cols + i)] *= one && i > 0 ? 0 : tiny;
        }
        values[static_cast<size_t>(rng.Int(0, n - 1))] = std::numeric_limits<float>::quiet_NaN();
        values[static_cast<size_t>(rng.Int(0, n - 1))] = std::numeric_limits<float>::infinity();
        StoreConvert(ComputeType::kF32, values.data(), type, x.data(), 1, n);
        std::vector<float> g = RandomFloats(rng, cols), b = RandomFloats(rng, cols), statistics[4];
        if (rng.Chance(0.3)) g[0] = 0, b[0] = 0, b[1] = -0.0f;
        if (rng.Chance(0.3)) g[2] = tiny, b[2] = rng.Chance(0.5) ? 0 : tiny;
        const size_t bytes = static_cast<size_t>(n) * SizeOf(type);
        for (int mode = 0; mode < 4; ++mode) {  // interpreter, template, past the caches, in place
          y[mode] = AlignedBuffer(bytes);
          if (mode == 3) std::memcpy(y[mode].data(), x.data(), bytes);
          statistics[mode].assign(static_cast<size_t>(2 * rows), 0.0f);
          std::vector<BlockArg> args = {{mode == 3 ? y[mode].data() : x.data(), type, cols, 1}};
          const std::vector<float>* vectors[] = {&g, &b};
          for (int k = 0; k < c.vectors; ++k)
            args.push_back({const_cast<float*>(vectors[k]->data()), DType::kF32, 0, 1});
          args.push_back({y[mode].data(), type, cols, 1});
          for (int k = 0; k < c.statistics; ++k)
            args.push_back({statistics[mode].data() + k * rows, DType::kF32, 1, 0});
          Execute(*compiled, rows, cols, args.data(), {mode == 2, mode != 0});
          EXPECT_EQ(std::memcmp(y[0].data(), y[mode].data(), bytes), 0)
              << Name(type) << " cols " << cols << " mode " << mode;
          EXPECT_TRUE(SameBits(statistics[0], statistics[mode])) << Name(type) << " statistics";
        }
      }
    }
  }
}

// Short rows go many at a time (short_rows-inl.h): the bits are those of the interpreter for any length and
// number of rows, with stores past the caches, in place, with gaps between rows, with rows that hold what is
// not finite and exponentials that are not normal.
TEST_P(RowsTier, ManyShortRowsEqualTheInterpreter) {
  Rng rng;
  for (const RowCase& c : RowCases()) {
    const auto compiled = Compile(c.program).value();
    for (int64_t cols = 1; cols <= 66; cols += cols < 18 ? 1 : rng.Int(1, 8)) {
      const int64_t rows = rng.Int(1, 70), stride = cols + rng.Chance(0.3) * rng.Int(0, 16);
      const int64_t n = rows * stride;
      std::vector<float> values = RandomFloats(rng, n);
      for (int64_t i = 0; i < n; i += rng.Int(1, 5 * n)) {
        const float kSpecial[] = {
            std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF, -120.0f, 86.0f, -0.0f};
        values[static_cast<size_t>(i)] = kSpecial[rng.Int(0, 5)];
      }
      for (int64_t r = 0; r < rows; ++r) {
        if (!rng.Chance(0.1)) continue;
        const float same = rng.Chance(0.5) ? -0.0f : -HUGE_VALF;
        std::fill_n(values.begin() + r * stride, cols, same);
      }
      const std::vector<float> g = RandomFloats(rng, cols), b = RandomFloats(rng, cols);
      AlignedBuffer y[4];
      std::vector<float> statistics[4];
      for (int mode = 0; mode < 4; ++mode) {  // interpreter, template, past the caches, in place
        y[mode] = AlignedBuffer(static_cast<size_t>(n) * sizeof(float));
        std::fill_n(y[mode].as<float>(), n, -7.0f);
        if (mode == 3) std::copy(values.begin(), values.end(), y[mode].as<float>());
        statistics[mode].assign(static_cast<size_t>(2 * rows), 0.0f);
        std::vector<BlockArg> args = {{mode == 3 ? y[mode].data() : values.data(), DType::kF32, stride, 1}};
        const std::vector<float>* vectors[] = {&g, &b};
        for (int k = 0; k < c.vectors; ++k)
          args.push_back({const_cast<float*>(vectors[k]->data()), DType::kF32, 0, 1});
        args.push_back({y[mode].data(), DType::kF32, stride, 1});
        for (int k = 0; k < c.statistics; ++k)
          args.push_back({statistics[mode].data() + k * rows, DType::kF32, 1, 0});
        Execute(*compiled, rows, cols, args.data(), {mode == 2, mode != 0});
        const auto same = [](float p, float q) {  // the sign of a NaN is anybody's
          return (std::isnan(p) && std::isnan(q)) || std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q);
        };
        for (int64_t i = 0; i < n; ++i) {
          if (mode == 3 && i % stride >= cols) continue;
          ASSERT_TRUE(same(y[0].as<float>()[i], y[mode].as<float>()[i]))
              << c.name << " rows " << rows << " cols " << cols << " stride " << stride << " at " << i
              << " mode " << mode << ": " << y[0].as<float>()[i] << ", " << y[mode].as<float>()[i];
        }
        for (size_t i = 0; i < statistics[0].size(); ++i)
          ASSERT_TRUE(same(statistics[0][i], statistics[mode][i]))
              << c.name << " cols " << cols << " row " << i;
      }
    }
  }
}

// Softmax rows go through pipelines (softmax_pipeline-inl.h, x86_softmax_bf16.cc) up to a row whose
// exponentials are not all normal and again behind it: the bits are those of the interpreter, whatever the
// type, the length and the place of such rows, with stores past the caches and in place.
TEST_P(RowsTier, ManySoftmaxRowsEqualTheInterpreter) {
  Rng rng;
  const auto compiled = Compile(SoftmaxProgram()).value();
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t cols : {65, 81, 128, 767, 1000, 4096, 4250, 8240}) {
      const int64_t rows = rng.Int(1, 9), n = rows * cols;
      AlignedBuffer x(static_cast<size_t>(n) * 4), y[4];
      std::vector<float> values = RandomFloats(rng, n);
      for (int64_t r = 0; r < rows; ++r) {
        float& some = values[static_cast<size_t>(r * cols + rng.Int(0, cols - 1))];
        const float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity(), -HUGE_VALF, -120.0f, 86.0f};
        if (rng.Chance(0.3)) some = kSpecial[rng.Int(0, 4)];
      }
      StoreConvert(ComputeType::kF32, values.data(), type, x.data(), 1, n);
      const size_t bytes = static_cast<size_t>(n) * SizeOf(type);
      for (int mode = 0; mode < 4; ++mode) {  // interpreter, template, past the caches, in place
        y[mode] = AlignedBuffer(bytes);
        if (mode == 3) std::memcpy(y[mode].data(), x.data(), bytes);
        const BlockArg args[] = {{mode == 3 ? y[mode].data() : x.data(), type, cols, 1},
                                 {y[mode].data(), type, cols, 1}};
        Execute(*compiled, rows, cols, args, {mode == 2, mode != 0});
        std::vector<float> want(static_cast<size_t>(n)), got(want.size());
        LoadConvert(type, y[0].data(), 1, ComputeType::kF32, want.data(), n);
        LoadConvert(type, y[mode].data(), 1, ComputeType::kF32, got.data(), n);
        for (size_t i = 0; i < want.size(); ++i) {  // the sign of a NaN is anybody's
          if (std::isnan(want[i]) && std::isnan(got[i])) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(want[i]), std::bit_cast<uint32_t>(got[i]))
              << Name(type) << " rows " << rows << " cols " << cols << " at " << i << " mode " << mode;
        }
      }
    }
  }
}

}  // namespace
}  // namespace opsnn::vector
