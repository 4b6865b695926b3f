// Gated units and blocks with 8-bit results, against formulas in double.
#include <algorithm>
#include <cmath>
#include <functional>

#include "aclnnop/aclnn_dequant_bias.h"
#include "aclnnop/aclnn_dequant_situ_quant.h"
#include "aclnnop/aclnn_dequant_swiglu_quant.h"
#include "aclnnop/aclnn_dequant_swiglu_quant_v2.h"
#include "aclnnop/aclnn_dynamic_block_quant.h"
#include "aclnnop/aclnn_dynamic_block_quant_v2.h"
#include "aclnnop/aclnn_dynamic_quant_v4.h"
#include "aclnnop/aclnn_swi_glu_quant.h"
#include "aclnnop/aclnn_swi_glu_quant_v2.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

constexpr double kUlp = 0x1p-24;  // of f32
// A unit, its scales and its step are some 30 operations in f32 of values whose slopes are at most about 2.
constexpr double kOperations = 64;

double Sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

class GatedQuants : public ApiTest {
 protected:
  using At = std::function<double(int64_t row, int64_t column)>;

  // Groups of rows, some of them empty; the last ends with the rows.
  struct Groups {
    std::vector<double> ends, sizes;
    int64_t Of(int64_t row) const {
      size_t g = 0;
      while (ends[g] <= static_cast<double>(row)) ++g;
      return static_cast<int64_t>(g);
    }
  };
  Groups RandomGroups(int64_t groups, int64_t rows) {
    Groups g;
    int64_t at = 0;
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t end = i + 1 == groups ? rows : rng_.Int(at, rows);
      g.ends.push_back(static_cast<double>(end)), g.sizes.push_back(static_cast<double>(end - at));
      at = end;
    }
    return g;
  }

  // The values in front of the rounding are `exact`, computed of terms as large as `magnitude`.
  static void ExpectRounded(ApiTensor& y, int64_t h, const At& exact, const At& magnitude) {
    const auto got = y.Get();
    for (size_t i = 0; i < got.size(); ++i) {
      const auto r = static_cast<int64_t>(i) / h, c = static_cast<int64_t>(i) % h;
      const double want = std::min(127.0, std::max(-128.0, exact(r, c)));
      ASSERT_LE(std::abs(got[i] - want), 0.5 + kOperations * kUlp * (1 + magnitude(r, c)))
          << "row " << r << ", column " << c << ": " << got[i] << " for " << want;
    }
  }
  // Each row by its largest magnitude; a step of 127 / it, or of it / 127. `terms` bounds what is added up to
  // a value: where terms cancel, their errors stay. Rows of zeros have a step of 0 or infinity, and results
  // of 0.
  static void ExpectDynamic(ApiTensor& y, ApiTensor& step, int64_t rows, int64_t h, const At& value,
                            const At& terms, bool inverse) {
    std::vector<double> most(static_cast<size_t>(rows)), error(most.size()), want, near;
    for (int64_t r = 0; r < rows; ++r) {
      double &m = most[static_cast<size_t>(r)], &e = error[static_cast<size_t>(r)];
      for (int64_t c = 0; c < h; ++c) m = std::max(m, std::abs(value(r, c))), e = std::max(e, terms(r, c));
      e = m > 0 ? std::max(1.0, e / m) : 1;  // relative to m, in units of what an operation loses
      want.push_back(inverse ? 127 / m : m / 127);
      near.push_back(kOperations * kUlp * e * m / 127);
      if (inverse) near.back() = kOperations * kUlp * e * want.back();
    }
    EXPECT_EQ(Compare(step.Get(), want, near), "");
    const auto of = [](const std::vector<double>& v, int64_t r) { return v[static_cast<size_t>(r)]; };
    ExpectRounded(
        y, h, [&](int64_t r, int64_t c) { return of(most, r) > 0 ? value(r, c) * 127 / of(most, r) : 0; },
        [&](int64_t r, int64_t) { return 127 * 2 * of(error, r); });
  }

  Rng rng_;
};

