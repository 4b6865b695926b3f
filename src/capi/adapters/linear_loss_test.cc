// A linear layer with the cross entropy behind it, and products stored as s8, against double arithmetic.
#include <cmath>
#include <cstring>

#include "aclnnop/aclnn_batchmatmul_quant.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "aclnnop/aclnn_matmul_emu_split_weight.h"
#include "aclnnop/aclnn_rotate_quant.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

using Values = std::vector<double>;

// Rows of a times rows of b: a [m, k], b [n, k].
Values TimesRows(const Values& a, const Values& b, int64_t m, int64_t k, int64_t n) {
  Values y;
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = 0;
    for (int64_t q = 0; q < k; ++q)
      sum += a[static_cast<size_t>(i / n * k + q)] * b[static_cast<size_t>(i % n * k + q)];
    y.push_back(sum);
  }
  return y;
}

class LinearLoss : public ApiTest {
 protected:
  Rng rng_;
};

// The whole vocabulary on one device: max, sum and softmax of the logits.
struct Logits {
  Values z, most, sum;
};
Logits LogitsOf(const Values& x, const Values& w, int64_t rows, int64_t width, int64_t vocabulary) {
  Logits l{TimesRows(x, w, rows, width, vocabulary), {}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v)
      most = std::max(most, l.z[static_cast<size_t>(r * vocabulary + v)]);
    for (int64_t v = 0; v < vocabulary; ++v)
      sum += std::exp(l.z[static_cast<size_t>(r * vocabulary + v)] - most);
    l.most.push_back(most), l.sum.push_back(sum);
  }
  return l;
}

