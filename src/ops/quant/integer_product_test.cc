// Integer products and convolutions against 64-bit loops.
#include <algorithm>
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;
using Ints = std::vector<int64_t>;

DType Byte(Rng& rng) { return rng.Chance(0.5) ? DType::kU8 : DType::kS8; }

GuardedTensor Bytes(Rng& rng, DType t, const Dims& dims) {
  GuardedTensor x(t, dims, &rng, rng.Chance(0.3));
  std::vector<double> v(static_cast<size_t>(NumElements(dims)));
  for (double& e : v) e = static_cast<double>(t == DType::kU8 ? rng.Int(0, 255) : rng.Int(-128, 127));
  x.Set(v);
  return x;
}

// Batch dims that broadcast in both directions, contiguous and strided operands.
TEST(MatMulInteger, BroadcastsBatches) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const int64_t m = rng.Int(1, 9), n = rng.Int(1, 40), k = rng.Int(0, 30), p = rng.Int(1, 3),
                  q = rng.Int(1, 3);
    const int64_t pa = rng.Chance(0.5) ? p : 1, qa = rng.Chance(0.5) ? q : 1;
    const int64_t pb = rng.Chance(0.5) ? p : 1, qb = rng.Chance(0.5) ? q : 1;
    const Dims a_dims = {pa, qa, m, k}, b_dims = {pb, qb, k, n};
    const GuardedTensor a = Bytes(rng, Byte(rng), a_dims), b = Bytes(rng, Byte(rng), b_dims);
    OpTester t("MatMulInteger");
    ASSERT_TRUE(t.In(a).In(b).Run().ok()) << t.status().message();
    const std::vector<double> x = a.Get(), y = b.Get();
    std::vector<double> want;
    for (int64_t u = 0; u < std::max(pa, pb); ++u) {
      for (int64_t v = 0; v < std::max(qa, qb); ++v) {
        const int64_t ia = (pa > 1 ? u : 0) * qa + (qa > 1 ? v : 0),
                      ib = (pb > 1 ? u : 0) * qb + (qb > 1 ? v : 0);
        for (int64_t r = 0; r < m * n; ++r) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += x[static_cast<size_t>((ia * m + r / n) * k + l)] *
                   y[static_cast<size_t>((ib * k + l) * n + r % n)];
          }
          want.push_back(sum);
        }
      }
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(a_dims) << ToString(b_dims);
  }
}

class OnePack : public PackCache {
 public:
  std::shared_ptr<const void> GetOrMake(const ConstTensor&, const std::string&,
                                        FunctionRef<std::shared_ptr<const void>()> make) override {
    if (!entry) entry = make();
    return entry;
  }
  std::shared_ptr<const void> entry;
};

TEST(MatMulInteger, ConstantWeightsArePackedOnce) {
  Rng rng;
  OnePack cache;
  const int64_t n = 70, k = 45;
  auto b = std::make_shared<HostTensor>(DType::kS8, Dims{k, n});
  for (int64_t i = 0; i < k * n; ++i)
    static_cast<int8_t*>(b->data())[i] = static_cast<int8_t>(rng.Int(-128, 127));
  for (const int64_t m : {1, 33}) {
    const GuardedTensor a = Bytes(rng, DType::kS8, {m, k});
    OpTester t("MatMulInteger"), plain("MatMulInteger");
    ASSERT_TRUE(t.In(a).In(ConstTensor(b)).Packs(&cache).Run().ok()) << t.status().message();
    EXPECT_NE(std::string::npos, t.variant().find("packed")) << t.variant();
    ASSERT_TRUE(plain.In(a).In(ConstTensor(b)).Run().ok());
    EXPECT_EQ(t.Out().Get(), plain.Out().Get());
  }
}