TEST_F(GatedQuants, Swiglu) {
  for (int round = 0; round < 48; ++round) {
    const int64_t rows = rng_.Int(1, 20), h = rng_.Int(1, 40), groups = rng_.Int(1, 4);
    const DType t = kFloats[round % 3];
    const bool second = round % 2, grouped = !second || round % 4 == 1, sizes = second && round % 8 == 1;
    const bool fixed = round % 3 == 1, left = round % 5 < 2, single = round % 6 < 2;
    RandomTensor x(t, {rows, 2 * h}, rng_);
    const int64_t tables = grouped ? groups : 1;
    const Dims form = single ? Dims{tables} : Dims{tables, h};
    ApiTensor smooth(DType::kF32, form), offset(DType::kF32, form), ends(DType::kS32, {groups}),
        y(DType::kS8, {rows, h}, &rng_, round % 4 == 3), step(DType::kF32, {rows}, &rng_, round % 5 == 4);
    smooth.memory().FillRandom(rng_, 0.5, 9), offset.memory().FillRandom(rng_, -9, 9);
    const Groups g = RandomGroups(tables, rows);
    if (grouped) ends.Set(sizes ? g.sizes : g.ends);
    char mode[] = "dynamic", still[] = "static";
    ASSERT_EQ(second ? CALL(aclnnSwiGluQuantV2, x, smooth, OrNull(fixed, offset), OrNull(grouped, ends), left,
                            fixed ? still : mode, sizes, 2, y, step)
                     : CALL(aclnnSwiGluQuant, x, smooth, OrNull(fixed, offset), ends, left,
                            fixed ? still : nullptr, y, step),
              0)
        << aclGetRecentErrMsg();
    const auto by = smooth.Get(), plus = offset.Get();
    const auto of = [&](const std::vector<double>& table, int64_t r, int64_t c) {
      return table[static_cast<size_t>(single ? g.Of(r) : g.Of(r) * h + c)];
    };
    const At value = [&](int64_t r, int64_t c) {
      const double gate = x({r, left ? c : h + c}), up = x({r, left ? h + c : c});
      return gate * Sigmoid(gate) * up * of(by, r, c);
    };
    if (fixed) {
      ExpectRounded(
          y, h, [&](int64_t r, int64_t c) { return value(r, c) + of(plus, r, c); },
          [&](int64_t r, int64_t c) { return std::abs(value(r, c)) + 9; });
    } else {
      ExpectDynamic(
          y, step, rows, h, value, [&](int64_t r, int64_t c) { return std::abs(value(r, c)); }, true);
    }
    ExpectGuards({&x, &smooth, &offset, &y, &step});
  }
}