TEST_F(LinearLoss, StatisticsAndGradients) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[1 + round % 2], index = round % 3 ? DType::kS64 : DType::kS32;
    // Several parts of rows in some rounds: logits of 16 MiB are 64 rows of 65536.
    const bool large = round == 5;
    const int64_t rows = large ? 70 : rng_.Int(1, 30), width = large ? 3 : rng_.Int(1, 20),
                  vocabulary = large ? 65536 : rng_.Int(1, 50);
    const int64_t start = rng_.Int(0, 5), end = start + rng_.Int(0, vocabulary),
                  last = std::min(end, start + vocabulary - 1);  // what the weights have rows for
    RandomTensor x(t, {rows, width}, rng_, round % 3 == 1, 2),
        w(t, {vocabulary, width}, rng_, round % 3 == 2, 2);
    ApiTensor target(index, {rows}), most(DType::kF32, {rows}), sum(DType::kF32, {rows}),
        predicted(DType::kF32, {rows}), mask(DType::kU8, {(rows + 7) / 8}), masked(index, {rows}),
        logits(t, {rows, vocabulary}, &rng_);
    Values targets;
    for (int64_t i = 0; i < rows; ++i)
      targets.push_back(static_cast<double>(rng_.Int(std::max<int64_t>(0, start - 3), end + 3)));
    target.Set(targets);
    ASSERT_EQ(CALL(aclnnFusedLinearOnlineMaxSum, x, w, target, start, end, most, sum, predicted, mask, masked,
                   OrNull(round % 2, logits)),
              0)
        << aclGetRecentErrMsg();
    const Logits want = LogitsOf(x.values(), w.values(), rows, width, vocabulary);
    Values hit, places, bytes(static_cast<size_t>((rows + 7) / 8), 255), loose, loose_sum;
    std::vector<bool> here;
    for (int64_t r = 0; r < rows; ++r) {
      const auto k = static_cast<size_t>(r);
      const bool in = targets[k] >= static_cast<double>(start) && targets[k] <= static_cast<double>(last);
      places.push_back(in ? targets[k] - static_cast<double>(start) : 0);
      hit.push_back(in ? want.z[static_cast<size_t>(r * vocabulary) + static_cast<size_t>(places.back())] -
                             want.most[k]
                       : 0);
      if (in) bytes[k / 8] -= 1 << (k % 8);
      here.push_back(in);
      loose.push_back(SumTolerance(want.most[k], 4, width, DType::kF32) * 2);
      loose_sum.push_back(want.sum[k] * (loose.back() * 2 + 0x1p-18));
    }
    EXPECT_EQ(Compare(most.Get(), want.most, loose), "") << Name(t);
    EXPECT_EQ(Compare(sum.Get(), want.sum, loose_sum), "") << Name(t);
    EXPECT_EQ(Compare(predicted.Get(), hit, loose), "") << Name(t);
    EXPECT_EQ(mask.Get(), bytes);
    EXPECT_EQ(masked.Get(), places);
    if (round % 2) {
      Values tolerance;
      for (double v : want.z) tolerance.push_back(SumTolerance(v, 4, width, t));
      EXPECT_EQ(Compare(logits.Get(), want.z, tolerance), "");
    }
    // The gradient of sum g * (log sum - z[target]), from the statistics or from the softmax.
    RandomTensor grad(DType::kF32, {rows}, rng_, round % 4 == 1, 2);
    ApiTensor dx(t, {rows, width}, &rng_, round % 4 == 3), dw(t, {vocabulary, width}),
        softmax(DType::kF32, {rows, vocabulary});
    most.Set(want.most), sum.Set(want.sum);
    Values p, z_grad;
    for (int64_t i = 0; i < rows * vocabulary; ++i) {
      const auto r = static_cast<size_t>(i / vocabulary);
      p.push_back(std::exp(want.z[static_cast<size_t>(i)] - want.most[r]) / want.sum[r]);
      const bool at = here[r] && places[r] == static_cast<double>(i % vocabulary);
      z_grad.push_back((p.back() - at) * grad[static_cast<int64_t>(r)]);
    }
    softmax.Set(p);
    const bool from_softmax = round % 3 == 0 && !large;
    ASSERT_EQ(
        CALL(aclnnFusedLinearCrossEntropyLossGrad, grad, x, w, mask, masked, 0.0f,
             OrNull(!from_softmax, most), OrNull(!from_softmax, sum), OrNull(from_softmax, softmax), dx, dw),
        0)
        << aclGetRecentErrMsg();
    Values want_x(static_cast<size_t>(rows * width)), want_w(static_cast<size_t>(vocabulary * width));
    for (int64_t i = 0; i < rows * vocabulary; ++i) {
      const double g = z_grad[static_cast<size_t>(i)];
      for (int64_t q = 0; q < width; ++q) {
        want_x[static_cast<size_t>(i / vocabulary * width + q)] += g * w[i % vocabulary * width + q];
        want_w[static_cast<size_t>(i % vocabulary * width + q)] += g * x[i / vocabulary * width + q];
      }
    }
    auto tolerances = [&](const Values& v) {
      Values tolerance;
      for (double e : v)
        tolerance.push_back(std::abs(e) * testing::Epsilon(t) + 0x1p-15 * 4 +
                            (t == DType::kF16 ? 0x1p-24 : 0));
      return tolerance;
    };
    EXPECT_EQ(Compare(dx.Get(), want_x, tolerances(want_x)), "") << Name(t) << from_softmax;
    EXPECT_EQ(Compare(dw.Get(), want_w, tolerances(want_w)), "") << Name(t) << from_softmax;
    ExpectGuards({&x, &w, &most, &sum, &predicted, &mask, &masked, &logits, &dx, &dw});
    ExpectRefused(CALL(aclnnFusedLinearCrossEntropyLossGrad, grad, x, w, mask, masked, 0.0f, nullptr, sum,
                       nullptr, dx, dw),
                  161001, {"logitsMaxOptional is null"});
    ExpectRefused(CALL(aclnnFusedLinearCrossEntropyLossGrad, grad, x, w, mask, masked, 0.1f, most, sum,
                       nullptr, dx, dw),
                  161002, {"labelSmoothing is 0.1"});
    ExpectRefused(
        CALL(aclnnFusedLinearOnlineMaxSum, x, w, target, 3, 2, most, sum, predicted, mask, masked, nullptr),
        161002, {"vocabEndIndex is 2"});
  }
}

TEST_F(LinearLoss, MatmulEmuSplitWeight) {
  for (int round = 0; round < 12; ++round) {
    const int64_t m = rng_.Int(1, 9), k = rng_.Int(1, 40), n = rng_.Int(1, 40);
    RandomTensor x(DType::kBF16, {m, k}, rng_, round % 3 == 1, 2),
        high(DType::kBF16, {k, n}, rng_, round % 3 == 2, 2), low(DType::kBF16, {k, n}, rng_, false, 2);
    ApiTensor y(DType::kF32, {m, n}, &rng_, round % 4 == 3);
    ASSERT_EQ(CALL(aclnnMatmulEmuSplitWeight, x, high, low, y, 1.0f / 256, 0), 0) << aclGetRecentErrMsg();
    Values want, tolerance;
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t q = 0; q < k; ++q)
        sum += x[i / n * k + q] * (high[q * n + i % n] + low[q * n + i % n] / 256);
      want.push_back(sum);
      tolerance.push_back(SumTolerance(sum, 5, k, DType::kF32) * 2);
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
    ExpectGuards({&x, &high, &low, &y});
    ExpectRefused(CALL(aclnnMatmulEmuSplitWeight, x, high, low, y, 0.5f, 0), 161002, {"wLowScale is 0.5"});
    ExpectRefused(CALL(aclnnMatmulEmuSplitWeight, x, high, low, y, 1.0f / 256, 1), 161002, {"yDtype is 1"});
  }
}