TEST(MatMulInteger, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(250)) {
    const int64_t m = rng.Int(0, 20), n = rng.Int(1, 40),
                  k = rng.Chance(0.2) ? rng.Int(250, 1100) : rng.Int(0, 60);
    const int64_t batch = rng.Int(1, 3);
    const bool batch_a = rng.Chance(0.5), batch_b = rng.Chance(0.5), rows = rng.Chance(0.4),
               columns = rng.Chance(0.4);
    const Dims a_dims = batch_a ? Dims{batch, m, k} : Dims{m, k},
               b_dims = batch_b ? Dims{batch, k, n} : Dims{k, n};
    const DType ta = Byte(rng), tb = Byte(rng);
    const GuardedTensor a = Bytes(rng, ta, a_dims), b = Bytes(rng, tb, b_dims);
    const GuardedTensor za = Bytes(rng, ta, rows ? Dims{m} : Dims{}),
                        zb = Bytes(rng, tb, columns ? Dims{n} : Dims{});
    OpTester t("MatMulInteger");
    t.In(a).In(b).In(za).In(zb);
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> x = a.Get(), y = b.Get(), zx = za.Get(), zy = zb.Get();
    std::vector<double> want;
    for (int64_t i = 0; i < (batch_a || batch_b ? batch : 1); ++i) {
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += (x[static_cast<size_t>(((batch_a ? i : 0) * m + r) * k + l)] -
                    zx[static_cast<size_t>(rows ? r : 0)]) *
                   (y[static_cast<size_t>(((batch_b ? i : 0) * k + l) * n + c)] -
                    zy[static_cast<size_t>(columns ? c : 0)]);
          }
          want.push_back(sum);
        }
      }
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(a_dims) << ToString(b_dims);
  }
}

TEST(MatMulInteger, VectorsAndWorstValues) {
  // K above the exact depth of a part, all products at their largest.
  GuardedTensor a(DType::kU8, {3000}), b(DType::kS8, {3000}), zb(DType::kS8, {});
  a.Set(std::vector<double>(3000, 255)), b.Set(std::vector<double>(3000, -128)), zb.Set({127});
  OpTester t("MatMulInteger");
  t.In(a).In(b).Absent().In(zb);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dims, Dims{});
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{-3000.0 * 255 * 255}));
}

TEST(QLinearMatMul, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const int64_t m = rng.Int(1, 9), n = rng.Int(1, 9), k = rng.Int(1, 40);
    const DType ta = Byte(rng), tb = Byte(rng), ty = Byte(rng);
    const GuardedTensor a = Bytes(rng, ta, {m, k}), b = Bytes(rng, tb, {k, n});
    const GuardedTensor za = Bytes(rng, ta, {}), zb = Bytes(rng, tb, {}), zy = Bytes(rng, ty, {});
    GuardedTensor sa(DType::kF32, {}), sb(DType::kF32, {1}), sy(DType::kF32, {});
    sa.FillRandom(rng, 0.01, 0.1), sb.FillRandom(rng, 0.01, 0.1), sy.FillRandom(rng, 0.5, 2);
    OpTester t("QLinearMatMul");
    t.In(a).In(sa).In(za).In(b).In(sb).In(zb).In(sy).In(zy);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> x = a.Get(), y = b.Get();
    const double scale = sa.Get()[0] * sb.Get()[0] / sy.Get()[0], lo = ty == DType::kU8 ? 0 : -128;
    std::vector<double> want;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (x[static_cast<size_t>(r * k + l)] - za.Get()[0]) *
                 (y[static_cast<size_t>(l * n + c)] - zb.Get()[0]);
        want.push_back(std::clamp(std::nearbyint(sum * scale) + zy.Get()[0], lo, lo + 255));
      }
    }
    ASSERT_EQ(t.Out().Get(), want);
  }
}