TEST_F(GatedQuants, DequantisedSwiglu) {
  for (int round = 0; round < 64; ++round) {
    const int64_t rows = rng_.Int(1, 20), h = rng_.Int(1, 40), groups = rng_.Int(1, 4);
    const bool second = round % 2, whole = round % 3 != 2, grouped = round % 4 == 1, fixed = round % 5 == 1;
    const int unit = second ? round / 2 % 4 : 0;
    const bool left = unit == 1 || round % 7 < 3, tokens = whole && round % 3 == 0;
    const DType bias_type[] = {DType::kF32, DType::kS32, DType::kF16, DType::kBF16};
    const DType bt = bias_type[round / 3 % 4];
    const bool biased = whole && round % 8 < 6;
    const int64_t tables = grouped ? groups : 1;
    ApiTensor x(whole ? DType::kS32 : kFloats[1 + round % 2], {rows, 2 * h}, &rng_, round % 6 == 5);
    x.memory().FillRandom(rng_, whole ? -1000 : -3, whole ? 1000 : 3);
    const Dims wide = grouped ? Dims{tables, 2 * h} : round % 6 < 3 ? Dims{2 * h} : Dims{1, 2 * h};
    const Dims narrow = fixed ? Dims{tables} : grouped ? Dims{tables, h} : Dims{h};
    ApiTensor weight(DType::kF32, wide), bias(bt, wide), token(DType::kF32, {rows}), by(DType::kF32, narrow),
        plus(DType::kF32, narrow), sizes(DType::kS64, {groups}), y(DType::kS8, {rows, h}),
        step(DType::kF32, {rows});
    weight.memory().FillRandom(rng_, 0.0005, 0.003), token.memory().FillRandom(rng_, 0.5, 1.5);
    bias.memory().FillRandom(rng_, bt == DType::kS32 ? -300 : -1, bt == DType::kS32 ? 300 : 1);
    by.memory().FillRandom(rng_, 0.25, 2), plus.memory().FillRandom(rng_, -9, 9);
    const Groups g = RandomGroups(tables, rows);
    if (grouped) sizes.Set(g.sizes);
    constexpr double kLimit = 1.5, kAlpha = 1.25, kBias = 0.75;
    char mode[] = "dynamic", still[] = "static";
    ASSERT_EQ(second ? CALL(aclnnDequantSwigluQuantV2, x, OrNull(whole, weight), OrNull(tokens, token),
                            OrNull(biased, bias), by, OrNull(fixed, plus), OrNull(grouped, sizes), left,
                            fixed ? nullptr : mode, 2, nullptr, -1, unit, kLimit, kAlpha, kBias, y, step)
                     : CALL(aclnnDequantSwigluQuant, x, OrNull(whole, weight), OrNull(tokens, token),
                            OrNull(biased, bias), by, OrNull(fixed, plus), OrNull(grouped, sizes), left,
                            fixed ? still : mode, y, step),
              0)
        << aclGetRecentErrMsg();
    const auto xs = x.Get(), ws = weight.Get(), ts = token.Get(), bs = bias.Get(), fs = by.Get(),
               ps = plus.Get();
    const At input = [&](int64_t r, int64_t c) {
      double v = xs[static_cast<size_t>(r * 2 * h + c)];
      if (!whole) return v;
      const auto at = static_cast<size_t>(g.Of(r) * 2 * h + c);
      if (biased && bt == DType::kS32) v += bs[at];
      v *= ws[at] * (tokens ? ts[static_cast<size_t>(r)] : 1);
      return biased && bt != DType::kS32 ? v + bs[at] : v;
    };
    // What cancels in an input: the product and the bias.
    const At added = [&](int64_t r, int64_t c) {
      const auto at = static_cast<size_t>(g.Of(r) * 2 * h + c);
      return std::abs(input(r, c)) +
             (biased ? 2 * std::abs(bs[at]) * (bt == DType::kS32 ? ws[at] * 2 : 1) : 0);
    };
    const auto table = [&](const std::vector<double>& v, int64_t r, int64_t c) {
      return v[static_cast<size_t>(fixed ? g.Of(r) : g.Of(r) * h + c)];
    };
    const At act = [&](int64_t r, int64_t c) {
      const int64_t first = unit == 1 ? 2 * c : c, other = unit == 1 ? 2 * c + 1 : h + c;
      double gate = input(r, left ? first : other), up = input(r, left ? other : first);
      if (unit == 0) return gate * Sigmoid(gate) * up;
      up = std::clamp(up, -kLimit, kLimit);
      if (unit == 3) return std::min(gate * Sigmoid(gate), kLimit) * up;
      gate = std::min(gate, kLimit);
      return gate * Sigmoid(kAlpha * gate) * (up + kBias);
    };
    if (fixed) {
      ExpectRounded(
          y, h, [&](int64_t r, int64_t c) { return act(r, c) / table(fs, r, c) + table(ps, r, c); },
          [&](int64_t r, int64_t c) { return std::abs(act(r, c)) * 4 + 40; });
    } else {
      ExpectDynamic(
          y, step, rows, h, [&](int64_t r, int64_t c) { return act(r, c) * table(fs, r, c); },
          [&](int64_t r, int64_t c) {
            const int64_t first = unit == 1 ? 2 * c : c, other = unit == 1 ? 2 * c + 1 : h + c;
            return (added(r, first) * added(r, other) + (unit ? added(r, left ? first : other) : 0)) *
                   table(fs, r, c);
          },
          false);
    }
    ExpectGuards({&weight, &bias, &token, &by, &plus, &sizes, &y, &step});
  }
}