TEST_F(LinearLoss, BatchMatmulQuant) {
  for (int round = 0; round < 12; ++round) {
    const int64_t m = rng_.Int(1, 9), k = rng_.Int(1, 20), n = rng_.Int(1, 20), all = (n + 15) / 16 * 16;
    const bool one = round % 2, with_bias = round % 3 == 0, transposed = round % 4 < 2;
    RandomTensor x1(DType::kF16, {m, k}, rng_, round % 3 == 1, 2),
        x2(DType::kF16, transposed ? Dims{n, k} : Dims{k, n}, rng_, false, 2), bias(DType::kF16, {n}, rng_);
    ApiTensor bits(DType::kS64, {one ? 1 : all}), y(DType::kS8, {m, n}, &rng_, round % 4 == 3);
    Values scale, offset;
    for (int64_t i = 0; i < bits.dims()[0]; ++i) {
      const auto s = static_cast<float>(rng_.Int(1, 64)) / 16;  // few bits, so nothing is cut
      const int64_t o = rng_.Int(-20, 20);
      uint32_t word;
      std::memcpy(&word, &s, sizeof(s));
      static_cast<uint64_t*>(bits.memory().view().data)[i] =
          word | uint64_t{1} << 46 | (static_cast<uint64_t>(o) & 0x1FF) << 37;
      scale.push_back(s), offset.push_back(static_cast<double>(o));
    }
    ASSERT_EQ(CALL(aclnnBatchMatmulQuant, x1, x2, bits, OrNull(with_bias, bias), false, transposed, y), 0)
        << aclGetRecentErrMsg();
    const Values got = y.Get();
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = with_bias ? bias[i % n] : 0;
      for (int64_t q = 0; q < k; ++q)
        sum += x1[i / n * k + q] * (transposed ? x2[i % n * k + q] : x2[q * n + i % n]);
      const size_t c = one ? 0 : static_cast<size_t>(i % n);
      const double exact = std::min(127.0, std::max(-128.0, sum * scale[c] + offset[c]));
      EXPECT_LE(std::abs(got[static_cast<size_t>(i)] - exact), 0.5 + 0x1p-10);
    }
    ExpectGuards({&x1, &x2, &y});
  }
}

TEST_F(LinearLoss, RotateQuant) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t m = rng_.Int(1, 9), k = rng_.Int(1, 20), n = k * rng_.Int(1, 5);
    RandomTensor x(t, {m, n}, rng_, round % 3 == 1, 2), rotation(t, {k, k}, rng_, round % 3 == 2, 2);
    ApiTensor y(DType::kS8, {m, n}, &rng_, round % 4 == 3), step(DType::kF32, {m});
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%s", round % 3 == 0 ? "rint" : round % 3 == 1 ? "round" : "floor");
    ASSERT_EQ(CALL(aclnnRotateQuant, x, rotation, nullptr, -1, mode, 0, 0.0, false, y, step), 0)
        << aclGetRecentErrMsg();
    Values want, steps, tolerance;
    for (int64_t r = 0; r < m; ++r) {
      Values row;
      double most = 0;
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q) sum += x[r * n + c / k * k + q] * rotation[q * k + c % k];
        row.push_back(sum), most = std::max(most, std::abs(sum));
      }
      steps.push_back(most / 127), tolerance.push_back(SumTolerance(most, 4, k, DType::kF32) / 64);
      for (double v : row) want.push_back(most > 0 ? v / steps.back() : 0);
    }
    const Values got = y.Get();
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = got[i] - want[i];
      EXPECT_TRUE(round % 3 == 2 ? error <= 0x1p-8 && error > -1 - 0x1p-8 : std::abs(error) <= 0.5 + 0x1p-8)
          << mode << " " << got[i] << ", exactly " << want[i];
    }
    EXPECT_EQ(Compare(step.Get(), steps, tolerance), "");
    ExpectGuards({&x, &y, &step});
    char other[] = "ceil";
    ExpectRefused(CALL(aclnnRotateQuant, x, rotation, nullptr, -1, other, 0, 0.0, false, y, step), 161002,
                  {"roundMode is \"ceil\""});
    ExpectRefused(CALL(aclnnRotateQuant, x, rotation, nullptr, 0, mode, 0, 0.0, false, y, step), 161002,
                  {"axis is 0"});
  }
}

}  // namespace
}  // namespace opsnn::capi