// Scales and zero points per row of a, per column of b and both, as vectors and with all dims.
TEST(QLinearMatMul, ScalesByRowAndColumn) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int64_t m = rng.Int(1, 40), k = rng.Int(1, 60), n = rng.Int(1, 70), batch = rng.Int(1, 2);
    const bool rows = rng.Chance(0.5), columns = rng.Chance(0.6), whole = rng.Chance(0.3);
    const DType ta = Byte(rng), tb = Byte(rng), ty = Byte(rng);
    const Dims row_dims = !rows   ? Dims{}
                          : whole ? Dims{1, m, 1}
                                  : Dims{m},
               column_dims = !columns ? Dims{}
                             : whole  ? Dims{1, 1, n}
                                      : Dims{n};
    const GuardedTensor a = Bytes(rng, ta, {batch, m, k}), b = Bytes(rng, tb, {k, n}),
                        za = Bytes(rng, ta, row_dims), zb = Bytes(rng, tb, column_dims),
                        zy = Bytes(rng, ty, {});
    GuardedTensor sa(DType::kF32, row_dims), sb(DType::kF32, column_dims), sy(DType::kF32, {1});
    sa.FillRandom(rng, 0.01, 0.1), sb.FillRandom(rng, 0.01, 0.1), sy.FillRandom(rng, 0.5, 2);
    OpTester op("QLinearMatMul");
    op.In(a).In(sa).In(za).In(b).In(sb).In(zb).In(sy).In(zy);
    if (rng.Chance(0.3)) op.StridedOutputs(rng);
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    const auto at = [](const GuardedTensor& t, int64_t i) {
      const std::vector<double> v = t.Get();
      return v[static_cast<size_t>(v.size() > 1 ? i : 0)];
    };
    const std::vector<double> x = a.Get(), y = b.Get(), got = op.Out().Get();
    const double lo = ty == DType::kU8 ? 0 : -128;
    std::vector<double> want;
    for (int64_t i = 0; i < batch * m; ++i)
      for (int64_t c = 0; c < n; ++c) {
        const int64_t r = i % m;
        const double va = at(za, r), vb = at(zb, c);
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (x[static_cast<size_t>(i * k + l)] - va) * (y[static_cast<size_t>(l * n + c)] - vb);
        const double scale = at(sa, r) * at(sb, c) / sy.Get()[0];
        want.push_back(std::clamp(std::nearbyint(sum * scale) + zy.Get()[0], lo, lo + 255));
      }
    ASSERT_EQ(got, want) << op.variant();
  }
}

// Blocks are requantised while they are in cache: with batches, shared operands, views, and a result that
// takes the place of an operand.
TEST(QLinearMatMul, BatchesViewsAndInPlace) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int in_place = rng.Chance(0.3) ? (rng.Chance(0.5) ? 0 : 3) : -1;
    const int64_t m = rng.Int(1, 40), k = rng.Int(1, 40), n = in_place >= 0 ? k : rng.Int(1, 90);
    const int64_t rows = in_place == 3 ? k : m, batch = rng.Int(1, 3);
    const bool share = in_place != 3 && rng.Chance(0.5);
    const DType t = Byte(rng), ty = in_place >= 0 ? t : Byte(rng);
    const GuardedTensor a = Bytes(rng, t, {batch, rows, k}),
                        b = Bytes(rng, t, share ? Dims{k, n} : Dims{batch, k, n});
    const GuardedTensor za = Bytes(rng, t, {}), zb = Bytes(rng, t, {}), zy = Bytes(rng, ty, {1});
    GuardedTensor sa(DType::kF32, {1}), sb(DType::kF32, {}), sy(DType::kF32, {1});
    sa.FillRandom(rng, 0.01, 0.1), sb.FillRandom(rng, 0.01, 0.1), sy.FillRandom(rng, 0.5, 2);
    const std::vector<double> x = a.Get(), y = b.Get();
    OpTester op("QLinearMatMul");
    op.In(a).In(sa).In(za).In(b).In(sb).In(zb).In(sy).In(zy);
    if (in_place >= 0) {
      op.InPlace(in_place);
    } else if (rng.Chance(0.4)) {
      op.StridedOutputs(rng);
    }
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    const double scale = sa.Get()[0] * sb.Get()[0] / sy.Get()[0], lo = ty == DType::kU8 ? 0 : -128;
    std::vector<double> want;
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += (x[static_cast<size_t>((i * rows + r) * k + l)] - za.Get()[0]) *
                   (y[static_cast<size_t>(((share ? 0 : i) * k + l) * n + c)] - zb.Get()[0]);
          want.push_back(std::clamp(std::nearbyint(sum * scale) + zy.Get()[0], lo, lo + 255));
        }
    ASSERT_EQ((in_place < 0    ? op.Out()
               : in_place == 0 ? a
                               : b)
                  .Get(),
              want)
        << in_place << " " << op.variant();
  }
}