TEST_F(GatedQuants, DequantisedSitu) {
  for (int round = 0; round < 36; ++round) {
    const int64_t rows = rng_.Int(1, 20), h = rng_.Int(1, 40);
    const DType t[] = {DType::kS8, DType::kS32, DType::kF16, DType::kBF16};
    const DType type = t[round % 4];
    const bool narrow = type == DType::kS8, sums = type == DType::kS32, scaled = narrow || sums;
    const bool fixed = narrow && round % 8 == 0, smooth = narrow && round % 3 == 0, left = round % 5 < 2;
    const double beta = 4, linear = round % 3 == 1 ? -1 : 2.5;
    ApiTensor x(type, {rows, 2 * h}, &rng_, round % 6 == 5), weight(DType::kF32, {2 * h}),
        bias(DType::kF32, {2 * h}), token(DType::kF32, {1}), by(DType::kF32, {h}), plus(DType::kF32, {1}),
        y(DType::kS8, {rows, h}), step(DType::kF32, {rows});
    x.memory().FillRandom(rng_, narrow ? -100 : sums ? -1000 : -3, narrow ? 100 : sums ? 1000 : 3);
    weight.memory().FillRandom(rng_, 0.01, 0.04), bias.memory().FillRandom(rng_, -1, 1);
    by.memory().FillRandom(rng_, 0.25, 2), token.Set({0.125}), plus.Set({3});
    const bool biased = scaled && round % 3 != 2;
    char mode[] = "dynamic", still[] = "static";
    ASSERT_EQ(CALL(aclnnDequantSituQuant, x, OrNull(scaled, weight), OrNull(sums, token),
                   OrNull(biased, bias), OrNull(fixed || smooth, by), OrNull(fixed, plus), nullptr,
                   static_cast<float>(beta), static_cast<float>(linear), left,
                   fixed            ? still
                   : round % 2 == 0 ? mode
                                    : nullptr,
                   y, step),
              0)
        << aclGetRecentErrMsg();
    const auto xs = x.Get(), ws = weight.Get(), bs = bias.Get(), fs = by.Get();
    const At input = [&](int64_t r, int64_t c) {
      const double v = xs[static_cast<size_t>(r * 2 * h + c)];
      if (!scaled) return v;
      return v * ws[static_cast<size_t>(c)] * (sums ? 0.125 : 1) + (biased ? bs[static_cast<size_t>(c)] : 0);
    };
    const At act = [&](int64_t r, int64_t c) {
      const double gate = input(r, left ? c : h + c);
      double up = input(r, left ? h + c : c);
      if (linear > 0) up = linear * std::tanh(up / linear);
      return beta * std::tanh(gate / beta) * Sigmoid(gate) * up;
    };
    const auto factor = [&](int64_t c) { return fs[static_cast<size_t>(c)]; };
    const At added = [&](int64_t r, int64_t c) {  // what cancels in an input: the product and the bias
      return std::abs(input(r, c)) + (biased ? 2 * std::abs(bs[static_cast<size_t>(c)]) : 0);
    };
    if (fixed) {
      ExpectRounded(
          y, h, [&](int64_t r, int64_t c) { return act(r, c) / factor(c) + 3; },
          [&](int64_t r, int64_t c) { return std::abs(act(r, c)) * 4 + 20; });
    } else {
      ExpectDynamic(
          y, step, rows, h, [&](int64_t r, int64_t c) { return act(r, c) * (smooth ? factor(c) : 1); },
          [&](int64_t r, int64_t c) { return added(r, c) * added(r, h + c) * (smooth ? factor(c) : 1); },
          false);
    }
    ExpectGuards({&weight, &bias, &token, &by, &y, &step});
  }
}

