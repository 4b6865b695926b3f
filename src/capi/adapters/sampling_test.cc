// Sampling of tokens, steps of decoding, dropout, Adam, margins and split cross entropies, against double
// arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aclnnop/aclnn_advance_step.h"
#include "aclnnop/aclnn_advance_step_v2.h"
#include "aclnnop/aclnn_apply_adam.h"
#include "aclnnop/aclnn_apply_adam_w_quant.h"
#include "aclnnop/aclnn_apply_top_k_top_p.h"
#include "aclnnop/aclnn_cross_entropy_sum_exp_and_index_logit.h"
#include "aclnnop/aclnn_dropout.h"
#include "aclnnop/aclnn_dropout_do_mask.h"
#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "aclnnop/aclnn_dropout_v3.h"
#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_multilabel_margin_loss.h"
#include "aclnnop/aclnn_sleep.h"
#include "aclnnop/aclnn_top_k_top_p_sample.h"
#include "base/parallel.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Sampling : public ApiTest {
 protected:
  Rng rng_;
};

constexpr double kOut = -std::numeric_limits<double>::infinity();

std::vector<double> Softmax(const std::vector<double>& x) {
  const double highest = *std::max_element(x.begin(), x.end());
  std::vector<double> p;
  for (double v : x) p.push_back(std::exp(v - highest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

TEST_F(Sampling, ApplyTopKTopP) {
  for (int round = 0; round < 40; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t rows = rng_.Int(1, 3), n = rng_.Int(1, 40);
    RandomTensor x(t, {rows, n}, rng_, round % 2);
    ApiTensor p(t, {rows}), k(DType::kS32, {rows}), y(t, {rows, n}, &rng_, round % 3 == 1);
    p.memory().FillRandom(rng_, 0.25, 1);
    std::vector<double> ks;
    for (int64_t r = 0; r < rows; ++r) ks.push_back(static_cast<double>(rng_.Int(-1, n + 1)));
    k.Set(ks);
    const bool by_p = round % 4 != 1, by_k = round % 4 != 2;
    ASSERT_EQ(CALL(aclnnApplyTopKTopP, x, OrNull(by_p, p), OrNull(by_k, k), y), 0) << aclGetRecentErrMsg();
    const auto got = y.Get(), ps = p.Get();
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<std::pair<double, int64_t>> order;
      for (int64_t i = 0; i < n; ++i) order.emplace_back(x({r, i}), i);
      std::sort(order.begin(), order.end());
      std::vector<double> sorted;
      for (const auto& o : order) sorted.push_back(o.first);
      const double top = ks[static_cast<size_t>(r)];
      if (by_k && top > 0 && top < static_cast<double>(n)) {
        const double lowest = sorted[static_cast<size_t>(n) - static_cast<size_t>(top)];
        for (double& v : sorted)
          if (v < lowest) v = kOut;
      }
      const auto share = Softmax(sorted);
      double sum = 0;
      for (size_t i = 0; i < sorted.size(); ++i) {
        sum += share[i];
        const double limit = 1 - ps[static_cast<size_t>(r)];
        if (by_p && std::abs(sum - limit) < 1e-12) continue;  // rounding decides
        const bool out = sorted[i] == kOut || (by_p && sum <= limit && i + 1 < sorted.size());
        EXPECT_EQ(got[static_cast<size_t>(r * n + order[i].second)], out ? kOut : order[i].first);
      }
    }
    ExpectGuards({&x, &y});
  }
  ApiTensor x(DType::kF32, {2, 3}), p(DType::kF32, {3}), y(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnApplyTopKTopP, x, nullptr, nullptr, y), 161001, {"p and k are null"});
  ExpectRefused(CALL(aclnnApplyTopKTopP, x, p, nullptr, y), 161002, {"p has shape [3]"});
}

TEST_F(Sampling, TopKTopPSample) {
  const int64_t n = 8;
  ApiTensor x(DType::kBF16, {4, n}), k(DType::kS32, {4}), p(DType::kBF16, {4}), q(DType::kF32, {4, n}),
      index(DType::kS64, {4}), kept(DType::kF32, {4, n});
  const std::vector<double> row = {1, 4, 2, 8, 3, 7, 0, 6};
  std::vector<double> all;
  for (int r = 0; r < 4; ++r) all.insert(all.end(), row.begin(), row.end());
  x.Set(all);
  k.Set({3, 0, 2000, 2});     // three; all; all; two
  p.Set({1, 0.75, 1, 0.25});  // all; those in front of which at most 0.75 lies; all; the first
  std::vector<double> ones(32, 1);
  ones[24] = 8;  // the first of the last row, in falling order
  q.Set(ones);
  ASSERT_EQ(CALL(aclnnTopKTopPSample, x, k, p, q, 1e-8, true, 4, index, kept), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(index.Get(), (std::vector<double>{3, 3, 3, 3}));
  std::vector<double> want(32, kOut);
  for (int i : {3, 5, 7}) want[static_cast<size_t>(i)] = row[static_cast<size_t>(i)];
  // exp(8) is 0.63 of all, exp(7) 0.23: 0.63 lies in front of the second, 0.86 of the third.
  for (int i : {3, 5}) want[static_cast<size_t>(8 + i)] = row[static_cast<size_t>(i)];
  for (int i = 0; i < 8; ++i) want[static_cast<size_t>(16 + i)] = row[static_cast<size_t>(i)];
  want[24 + 3] = 8;
  EXPECT_EQ(kept.Get(), want);
  ones[0] = 100;  // the largest is divided by much: the second wins
  q.Set(ones);
  ASSERT_EQ(CALL(aclnnTopKTopPSample, x, k, p, q, 1e-8, false, 4, index, kept), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(index.Get()[0], 5);
  ExpectRefused(CALL(aclnnTopKTopPSample, x, k, p, q, 1e-8, false, 0, index, kept), 161002,
                {"topKGuess is 0"});
}

TEST_F(Sampling, AdvanceStepAndSleep) {
  ApiTensor tokens(DType::kS64, {3}), sampled(DType::kS64, {2, 1}), positions(DType::kS64, {3}),
      lengths(DType::kS64, {3}), slots(DType::kS64, {3}), blocks(DType::kS64, {3, 4});
  tokens.Set({1, 2, 3}), sampled.Set({40, 50}), positions.Set({0, 0, 9}), lengths.Set({5, 7, 2});
  slots.Set({0, 0, 0}), blocks.Set({10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33});
  ASSERT_EQ(CALL(aclnnAdvanceStep, tokens, sampled, positions, lengths, slots, blocks, 3, 2, 2), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(tokens.Get(), (std::vector<double>{40, 50, 0}));
  EXPECT_EQ(positions.Get(), (std::vector<double>{5, 7, 0}));
  EXPECT_EQ(lengths.Get(), (std::vector<double>{6, 8, 2}));
  EXPECT_EQ(slots.Get(), (std::vector<double>{25, 47, -1}));
  // The second sequence is at the end of its blocks.
  ExpectRefused(CALL(aclnnAdvanceStep, tokens, sampled, positions, lengths, slots, blocks, 3, 2, 2), 161002,
                {"seqLens", "is 8"});
  EXPECT_EQ(lengths.Get(), (std::vector<double>{6, 8, 2}));
  // Two tokens are proposed to each of two sequences; the first accepted one of them.
  ApiTensor ids(DType::kS64, {2, 3}), drafts(DType::kS64, {2, 2}), accepted(DType::kS64, {2}),
      all(DType::kS64, {2, 3}), places(DType::kS64, {6}), sizes(DType::kS64, {6}), slot(DType::kS64, {6}),
      table(DType::kS64, {2, 3});
  ids.Set({5, 6, -1, 7, -1, -1}), drafts.Set({1, 2, 3, 4}), accepted.Set({1, 0}), all.Set({0, 0, 0, 0, 0, 0});
  places.Set({0, 1, 2, 3, 4, 5}), sizes.Set({0, 0, 0, 0, 0, 0}), slot.Set({0, 0, 0, 0, 0, 0});
  table.Set({10, 11, 12, 20, 21, 22});
  ASSERT_EQ(CALL(aclnnAdvanceStepV2, all, ids, places, sizes, slot, table, drafts, accepted, 2, 2, 4), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(all.Get(), (std::vector<double>{6, 1, 2, 7, 3, 4}));
  EXPECT_EQ(places.Get(), (std::vector<double>{2, 3, 4, 4, 5, 6}));
  EXPECT_EQ(sizes.Get(), (std::vector<double>{3, 4, 5, 5, 6, 7}));
  EXPECT_EQ(slot.Get(), (std::vector<double>{42, 43, 44, 84, 85, 86}));
  ASSERT_EQ(CALL(aclnnSleep, ApiInts({1000})), 0) << aclGetRecentErrMsg();
  ExpectRefused(CALL(aclnnSleep, ApiInts({-1})), 161002, {"cycles is -1"});
}

TEST_F(Sampling, Dropout) {
  const int64_t n = 4097, bytes = 528;
  RandomTensor x(DType::kF32, {n}, rng_, true);
  std::vector<std::vector<double>> masks;
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    ApiTensor y(DType::kF32, {n}, &rng_, true), mask(DType::kU8, {bytes}), alone(DType::kU8, {bytes});
    ASSERT_EQ(CALL(aclnnDropout, x, 0.25, true, 42, 8, y, mask), 0) << aclGetRecentErrMsg();
    masks.push_back(mask.Get());
    const auto bits = mask.Get(), got = y.Get();
    double kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool on = (static_cast<int>(bits[static_cast<size_t>(i / 8)]) >> (i % 8) & 1) != 0;
      kept += on;
      EXPECT_EQ(got[static_cast<size_t>(i)],
                on ? static_cast<float>(x[i]) * static_cast<float>(1 / 0.75) : 0);
    }
    // Five deviations of the binomial distribution.
    EXPECT_NEAR(kept, 0.75 * n, 5 * std::sqrt(0.75 * 0.25 * n));
    ASSERT_EQ(CALL(aclnnDropoutGenMask, ApiInts({n}), 0.25, 42, 8, alone), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(alone.Get(), bits);
    ASSERT_EQ(CALL(aclnnDropoutGenMaskV2, ApiInts({n}), 0.25, 42, 8, ACL_FLOAT, alone), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(alone.Get(), bits);
    ApiTensor third(DType::kF32, {n});
    ASSERT_EQ(CALL(aclnnDropoutV3, x, nullptr, 0.25, 42, 8, third, alone), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(third.Get(), got);
    EXPECT_EQ(alone.Get(), bits);
    ASSERT_EQ(CALL(aclnnDropoutDoMask, x, mask, 0.25, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), got);
    ASSERT_EQ(CALL(aclnnDropoutGenMask, ApiInts({n}), 0.25, 43, 8, alone), 0) << aclGetRecentErrMsg();
    EXPECT_NE(alone.Get(), bits);
    ExpectGuards({&x, &y, &mask, &alone});
  }
  SetNumThreads(0);
  EXPECT_EQ(masks[0], masks[1]);
  EXPECT_EQ(masks[0], masks[2]);
  ApiTensor y(DType::kF32, {n}), mask(DType::kU8, {bytes}), small(DType::kU8, {16});
  ASSERT_EQ(CALL(aclnnDropout, x, 0.25, false, 42, 8, y, mask), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), x.Get());
  ASSERT_EQ(CALL(aclnnDropout, x, 1.0, true, 42, 8, y, mask), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), std::vector<double>(static_cast<size_t>(n), 0));
  ExpectRefused(CALL(aclnnDropout, x, 1.5, true, 42, 8, y, mask), 161002, {"p is 1.5"});
  ExpectRefused(CALL(aclnnDropout, x, 0.5, true, 42, 8, y, small), 161002, {"maskOut has shape [16]", "528"});
}

TEST_F(Sampling, ApplyAdam) {
  for (int round = 0; round < 12; ++round) {
    const DType t = kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 3, 500);
    const bool nesterov = round % 2;
    RandomTensor var(t, dims, rng_, round % 4 == 1), m(t, dims, rng_), v(t, dims, rng_), grad(t, dims, rng_);
    v.memory().FillRandom(rng_, 0.5, 2);
    ApiTensor numbers[] = {{DType::kF32, {1}}, {DType::kF32, {1}}, {DType::kF32, {1}},
                           {DType::kF32, {1}}, {DType::kF32, {1}}, {DType::kF32, {1}}};
    const double kValues[] = {0.5, 0.75, 0.125, 0.875, 0.9375, 0.0625};  // powers, lr, betas, epsilon
    for (size_t i = 0; i < 6; ++i) numbers[i].Set({kValues[i]});
    ASSERT_EQ(CALL(aclnnApplyAdam, var, m, v, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
                   numbers[5], grad, false, nesterov),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want;
    const auto vs = v.Get();
    for (int64_t i = 0; i < NumElements(dims); ++i) {
      const double next_m = 0.875 * m[i] + 0.125 * grad[i];
      const double next_v = 0.9375 * vs[static_cast<size_t>(i)] + 0.0625 * grad[i] * grad[i];
      const double step = nesterov ? 0.875 * next_m + 0.125 * grad[i] : next_m;
      want.push_back(var[i] - 0.125 * std::sqrt(0.25) / 0.5 * step / (std::sqrt(next_v) + 0.0625));
    }
    std::vector<double> tolerance = PointwiseTolerance(want, t, 16);
    for (double& x : tolerance) x += 16 * 0x1p-24;  // terms of opposite signs
    EXPECT_EQ(Compare(var.Get(), want, tolerance), "");
    ExpectGuards({&var, &m, &v, &grad});
  }
}

TEST_F(Sampling, ApplyAdamWQuant) {
  const int64_t n = 300;
  RandomTensor var(DType::kF32, {n}, rng_), grad(DType::kF32, {n}, rng_);
  ApiTensor m(DType::kU8, {n}), v(DType::kU8, {n}), map_m(DType::kF32, {256}), map_v(DType::kF32, {256}),
      max_m(DType::kF32, {2}), max_v(DType::kF32, {2}), step(DType::kS64, {1});
  std::vector<double> signed_map, unsigned_map, places_m, places_v;
  for (int i = 0; i < 256; ++i) signed_map.push_back((i - 128) / 128.0), unsigned_map.push_back(i / 256.0);
  for (int64_t i = 0; i < n; ++i) {
    places_m.push_back(static_cast<double>(rng_.Int(0, 255)));
    places_v.push_back(static_cast<double>(rng_.Int(1, 255)));
  }
  m.Set(places_m), v.Set(places_v), map_m.Set(signed_map), map_v.Set(unsigned_map);
  max_m.Set({0.5, 2}), max_v.Set({1, 0.25}), step.Set({3});
  ASSERT_EQ(CALL(aclnnApplyAdamWQuant, var, grad, m, v, map_m, map_v, max_m, max_v, step, 0.125, 0.5, 0.75,
                 0.25, 0.0625, 0.5, nullptr, 256),
            0)
      << aclGetRecentErrMsg();
  std::vector<double> want, tolerance, next_m, next_v, most_m = {0, 0}, most_v = {0, 0};
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i), b = k / 256;
    const double g = 0.5 * grad[i];
    next_m.push_back(0.5 * signed_map[static_cast<size_t>(places_m[k])] * (b == 0 ? 0.5 : 2) + 0.5 * g);
    next_v.push_back(0.75 * unsigned_map[static_cast<size_t>(places_v[k])] * (b == 0 ? 1 : 0.25) +
                     0.25 * g * g);
    most_m[b] = std::max(most_m[b], std::abs(next_m[k])), most_v[b] = std::max(most_v[b], next_v[k]);
    const double update = next_m[k] / (1 - 0.125) / (std::sqrt(next_v[k] / (1 - 0.421875)) + 0.0625);
    want.push_back(var[i] - 0.125 * update - 0.125 * 0.25 * var[i]);
    tolerance.push_back(32 * 0x1p-24 * (std::abs(var[i]) + std::abs(update)));
  }
  EXPECT_EQ(Compare(var.Get(), want, tolerance), "");
  const auto got_m = m.Get(), got_v = v.Get();
  for (int b = 0; b < 2; ++b) {
    const auto at = static_cast<size_t>(b);
    EXPECT_NEAR(max_m.Get()[at], most_m[at], 4 * 0x1p-24 * most_m[at]);
    EXPECT_NEAR(max_v.Get()[at], most_v[at], 4 * 0x1p-24 * most_v[at]);
  }
  for (int64_t i = 0; i < n; ++i) {
    // The nearest entry: off by half a step of the table, by a whole one where the sign decides.
    const auto k = static_cast<size_t>(i), b = k / 256;
    const double as_m = signed_map[static_cast<size_t>(got_m[k])] * most_m[b];
    EXPECT_LE(std::abs(as_m - next_m[k]), most_m[b] * 1.0001 / 128);
    EXPECT_GE(as_m * next_m[k], 0);
    EXPECT_LE(std::abs(unsigned_map[static_cast<size_t>(got_v[k])] * most_v[b] - next_v[k]),
              most_v[b] * 1.0001 / 256);
  }
  ExpectRefused(CALL(aclnnApplyAdamWQuant, var, grad, m, v, map_m, map_v, max_m, max_v, step, 0.125, 0.5,
                     0.75, 0.25, 0.0625, 0.5, nullptr, 128),
                161002, {"blockSize is 128"});
}

TEST_F(Sampling, MultilabelMargin) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t rows = round % 4 == 3 ? 1 : rng_.Int(1, 5), classes = rng_.Int(1, 9);
    const int reduction = round % 3;
    const bool single = round % 4 == 3;
    const Dims dims = single ? Dims{classes} : Dims{rows, classes};
    RandomTensor x(t, dims, rng_, round % 2);
    ApiTensor target(DType::kS64, dims), flags(t, dims),
        y(t, reduction != 0 || single ? Dims() : Dims{rows}, &rng_);
    std::vector<double> labels, want, want_flags(static_cast<size_t>(rows * classes));
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<int64_t> own;
      for (int64_t c = 0; c < classes; ++c) own.push_back(c);
      std::shuffle(own.begin(), own.end(), rng_.engine());
      own.resize(static_cast<size_t>(rng_.Int(0, classes)));
      for (int64_t c : own) want_flags[static_cast<size_t>(r * classes + c)] = 1;
      for (int64_t c = 0; c < classes; ++c) {
        const auto i = static_cast<size_t>(c);
        labels.push_back(i < own.size() ? static_cast<double>(own[i]) : -1);
      }
      double sum = 0;
      for (int64_t j : own)
        for (int64_t i = 0; i < classes; ++i)
          if (want_flags[static_cast<size_t>(r * classes + i)] == 0)
            sum += std::max(0.0, 1 - (x[r * classes + j] - x[r * classes + i]));
      want.push_back(sum / static_cast<double>(classes));
    }
    target.Set(labels);
    ASSERT_EQ(CALL(aclnnMultilabelMarginLoss, x, target, reduction, y, flags), 0) << aclGetRecentErrMsg();
    if (reduction != 0) {
      const double sum = std::accumulate(want.begin(), want.end(), 0.0);
      want = {reduction == 1 ? sum / static_cast<double>(rows) : sum};
    }
    std::vector<double> tolerance;
    for (double v : want)
      tolerance.push_back(std::abs(v) *
                          (testing::Epsilon(t) + static_cast<double>(classes * classes + rows) * 0x1p-24));
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
    EXPECT_EQ(flags.Get(), want_flags);
    ExpectGuards({&x, &y, &flags});
  }
  RandomTensor x(DType::kF32, {1, 3}, rng_);
  ApiTensor target(DType::kS64, {1, 3}), flags(DType::kF32, {1, 3}), y(DType::kF32, {1});
  target.Set({1, 3, -1}), y.Set({7});
  ExpectRefused(CALL(aclnnMultilabelMarginLoss, x, target, 0, y, flags), 161002, {"target", "is 3"});
  EXPECT_EQ(y.Get()[0], 7);
}

