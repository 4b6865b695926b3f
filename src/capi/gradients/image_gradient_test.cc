// Gradient checks of pools, convolutions and sampled attention.
#include <algorithm>
#include <numeric>

#include "capi/gradients/gradient_tester.h"

namespace opsnn::capi {
namespace {

// A pool over the last `axes` dims of (N, C, ..): which elements of a plane belong to each of its results.
struct Windows {
  Dims in, out;  // of a plane
  std::vector<std::vector<int64_t>> members;
  std::vector<double> divisors;  // of averages
};

Windows Sliding(const Dims& in, int64_t kernel, int64_t stride, int64_t pad) {
  Windows w{in, in, {}, {}};
  for (int i = 0; i < in.rank(); ++i) w.out[i] = (in[i] + 2 * pad - kernel) / stride + 1;
  for (int64_t o = 0; o < NumElements(w.out); ++o) {
    const Index at = At(w.out, o);
    w.members.emplace_back();
    Dims box = Dims::Filled(in.rank(), kernel);
    for (int64_t k = 0; k < NumElements(box); ++k) {
      Index e = At(box, k);
      bool inside = true;
      for (int i = 0; i < in.rank(); ++i) {
        auto& place = e[static_cast<size_t>(i)];
        place += at[static_cast<size_t>(i)] * stride - pad;
        inside = inside && place >= 0 && place < in[i];
      }
      if (inside) w.members.back().push_back(Linear(in, e));
    }
    w.divisors.push_back(std::pow(static_cast<double>(kernel), in.rank()));  // padding counts
  }
  return w;
}

Windows Adaptive(const Dims& in, const Dims& out) {
  Windows w{in, out, {}, {}};
  for (int64_t o = 0; o < NumElements(out); ++o) {
    const Index at = At(out, o);
    w.members.emplace_back();
    for (int64_t e = 0; e < NumElements(in); ++e) {
      bool inside = true;
      const Index place = At(in, e);
      for (int i = 0; i < in.rank(); ++i) {
        const int64_t p = at[static_cast<size_t>(i)], q = place[static_cast<size_t>(i)];
        inside = inside && q >= p * in[i] / out[i] && q < ((p + 1) * in[i] + out[i] - 1) / out[i];
      }
      if (inside) w.members.back().push_back(e);
    }
    w.divisors.push_back(static_cast<double>(w.members.back().size()));
  }
  return w;
}

std::vector<double> Average(const Windows& w, const std::vector<double>& x) {
  std::vector<double> y;
  const auto plane = static_cast<size_t>(NumElements(w.in));
  for (size_t first = 0; first < x.size(); first += plane) {
    for (size_t o = 0; o < w.members.size(); ++o) {
      double sum = 0;
      for (int64_t e : w.members[o]) sum += x[first + static_cast<size_t>(e)];
      y.push_back(sum / w.divisors[o]);
    }
  }
  return y;
}

// Positions of the largest elements within their planes.
std::vector<double> Largest(const Windows& w, const std::vector<double>& x) {
  std::vector<double> at;
  const auto plane = static_cast<size_t>(NumElements(w.in));
  for (size_t first = 0; first < x.size(); first += plane) {
    for (const auto& members : w.members) {
      int64_t best = members[0];
      for (int64_t e : members)
        if (x[first + static_cast<size_t>(e)] > x[first + static_cast<size_t>(best)]) best = e;
      at.push_back(static_cast<double>(best));
    }
  }
  return at;
}

std::vector<double> Picked(const Windows& w, const std::vector<double>& x) {
  std::vector<double> y;
  const auto at = Largest(w, x);
  const size_t plane = static_cast<size_t>(NumElements(w.in)), results = w.members.size();
  for (size_t i = 0; i < at.size(); ++i) y.push_back(x[i / results * plane + static_cast<size_t>(at[i])]);
  return y;
}

Dims Batch(const Dims& plane) {
  Dims d = {2, 2};
  for (int64_t v : plane) d.push_back(v);
  return d;
}

class GradientOfPools : public GradientTest {
 protected:
  // Values that are all different and apart by more than the step.
  Array Distinct(Gradient& g, const Dims& dims) {
    Array a = g.Random(dims);
    std::vector<int> order(a.v.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng_.engine());
    for (size_t i = 0; i < order.size(); ++i) a.v[i] = (order[i] - 40) * 0x1p-5;
    return a;
  }
};

TEST_F(GradientOfPools, Averages) {
  for (int axes : {2, 3}) {
    const Dims plane = axes == 2 ? Dims{5, 4} : Dims{3, 4, 3};
    const Windows sliding = Sliding(plane, 2, 2, 1);
    Gradient g(axes == 2 ? "aclnnAvgPool2dBackward" : "aclnnAvgPool3dBackward", rng_);
    g.Input("self", g.Random(Batch(plane))).Pass("self").Upstream("gradOutput", Batch(sliding.out));
    g.Ints("kernelSize", {2}).Ints("stride", {2}).Ints("padding", {1}).Number("countIncludePad", 1);
    g.Gives(axes == 2 ? "gradInput" : "output", "self");
    g.Check([&](const Arrays& in) { return Average(sliding, in.at("self").v); }, stream_);
    const Windows adaptive = Adaptive(plane, axes == 2 ? Dims{3, 2} : Dims{2, 3, 2});
    // In three dims whole planes alone are averaged on products; here any.
    Gradient a(axes == 2 ? "aclnnAdaptiveAvgPool2dBackward" : "aclnnAdaptiveAvgPool3dBackward", rng_);
    a.Input("self", a.Random(Batch(plane))).Pass("self").Upstream("gradOutput", Batch(adaptive.out));
    a.Gives("out", "self");
    a.Check([&](const Arrays& in) { return Average(adaptive, in.at("self").v); }, stream_);
  }
}

TEST_F(GradientOfPools, Maxima) {
  for (int axes : {2, 3}) {
    const Dims plane = axes == 2 ? Dims{4, 6} : Dims{2, 4, 4};
    const Windows sliding = Sliding(plane, 2, 2, 0);
    Gradient g(axes == 2 ? "aclnnMaxPool2dWithIndicesBackward" : "aclnnMaxPool3dWithArgmaxBackward", rng_);
    g.Input("self", Distinct(g, Batch(plane))).Pass("self").Upstream("gradOutput", Batch(sliding.out));
    g.Ints("kernelSize", {2}).Ints("stride", {2}).Ints("padding", {0}).Ints("dilation", {1});
    g.Tensor("indices", {Batch(sliding.out), Largest(sliding, g.inputs().at("self").v),
                         axes == 2 ? DType::kS64 : DType::kS32});
    g.Gives("gradInput", "self");
    g.Check([&](const Arrays& in) { return Picked(sliding, in.at("self").v); }, stream_);

    const Windows adaptive = Adaptive(plane, axes == 2 ? Dims{3, 4} : Dims{2, 3, 2});
    Gradient a(axes == 2 ? "aclnnAdaptiveMaxPool2dBackward" : "aclnnAdaptiveMaxPool3dBackward", rng_);
    a.Input("self", Distinct(a, Batch(plane))).Pass("self").Upstream("gradOutput", Batch(adaptive.out));
    a.Tensor("indices", {Batch(adaptive.out), Largest(adaptive, a.inputs().at("self").v),
                         axes == 2 ? DType::kS64 : DType::kS32});
    a.Gives("gradInput", "self");
    a.Check([&](const Arrays& in) { return Picked(adaptive, in.at("self").v); }, stream_);

    // Unpooling puts every value back where its index says.
    Gradient u(axes == 2 ? "aclnnMaxUnpool2dBackward" : "aclnnMaxUnpool3dBackward", rng_);
    const Array at = {Batch(sliding.out), Largest(sliding, Distinct(u, Batch(plane)).v), DType::kS64};
    u.Input("self", u.Random(Batch(sliding.out))).Pass("self").Tensor("indices", at);
    u.Upstream("gradOutput", Batch(plane)).Ints("outputSize", {plane.begin(), plane.end()});
    u.Ints("stride", {2, 2, 2}).Ints("padding", {0, 0, 0}).Gives("out", "self");
    u.Check(
        [&](const Arrays& in) {
          std::vector<double> y(static_cast<size_t>(4 * NumElements(plane)));
          const int64_t results = NumElements(sliding.out);
          for (int64_t i = 0; i < at.size(); ++i)
            y[static_cast<size_t>(i / results * NumElements(plane)) + static_cast<size_t>(at[i])] =
                in.at("self")[i];
          return y;
        },
        stream_);
  }
}

// Bit o of row k of the mask says that window o has its maximum at element k.
TEST_F(GradientOfPools, MaximaByMask) {
  const Dims plane = {4, 6};
  const Windows w = Sliding(plane, 2, 2, 0);
  Gradient g("aclnnMaxPool2dWithMaskBackward", rng_);
  g.Input("self", Distinct(g, Batch(plane))).Pass("self").Upstream("gradOutput", Batch(w.out));
  g.Ints("kernelSize", {2, 2}).Ints("stride", {2, 2}).Ints("padding", {0, 0}).Ints("dilation", {1, 1});
  const int64_t results = NumElements(w.out), row = ((results + 15) / 16 + 1) * 32;
  Array mask{{2, 2, 4, row}, std::vector<double>(static_cast<size_t>(4 * 4 * row)), DType::kS8};
  const auto at = Largest(w, g.inputs().at("self").v);
  for (int64_t i = 0; i < 4 * results; ++i) {
    const int64_t o = i % results;
    const auto& members = w.members[static_cast<size_t>(o)];
    const auto k =
        std::find(members.begin(), members.end(), static_cast<int64_t>(at[static_cast<size_t>(i)]));
    mask[(i / results * 4 + (k - members.begin())) * row + o / 8] += 1 << (o % 8);
  }
  for (double& v : mask.v) v = v > 127 ? v - 256 : v;
  g.Tensor("indices", mask).Gives("gradInput", "self");
  g.Check([&](const Arrays& in) { return Picked(w, in.at("self").v); }, stream_);
}

// (N, C, H, W) with strides, pads, dilations and groups; transposed: the map of the gradient.
struct Convolution {
  int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
  bool transposed = false;
};

std::vector<double> Convolve(const Convolution& c, const Array& x, const Array& w, const Array& bias,
                             const Dims& y_dims) {
  std::vector<double> y = Make(y_dims, [&](const Index& i) { return bias[i[1]]; });
  // Index pairs of the plain convolution from `a` to `b`.
  const Dims &a = c.transposed ? y_dims : x.dims, &b = c.transposed ? x.dims : y_dims;
  const int64_t per_a = a[1] / c.groups, per_b = b[1] / c.groups;
  for (int64_t n = 0; n < a[0]; ++n) {
    for (int64_t cb = 0; cb < b[1]; ++cb) {
      for (int64_t ka = 0; ka < per_a; ++ka) {
        const int64_t ca = cb / per_b * per_a + ka;
        for (int64_t o = 0; o < b[2] * b[3]; ++o) {
          for (int64_t k = 0; k < w.dims[2] * w.dims[3]; ++k) {
            const int64_t h = o / b[3] * c.stride - c.pad + k / w.dims[3] * c.dilation;
            const int64_t v = o % b[3] * c.stride - c.pad + k % w.dims[3] * c.dilation;
            if (h < 0 || v < 0 || h >= a[2] || v >= a[3]) continue;
            const double weight = w.at({cb, ka, k / w.dims[3], k % w.dims[3]});
            const Index at_a = {n, ca, h, v}, at_b = {n, cb, o / b[3], o % b[3]};
            if (c.transposed) {
              y[static_cast<size_t>(Linear(y_dims, at_a))] += weight * x.at(at_b);
            } else {
              y[static_cast<size_t>(Linear(y_dims, at_b))] += weight * x.at(at_a);
            }
          }
        }
      }
    }
  }
  return y;
}

TEST_F(GradientTest, Convolution) {
  const Convolution kCases[] = {{}, {2, 1, 1, 1}, {1, 2, 2, 2}, {2, 1, 1, 1, true}, {1, 0, 1, 2, true}};
  for (const Convolution& c : kCases) {
    const Dims image = {2, 4, 5, 4}, weight = {4, 4 / c.groups, 3, 3};
    Dims y = image;
    for (int i : {2, 3}) {
      y[i] = c.transposed ? (image[i] - 1) * c.stride - 2 * c.pad + c.dilation * 2 + 1
                          : (image[i] + 2 * c.pad - c.dilation * 2 - 1) / c.stride + 1;
    }
    Gradient g("aclnnConvolutionBackward", rng_);
    g.Input("input", g.Random(image)).Input("weight", g.Random(weight)).Input("bias", g.Random({4}));
    g.Pass("input").Pass("weight").Upstream("gradOutput", y).Ints("biasSizes", {4});
    g.Ints("stride", {c.stride, c.stride})
        .Ints("padding", {c.pad, c.pad})
        .Ints("dilation", {c.dilation, c.dilation});
    g.Number("transposed", c.transposed)
        .Ints("outputPadding", {0, 0})
        .Number("groups", static_cast<double>(c.groups));
    g.Bools("outputMask", {1, 1, 1});
    g.Gives("gradInput", "input").Gives("gradWeight", "weight").Gives("gradBias", "bias");
    g.Check([&](const Arrays& in) { return Convolve(c, in.at("input"), in.at("weight"), in.at("bias"), y); },
            stream_);
  }
}

// (T, B, C) with weights (K, C, O).
TEST_F(GradientTest, ConvTbc) {
  const int64_t times = 5, batch = 2, in_channels = 3, out_channels = 4, kernel = 3, pad = 1;
  const Dims y = {times + 2 * pad - kernel + 1, batch, out_channels};
  Gradient g("aclnnConvTbcBackward", rng_);
  g.Input("input", g.Random({times, batch, in_channels}));
  g.Input("weight", g.Random({kernel, in_channels, out_channels})).Input("bias", g.Random({out_channels}));
  g.Pass("input").Pass("weight").Pass("bias").Upstream("self", y).Number("pad", pad);
  g.Gives("gradInput", "input").Gives("gradWeight", "weight").Gives("gradBias", "bias");
  g.Check(
      [&](const Arrays& in) {
        return Make(y, [&](const Index& i) {
          double sum = in.at("bias")[i[2]];
          for (int64_t k = 0; k < kernel; ++k) {
            const int64_t t = i[0] + k - pad;
            if (t < 0 || t >= times) continue;
            for (int64_t c = 0; c < in_channels; ++c)
              sum += in.at("input").at({t, i[1], c}) * in.at("weight").at({k, c, i[2]});
          }
          return sum;
        });
      },
      stream_);
}

// Offsets hold all shifts to the right, all downwards and all factors.
TEST_F(GradientTest, DeformableConvolution) {
  const int64_t channels = 4, shared = 2, out = 4, rows = 3, columns = 2, groups = 2;  // shared: by offsets
  const Dims x = {1, channels, 5, 4}, w = {out, channels / groups, rows, columns};
  const int64_t sh = 2, sw = 1, dh = 1, dw = 2, top = 1, bottom = 2, left = 0, right = 1;
  const Dims y = {1, out, (5 + top + bottom - (rows - 1) * dh - 1) / sh + 1,
                  (4 + left + right - (columns - 1) * dw - 1) / sw + 1};
  const int64_t taps = rows * columns, values = channels / shared * taps;
  const Dims places = {1, 3 * values, y[2], y[3]};
  const auto sampled = [=](const Arrays& in, int64_t n, int64_t c, int64_t t, int64_t oy, int64_t ox) {
    const int64_t at = c / shared * taps + t;
    const double v = static_cast<double>(oy * sh - top + t / columns * dh) +
                     in.at("offset").at({n, values + at, oy, ox}),
                 u = static_cast<double>(ox * sw - left + t % columns * dw) +
                     in.at("offset").at({n, at, oy, ox});
    double sum = 0;
    for (int64_t r = 0; r < x[2]; ++r)
      for (int64_t s = 0; s < x[3]; ++s)
        sum += std::max(0.0, 1 - std::abs(v - static_cast<double>(r))) *
               std::max(0.0, 1 - std::abs(u - static_cast<double>(s))) * in.at("input").at({n, c, r, s});
    return sum * in.at("offset").at({n, 2 * values + at, oy, ox});
  };
  const auto forward = [&](const Arrays& in) {
    return Make(y, [&](const Index& i) {
      double sum = in.at("bias").at({i[1]});
      const int64_t per_group = channels / groups, first = i[1] / (out / groups) * per_group;
      for (int64_t c = 0; c < per_group; ++c)
        for (int64_t t = 0; t < taps; ++t)
          sum += in.at("weight").at({i[1], c, t / columns, t % columns}) *
                 sampled(in, i[0], first + c, t, i[2], i[3]);
      return sum;
    });
  };
  Gradient g("aclnnDeformableConv2dBackward", rng_);
  g.Input("input", g.Random(x)).Input("weight", g.Random(w)).Input("offset", g.Random(places));
  g.Input("bias", g.Random({out}));
  const Dims samples = {1, channels, y[2] * rows, y[3] * columns};
  Array found{samples, Make(samples, [&](const Index& i) {
                const int64_t t = i[2] % rows * columns + i[3] % columns;
                return static_cast<double>(
                    static_cast<float>(sampled(g.inputs(), i[0], i[1], t, i[2] / rows, i[3] / columns)));
              })};
  g.Pass("input").Pass("weight").Pass("offset").Tensor("offsetOut", found).Upstream("gradOutput", y);
  g.Ints("kernelSize", {rows, columns}).Ints("stride", {1, 1, sh, sw}).Ints("dilation", {1, 1, dh, dw});
  g.Ints("padding", {top, bottom, left, right}).Number("groups", groups);
  g.Number("deformableGroups", channels / shared).Number("modulated", 1);
  g.Gives("gradInput", "input").Gives("gradWeight", "weight").Gives("gradOffset", "offset");
  g.Gives("gradBias", "bias").Ulps(256);
  g.Check(forward, stream_);
}

TEST_F(GradientTest, DeformableAttention) {
  const int64_t batch = 2, heads = 2, channels = 3, queries = 2, levels = 2, points = 2, keys = 4 * 3 + 2 * 2;
  const Array shapes{{levels, 2}, {4, 3, 2, 2}, DType::kS32}, starts{{levels}, {0, 12}, DType::kS32};
  const Dims samples = {batch, queries, heads, levels, points};
  Dims location = samples;
  location.push_back(2);
  const Dims y = {batch, queries, heads * channels};
  const auto forward = [&](const Arrays& in) {
    const Array &value = in.at("value"), &at = in.at("location");
    return Make(y, [&](const Index& i) {
      const int64_t h = i[2] / channels, c = i[2] % channels;
      double sum = 0;
      for (int64_t l = 0; l < levels; ++l) {
        const double height = shapes[2 * l], width = shapes[2 * l + 1];
        for (int64_t p = 0; p < points; ++p) {
          const double x = at.at({i[0], i[1], h, l, p, 0}) * width - 0.5;
          const double v = at.at({i[0], i[1], h, l, p, 1}) * height - 0.5;
          for (int corner = 0; corner < 4; ++corner) {
            const double column = std::floor(x) + corner % 2, row = std::floor(v) + corner / 2;
            if (row < 0 || column < 0 || row >= height || column >= width) continue;
            const double share = (1 - std::abs(x - column)) * (1 - std::abs(v - row));
            const auto key = static_cast<int64_t>(starts[l] + row * width + column);
            sum += share * in.at("attnWeight").at({i[0], i[1], h, l, p}) * value.at({i[0], key, h, c});
          }
        }
      }
      return sum;
    });
  };
  Gradient g("aclnnMultiScaleDeformableAttentionGrad", rng_);
  g.Input("value", g.Random({batch, keys, heads, channels}));
  // Pixel borders of these levels lie at multiples of 1/24.
  Array places = g.Random(location, 0, 1);
  for (double& v : places.v) v = (std::floor(v * 24) + 0.5) / 24 + 0x1p-8;
  for (double& v : places.v) v = static_cast<float>(v);
  g.Input("location", places).Input("attnWeight", g.Random(samples));
  g.Pass("value").Pass("location").Pass("attnWeight").Tensor("spatialShape", shapes);
  g.Tensor("levelStartIndex", starts).Upstream("gradOutput", y);
  g.Gives("gradValue", "value").Gives("gradLocation", "location").Gives("gradAttnWeight", "attnWeight");
  g.Check(forward, stream_);

  // The function of which this is the gradient.
  std::vector<std::unique_ptr<ApiTensor>> memory;
  std::vector<OpsnnArg> args;
  for (const Array& a :
       {g.inputs().at("value"), shapes, starts, g.inputs().at("location"), g.inputs().at("attnWeight"),
        Array{y, std::vector<double>(static_cast<size_t>(NumElements(y)))}}) {
    memory.push_back(std::make_unique<ApiTensor>(a.dtype, a.dims));
    memory.back()->Set(a.v);
    args.emplace_back();
    args.back().p = static_cast<aclTensor*>(*memory.back());
  }
  const OpsnnFunction* f = opsnn_aclnn_find("aclnnMultiScaleDeformableAttnFunction");
  ASSERT_NE(f, nullptr);
  ASSERT_EQ(Finish(opsnn_aclnn_plan(f, args.data(), 6, &workspace_size_, &executor_),
                   [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) {
                     return opsnn_aclnn_run(f, w, n, e, s);
                   }),
            0)
      << aclGetRecentErrMsg();
  const std::vector<double> want = forward(g.inputs());
  EXPECT_EQ(Compare(memory.back()->Get(), want, std::vector<double>(want.size(), 256 * 0x1p-24)), "");
  // A level that leaves the keys is an error of the run.
  memory[2]->Set({0, 13});
  EXPECT_NE(Finish(opsnn_aclnn_plan(f, args.data(), 6, &workspace_size_, &executor_),
                   [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) {
                     return opsnn_aclnn_run(f, w, n, e, s);
                   }),
            0);
}

}  // namespace
}  // namespace opsnn::capi