TEST_F(GatedQuants, DequantBias) {
  for (int round = 0; round < 24; ++round) {
    const int64_t m = rng_.Int(1, 20), n = rng_.Int(1, 40);
    const DType t = round % 2 ? DType::kF16 : DType::kBF16, wt = round % 2 ? DType::kF32 : DType::kBF16;
    const DType bias_type[] = {DType::kF32, DType::kS32, DType::kF16, DType::kBF16};
    const DType bt = bias_type[round / 2 % 4];
    const bool rows = round % 3 == 0, biased = round % 5 != 4, whole = bt == DType::kS32;
    ApiTensor x(DType::kS32, {m, n}, &rng_, round % 4 == 3), weight(wt, {n}), token(DType::kF32, {m}),
        bias(bt, {n}), y(t, {m, n}, &rng_, round % 5 == 2);
    x.memory().FillRandom(rng_, -1000, 1000), weight.memory().FillRandom(rng_, 0.001, 0.01);
    token.memory().FillRandom(rng_, 0.5, 2),
        bias.memory().FillRandom(rng_, whole ? -300 : -2, whole ? 300 : 2);
    ASSERT_EQ(CALL(aclnnDequantBias, x, weight, OrNull(rows, token), OrNull(biased, bias),
                   t == DType::kF16 ? 1 : 27, y),
              0)
        << aclGetRecentErrMsg();
    const auto xs = x.Get(), ws = weight.Get(), ts = token.Get(), bs = bias.Get();
    std::vector<double> want, near;
    for (size_t i = 0; i < xs.size(); ++i) {
      const size_t r = i / static_cast<size_t>(n), c = i % static_cast<size_t>(n);
      const double z = (xs[i] + (biased && whole ? bs[c] : 0)) * ws[c] * (rows ? ts[r] : 1);
      want.push_back(z + (biased && !whole ? bs[c] : 0));
      near.push_back(std::abs(want.back()) * testing::Epsilon(t) + 8 * kUlp * (std::abs(z) + 2));
    }
    EXPECT_EQ(Compare(y.Get(), want, near), "") << Name(bt);
    ExpectGuards({&weight, &token, &bias, &y});
  }
}

TEST_F(GatedQuants, Blocks) {
  for (int round = 0; round < 16; ++round) {
    constexpr int64_t kRows[] = {1, 64, 128};
    const int64_t rb = kRows[round % 3], cb = round % 2 ? 64 : 128, batch = rng_.Int(1, 3);
    const int64_t m = rng_.Int(1, 150), n = rng_.Int(1, 300);
    const bool second = round % 2, three = round % 4 < 2;
    const double least = round % 5 == 4 ? 50 : 0;
    Dims dims = {m, n}, blocks = {(m + rb - 1) / rb, (n + cb - 1) / cb};
    if (three) dims.insert(0, batch), blocks.insert(0, batch);
    RandomTensor x(kFloats[round % 3], dims, rng_, round % 4 == 1);
    ApiTensor y(DType::kS8, dims, &rng_, round % 4 == 2), step(DType::kF32, blocks, &rng_, round % 4 == 3);
    ASSERT_EQ(second ? CALL(aclnnDynamicBlockQuantV2, x, least, nullptr, 2, rb, cb, 0.0, y, step)
                     : CALL(aclnnDynamicBlockQuant, x, least, nullptr, 2, rb, cb, y, step),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(NumElements(blocks))), near;
    const auto block = [&](int64_t i) {
      const int64_t c = i % n, r = i / n % m, b = i / n / m;
      return static_cast<size_t>((b * ((m + rb - 1) / rb) + r / rb) * ((n + cb - 1) / cb) + c / cb);
    };
    for (int64_t i = 0; i < NumElements(dims); ++i)
      want[block(i)] = std::max(want[block(i)], std::abs(x[i]) / 127);
    for (double& s : want) {
      if (least > 0) s = std::min(s, 1 / least);
      near.push_back(s * 4 * kUlp);
    }
    EXPECT_EQ(Compare(step.Get(), want, near), "");
    const auto got = y.Get();
    for (int64_t i = 0; i < NumElements(dims); ++i) {
      const double s = want[block(i)], v = s == 0 ? 0 : std::clamp(x[i] / s, -128.0, 127.0);
      ASSERT_LE(std::abs(got[static_cast<size_t>(i)] - v), 0.5 + 127 * 8 * kUlp) << i;
    }
    ExpectGuards({&x, &y, &step});
  }
  ApiTensor x(DType::kF32, {4, 70}), y(DType::kS8, {4, 70}), step(DType::kF32, {4, 2}),
      wrong(DType::kF32, {4, 1});
  ExpectRefused(CALL(aclnnDynamicBlockQuant, x, 0.0, nullptr, 2, 1, 64, y, wrong), 161002,
                {"scaleOut has shape [4,1]", "[4,2]"});
  ExpectRefused(CALL(aclnnDynamicBlockQuant, x, 0.0, nullptr, 2, 2, 64, y, step), 161002,
                {"rowBlockSize is 2", "1, 64, 128, 256, 512"});
  ExpectRefused(CALL(aclnnDynamicBlockQuant, x, -1.0, nullptr, 2, 1, 64, y, step), 161002,
                {"minScale is -1"});
}