TEST(ConvInteger, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(250)) {
    const bool depthwise = rng.Chance(0.3);
    const int64_t group = rng.Int(1, depthwise ? 9 : 3), ci = depthwise ? 1 : rng.Int(1, 12),
                  co = rng.Int(1, depthwise ? 2 : 5), n = rng.Int(1, 2);
    // Depth, rows, columns; images have a depth of 1 that the operator is not told of.
    const int first = rng.Chance(0.3) ? 0 : 1;
    int64_t kernel[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, in[3] = {1, 1, 1},
            out[3] = {1, 1, 1}, pad[3] = {};
    Ints strides, dilations, pads, ends;
    Dims x_dims{n, group * ci}, k_dims{group * co, ci};
    for (int i = first; i < 3; ++i) {
      kernel[i] = rng.Int(1, rng.Chance(0.2) ? 5 : 3), dilation[i] = rng.Int(1, 2),
      stride[i] = rng.Int(1, rng.Chance(0.2) ? 4 : 2), pad[i] = rng.Int(0, 2);
      const int64_t extent = (kernel[i] - 1) * dilation[i] + 1, end = rng.Int(0, 2);
      in[i] = rng.Int(extent, extent + (i == 2 && rng.Chance(0.3) ? 40 : 6));
      out[i] = (in[i] + pad[i] + end - extent) / stride[i] + 1;
      strides.push_back(stride[i]), dilations.push_back(dilation[i]), pads.push_back(pad[i]),
          ends.push_back(end);
      x_dims.push_back(in[i]), k_dims.push_back(kernel[i]);
    }
    pads.insert(pads.end(), ends.begin(), ends.end());
    const bool channels = rng.Chance(0.5), quantised = rng.Chance(0.5), has_bias = rng.Chance(0.5);
    const DType tx = Byte(rng), tw = Byte(rng), ty = Byte(rng);
    const GuardedTensor x = Bytes(rng, tx, x_dims), k = Bytes(rng, tw, k_dims);
    const GuardedTensor zx = Bytes(rng, tx, {}), zw = Bytes(rng, tw, channels ? Dims{group * co} : Dims{}),
                        zy = Bytes(rng, ty, {});
    GuardedTensor sx(DType::kF32, {}),
        sk(DType::kF32, channels ? Dims{group * co} : Dims{}, &rng, rng.Chance(0.3)), sy(DType::kF32, {}),
        bias(DType::kS32, {group * co}, &rng, rng.Chance(0.3));
    sx.FillRandom(rng, 0.01, 0.1), sk.FillRandom(rng, 0.01, 0.1), sy.FillRandom(rng, 0.5, 2),
        bias.FillRandom(rng, -900, 900);
    OpTester t(quantised ? "QLinearConv" : "ConvInteger");
    if (quantised) {
      t.In(x).In(sx).In(zx).In(k).In(sk).In(zw).In(sy).In(zy);
      if (has_bias) t.In(bias);
    } else {
      t.In(x).In(k).In(zx).In(zw);
    }
    t.Attr("group", group).Attr("strides", strides).Attr("dilations", dilations).Attr("pads", pads);
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> xv = x.Get(), kv = k.Get(), zk = zw.Get(), scales = sk.Get(), b = bias.Get();
    Dims y_dims{n, group * co};
    for (int i = first; i < 3; ++i) y_dims.push_back(out[i]);
    ASSERT_EQ(t.OutDesc().dims, y_dims);
    const int64_t taps = kernel[0] * kernel[1] * kernel[2], plane = out[0] * out[1] * out[2];
    std::vector<double> want;
    for (int64_t i = 0; i < n * group * co * plane; ++i) {
      const int64_t at[3] = {i / (out[2] * out[1]) % out[0], i / out[2] % out[1], i % out[2]};
      const int64_t o = i / plane % (group * co), image = i / (plane * group * co);
      double sum = 0;
      for (int64_t c = 0; c < ci; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t k_at[3] = {tap / (kernel[2] * kernel[1]), tap / kernel[2] % kernel[1],
                                   tap % kernel[2]};
          int64_t from = image * group * ci + o / co * ci + c;
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            const int64_t p = at[a] * stride[a] - pad[a] + k_at[a] * dilation[a];
            inside = inside && p >= 0 && p < in[a];
            from = from * in[a] + p;
          }
          if (!inside) continue;
          sum += (xv[static_cast<size_t>(from)] - zx.Get()[0]) *
                 (kv[static_cast<size_t>((o * ci + c) * taps + tap)] -
                  zk[static_cast<size_t>(channels ? o : 0)]);
        }
      if (quantised) {
        const double scale = sx.Get()[0] * scales[static_cast<size_t>(channels ? o : 0)] / sy.Get()[0];
        const double lo = ty == DType::kU8 ? 0 : -128;
        sum = std::clamp(
            std::nearbyint((sum + (has_bias ? b[static_cast<size_t>(o)] : 0)) * scale) + zy.Get()[0], lo,
            lo + 255);
      }
      want.push_back(sum);
    }
    ASSERT_EQ(t.Out().Get(), want);
  }
}