// Two halves of a vocabulary give what the whole gives.
TEST_F(Sampling, SplitCrossEntropy) {
  const int64_t rows = 6, half = 16;
  RandomTensor left(DType::kF32, {rows, half}, rng_), right(DType::kF32, {rows, half}, rng_);
  ApiTensor target(DType::kS32, {rows}), highest(DType::kF32, {rows});
  std::vector<double> labels, most;
  for (int64_t r = 0; r < rows; ++r) {
    labels.push_back(static_cast<double>(rng_.Int(0, 2 * half - 1)));
    double m = kOut;
    for (int64_t c = 0; c < half; ++c) m = std::max({m, left({r, c}), right({r, c})});
    most.push_back(m);
  }
  target.Set(labels), highest.Set(most);
  std::vector<double> predicted(static_cast<size_t>(rows)), sums(static_cast<size_t>(rows));
  for (int side = 0; side < 2; ++side) {
    RandomTensor& x = side == 0 ? left : right;
    ApiTensor p(DType::kF32, {rows}), s(DType::kF32, {rows}), e(DType::kF32, {rows, half}),
        offset(DType::kS32, {rows}), mask(DType::kS32, {rows});
    ASSERT_EQ(CALL(aclnnCrossEntropySumExpAndIndexLogit, x, target, highest, side * half, (side + 1) * half,
                   p, s, e, offset, mask),
              0)
        << aclGetRecentErrMsg();
    for (int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<size_t>(r);
      const bool here = static_cast<int64_t>(labels[i]) / half == side;
      EXPECT_EQ(mask.Get()[i], here ? 0 : 1);
      EXPECT_EQ(offset.Get()[i], here ? labels[i] - static_cast<double>(side * half) : 0);
      predicted[i] += p.Get()[i], sums[i] += s.Get()[i];
    }
  }
  ApiTensor p(DType::kF32, {rows}), s(DType::kF32, {rows}), y(DType::kF32, {rows}),
      soft(DType::kF32, {rows, half});
  p.Set(predicted), s.Set(sums);
  ASSERT_EQ(CALL(aclnnFusedCrossEntropyLossWithMaxSum, highest, s, p, 0.0F, nullptr, nullptr, left, y, soft),
            0)
      << aclGetRecentErrMsg();
  for (int64_t r = 0; r < rows; ++r) {
    const auto i = static_cast<size_t>(r);
    double sum = 0;
    for (int64_t c = 0; c < half; ++c)
      sum += std::exp(left({r, c}) - most[i]) + std::exp(right({r, c}) - most[i]);
    const auto label = static_cast<int64_t>(labels[i]);
    const double logit = label < half ? left({r, label}) : right({r, label - half});
    const double tolerance = 64 * 0x1p-24 * (1 + std::abs(logit - most[i]));
    EXPECT_NEAR(y.Get()[i], std::log(sum) - (logit - most[i]), tolerance);
    for (int64_t c = 0; c < half; ++c)
      EXPECT_NEAR(soft.Get()[static_cast<size_t>(r * half + c)], std::exp(left({r, c}) - most[i]) / sum,
                  tolerance);
  }
  ExpectRefused(
      CALL(aclnnFusedCrossEntropyLossWithMaxSum, highest, s, p, 0.5F, nullptr, nullptr, left, y, soft),
      161002, {"labelSmoothing is 0.5"});
}

}  // namespace
}  // namespace opsnn::capi