TEST_F(GatedQuants, DynamicQuantV4IsV3To8Bits) {
  ApiTensor x(DType::kF16, {2, 3}), y(DType::kS8, {2, 3}), step(DType::kF32, {2}), offset(DType::kF32, {2});
  x.Set({0, 0, 0, 1, 2, -4});
  ASSERT_EQ(CALL(aclnnDynamicQuantV4, x, nullptr, nullptr, 2, true, "pertoken", 0, y, step, nullptr), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{0, 0, 0, 32, 64, -127}));
  ExpectRefused(CALL(aclnnDynamicQuantV4, x, nullptr, nullptr, 34, true, "pertoken", 0, y, step, nullptr),
                161002, {"aclnnDynamicQuantV4: dstType is 34"});
  for (const float most : {-1.0F, 32769.0F, std::nanf("")}) {
    ExpectRefused(CALL(aclnnDynamicQuantV4, x, nullptr, nullptr, 2, true, "pertoken", most, y, step, nullptr),
                  161002, {"aclnnDynamicQuantV4: dstTypeMax is ", "0 to 32768"});
  }
}

// Lists that do not rise or leave the rows: a row takes the group whose number is the count of the ends that
// are not behind it.
TEST_F(GatedQuants, EndsInNoOrder) {
  ApiTensor x(DType::kF16, {4, 2}), y(DType::kS8, {4, 1}), step(DType::kF32, {4}), by(DType::kF32, {3}),
      ends(DType::kS32, {3});
  x.Set({1, 1, 1, 1, 1, 1, 1, 1}), by.Set({10, 20, 40});
  char still[] = "static";
  constexpr double kOf[] = {7, 15, 29};  // 10, 20 and 40 times silu(1)
  const auto groups = [&](const std::vector<double>& list, int64_t sizes, const std::vector<size_t>& want) {
    ends.Set(list);
    ASSERT_EQ(CALL(aclnnSwiGluQuantV2, x, by, nullptr, ends, true, still, sizes, 2, y, step), 0)
        << aclGetRecentErrMsg();
    const auto got = y.Get();
    for (size_t r = 0; r < 4; ++r) EXPECT_EQ(got[r], kOf[want[r]]) << "row " << r;
  };
  groups({5, -1, 2}, 0, {1, 1, 2, 2});
  groups({9, 9, 9}, 0, {0, 0, 0, 0});
  groups({-3, -2, -1}, 0, {2, 2, 2, 2});
  groups({3, -2, 1}, 1, {0, 1, 2, 2});  // sizes: they end at 3, 1 and 2
}