// A whole window of the largest products: sums far beyond what f32 holds, and beyond 2^31, where they wrap.
TEST(ConvInteger, LargestSums) {
  struct Case {
    DType x, w;
    double x_value, w_value, x_zero, w_zero;
    int64_t channels;
  };
  for (const Case& c : {Case{DType::kU8, DType::kS8, 255, 127, 0, 0, 512},
                        Case{DType::kU8, DType::kS8, 255, -128, 0, 127, 512},
                        Case{DType::kS8, DType::kS8, -128, -128, 127, 0, 513},
                        Case{DType::kU8, DType::kU8, 255, 255, 0, 0, 511},
                        Case{DType::kU8, DType::kU8, 255, 255, 0, 0, 4000}}) {
    GuardedTensor x(c.x, {1, c.channels, 4, 5}), w(c.w, {3, c.channels, 3, 3}), zx(c.x, {}), zw(c.w, {});
    x.Set(std::vector<double>(static_cast<size_t>(c.channels * 20), c.x_value));
    w.Set(std::vector<double>(static_cast<size_t>(c.channels * 27), c.w_value));
    zx.Set({c.x_zero}), zw.Set({c.w_zero});
    OpTester t("ConvInteger");
    t.In(x).In(w).In(zx).In(zw).Attr("pads", Ints{1, 1, 1, 1});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    std::vector<double> want;
    for (int64_t i = 0; i < 3 * 20; ++i) {
      const int64_t y = i / 5 % 4, z = i % 5;
      const int64_t taps = (y == 0 || y == 3 ? 2 : 3) * (z == 0 || z == 4 ? 2 : 3);
      const double sum =
          static_cast<double>(taps * c.channels) * (c.x_value - c.x_zero) * (c.w_value - c.w_zero);
      want.push_back(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum))));
    }
    EXPECT_EQ(t.Out().Get(), want);
  }
}

// Layers as models have them: pointwise and wide, more pixels than one block of columns, steps, groups, more
// channels than one block of rows. One and two threads give the same.
TEST(ConvInteger, Layers) {
  struct Layer {
    int64_t channels, out, size, kernel, stride, pad, group;
  };
  Rng rng;
  for (const Layer& l :
       {Layer{64, 24, 56, 1, 1, 0, 1}, Layer{3, 32, 40, 3, 2, 1, 1}, Layer{32, 48, 29, 3, 1, 1, 1},
        Layer{70, 520, 7, 3, 1, 1, 1}, Layer{30, 30, 23, 3, 1, 1, 30}, Layer{24, 36, 31, 5, 2, 2, 6},
        Layer{67, 65, 9, 1, 2, 0, 1}}) {
    const DType tx = Byte(rng), tw = Byte(rng);
    const int64_t ci = l.channels / l.group, out = (l.size + 2 * l.pad - l.kernel) / l.stride + 1;
    const GuardedTensor x = Bytes(rng, tx, {2, l.channels, l.size, l.size}),
                        w = Bytes(rng, tw, {l.out, ci, l.kernel, l.kernel}), zx = Bytes(rng, tx, {}),
                        zw = Bytes(rng, tw, rng.Chance(0.5) ? Dims{} : Dims{l.out});
    OpTester t("ConvInteger");
    t.In(x).In(w).In(zx).In(zw).Attr("group", l.group).Attr("strides", Ints{l.stride, l.stride});
    t.Attr("pads", Ints(4, l.pad));
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> xv = x.Get(), wv = w.Get(), zv = zw.Get(), got = t.Out().Get();
    const double x_zero = zx.Get()[0];
    ASSERT_EQ(got.size(), static_cast<size_t>(2 * l.out * out * out));
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i), ox = at % out, oy = at / out % out,
                    o = at / (out * out) % l.out, image = at / (out * out * l.out);
      double sum = 0;
      for (int64_t c = 0; c < ci; ++c)
        for (int64_t ky = 0; ky < l.kernel; ++ky)
          for (int64_t kx = 0; kx < l.kernel; ++kx) {
            const int64_t iy = oy * l.stride - l.pad + ky, ix = ox * l.stride - l.pad + kx;
            if (iy < 0 || iy >= l.size || ix < 0 || ix >= l.size) continue;
            const int64_t channel = image * l.channels + o / (l.out / l.group) * ci + c;
            sum += (xv[static_cast<size_t>((channel * l.size + iy) * l.size + ix)] - x_zero) *
                   (wv[static_cast<size_t>(((o * ci + c) * l.kernel + ky) * l.kernel + kx)] -
                    zv[static_cast<size_t>(zv.size() > 1 ? o : 0)]);
          }
      ASSERT_EQ(got[i], sum) << i << " of a layer with " << l.channels << " channels, " << t.variant();
    }
  }
}

TEST(ConvInteger, RefusesWithReason) {
  GuardedTensor x(DType::kU8, {1, 4, 5, 5}), w(DType::kU8, {2, 3, 3, 3});
  OpTester t("ConvInteger");
  t.In(x).In(w);
  EXPECT_EQ(t.Run().code(), Code::kInvalid);
  EXPECT_NE(t.status().message().find("W of [M, C / group, kernel...]"), std::string::npos)
      << t.status().message();
  // More sizes than any shape has dims.
  GuardedTensor fits(DType::kU8, {2, 4, 3, 3});
  OpTester long_list("ConvInteger");
  long_list.In(x).In(fits).Attr("kernel_shape", Ints(40, 3));
  EXPECT_EQ(long_list.Run().code(), Code::kInvalid);
  EXPECT_NE(long_list.status().message().find("kernel_shape [3,3,3,"), std::string::npos)
      << long_list.status().message();
}

}  // namespace
}  // namespace opsnn::op