TEST_F(GatedQuants, Refusals) {
  ApiTensor x(DType::kF16, {2, 6}), odd(DType::kF16, {2, 5}), sums(DType::kS32, {2, 6}),
      y(DType::kS8, {2, 3}), wide(DType::kS8, {2, 6}), step(DType::kF32, {2}), weight(DType::kF32, {6}),
      by(DType::kF32, {3}), ends(DType::kS32, {2});
  char wrong[] = "dynamic_msd", still[] = "static", ceil[] = "ceil", mode[] = "dynamic";
  const auto swiglu = [&](aclTensor* in, char* how, aclTensor* out) {
    return CALL(aclnnSwiGluQuant, in, by, nullptr, nullptr, true, how, out, step);
  };
  EXPECT_EQ(swiglu(x, nullptr, y), 0) << aclGetRecentErrMsg();
  ExpectRefused(swiglu(odd, nullptr, y), 161002, {"aclnnSwiGluQuant: x is of shape [2,5]", "even"});
  ExpectRefused(swiglu(x, wrong, y), 161002, {"quantModeOptional is \"dynamic_msd\"", "\"static\""});
  ExpectRefused(swiglu(x, nullptr, wide), 161002, {"yOut has shape [2,6]", "[2,3]"});
  ExpectRefused(CALL(aclnnSwiGluQuant, x, by, nullptr, ends, true, nullptr, y, step), 161002,
                {"smoothScalesOptional has shape [3]", "[2]", "per group"});
  ExpectRefused(CALL(aclnnSwiGluQuantV2, x, by, nullptr, ends, true, nullptr, 2, 2, y, step), 161002,
                {"groupListType is 2"});
  ExpectRefused(CALL(aclnnSwiGluQuantV2, x, by, nullptr, nullptr, true, nullptr, 0, 29, y, step), 561003,
                {"dstType is 29"});
  const auto dequant = [&](aclTensor* in, aclTensor* w, char* how, char* rounding, int64_t dim, int64_t unit,
                           double limit, bool left) {
    return CALL(aclnnDequantSwigluQuantV2, in, w, nullptr, nullptr, by, nullptr, nullptr, left, how, 2,
                rounding, dim, unit, limit, 1.0, 0.0, y, step);
  };
  EXPECT_EQ(dequant(sums, weight, mode, nullptr, 1, 0, 0, true), 0) << aclGetRecentErrMsg();
  ExpectRefused(dequant(sums, nullptr, mode, nullptr, 1, 0, 0, true), 161001,
                {"weightScaleOptional is null", "x has dtype s32"});
  ExpectRefused(dequant(x, weight, mode, nullptr, 1, 0, 0, true), 161002,
                {"weightScaleOptional is given", "x is of floats"});
  ExpectRefused(dequant(x, nullptr, still, nullptr, 1, 0, 0, true), 161001, {"quantOffsetOptional is null"});
  ExpectRefused(dequant(x, nullptr, mode, ceil, 1, 0, 0, true), 161002, {"roundModeOptional is \"ceil\""});
  ExpectRefused(dequant(x, nullptr, mode, nullptr, 0, 0, 0, true), 561003, {"activateDim is 0"});
  ExpectRefused(dequant(x, nullptr, mode, nullptr, 1, 4, 0, true), 161002, {"swigluMode is 4"});
  ExpectRefused(dequant(x, nullptr, mode, nullptr, 1, 2, 0, true), 161002, {"clampLimit is 0"});
  ExpectRefused(dequant(x, nullptr, mode, nullptr, 1, 1, 7, false), 161002, {"activateLeft is false"});
  ExpectRefused(dequant(sums, by, mode, nullptr, 1, 0, 0, true), 161002,
                {"weightScaleOptional is of shape [3]", "[6]"});
  ExpectRefused(CALL(aclnnDequantSituQuant, x, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0.0F,
                     1.0F, true, nullptr, y, step),
                161002, {"beta is 0"});
  ExpectRefused(CALL(aclnnDequantSituQuant, sums, weight, nullptr, nullptr, nullptr, nullptr, nullptr, 4.0F,
                     1.0F, true, nullptr, y, step),
                161001, {"activationScaleOptional is null"});
  ApiTensor floats(DType::kBF16, {2, 6});
  ExpectRefused(CALL(aclnnDequantBias, sums, weight, nullptr, nullptr, 1, floats), 161002,
                {"out has dtype bf16", "f16"});
}

}  // namespace
}  // namespace opsnn::capi
