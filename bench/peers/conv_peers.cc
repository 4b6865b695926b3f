// opsnn and oneDNN on convolution layers with bias and relu, in one process and in turns: blocked images,
// weights packed beforehand.
//
//   conv_peers [THREADS] [SECONDS] [FILTER]   THREADS: 1, 2, ... or 0 for 1 and all; SECONDS per layer
//   (default 0.5); FILTER: part of a layer's name
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "bench/peers/turns.h"
#include "kernels/conv/conv.h"

namespace opsnn::peers {
namespace {

using dnnl::memory;

struct Layer {
  const char* name;
  int64_t c, d, h, w, oc, kd, k, s, p, groups;
  bool transposed;
};
constexpr Layer kLayers[] = {
    {"7x7 s2 3->64 @224", 3, 1, 224, 224, 64, 1, 7, 2, 3, 1, false},
    {"3x3 64->64 @56", 64, 1, 56, 56, 64, 1, 3, 1, 1, 1, false},
    {"3x3 128->128 @28", 128, 1, 28, 28, 128, 1, 3, 1, 1, 1, false},
    {"3x3 256->256 @14", 256, 1, 14, 14, 256, 1, 3, 1, 1, 1, false},
    {"3x3 512->512 @7", 512, 1, 7, 7, 512, 1, 3, 1, 1, 1, false},
    {"1x1 64->256 @56", 64, 1, 56, 56, 256, 1, 1, 1, 0, 1, false},
    {"1x1 512->2048 @7", 512, 1, 7, 7, 2048, 1, 1, 1, 0, 1, false},
    {"depthwise 3x3 144 @56", 144, 1, 56, 56, 144, 1, 3, 1, 1, 144, false},
    {"depthwise 3x3 s2 144 @56", 144, 1, 56, 56, 144, 1, 3, 2, 1, 144, false},
    {"depthwise 5x5 240 @14", 240, 1, 14, 14, 240, 1, 5, 1, 2, 240, false},
    {"transposed 4x4 s2 128->64 @32", 128, 1, 32, 32, 64, 1, 4, 2, 1, 1, true},
    {"3x3x3 32->64 @16x28x28", 32, 16, 28, 28, 64, 3, 3, 1, 1, 1, false},
};

conv::ConvShape ShapeOf(const Layer& l, int64_t n) {
  const auto out = [&](int64_t in, int64_t k, int64_t s, int64_t p) {
    return l.transposed ? (in - 1) * s + k - 2 * p : (in + 2 * p - k) / s + 1;
  };
  conv::ConvShape s;
  s.n = n, s.c = l.c, s.h = l.h, s.w = l.w, s.oc = l.oc, s.kh = s.kw = l.k, s.sh = s.sw = l.s;
  s.pt = s.pl = l.p, s.groups = l.groups, s.transposed = l.transposed;
  s.oh = out(l.h, l.k, l.s, l.p), s.ow = out(l.w, l.k, l.s, l.p);
  s.d = l.d, s.kd = l.kd, s.pf = l.kd > 1 ? l.p : 0;
  s.od = l.kd > 1 ? out(l.d, l.kd, 1, l.p) : 1;
  s.x_blocked = l.c >= conv::kC0;  // three channels are read as they come
  s.winograd = conv::ChooseWinograd(s);
  return s;
}

std::vector<float> Random(int64_t n) {
  static std::mt19937 rng(20260719);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(static_cast<int32_t>(rng())) * 0x1p-31f;
  return v;
}

// The layer for both sides, from the same NCHW values.
class Pair {
 public:
  Pair(const Layer& l, int64_t n, int threads)
      : s_(ShapeOf(l, n)), plan_(conv::PlanConv(s_)), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(threads);
    const int64_t taps = s_.kd * s_.kh * s_.kw;
    x_ = Random(n * s_.c * s_.d * s_.h * s_.w);
    w_ = Random(s_.oc * s_.c / s_.groups * taps);
    bias_ = Random(s_.oc);
    MakeOurs();
    MakeTheirs(l);
  }
  void Ours() { conv::RunConv(plan_, args_); }
  void Theirs() {
    primitive_.execute(stream_, memories_);
    stream_.wait();
  }
  // What can be hoped for where a result is as large as its input and little is computed: a plain copy.
  bool IsLikeCopy() const { return s_.groups > 1 && blocked_x_.bytes() == ours_.bytes(); }
  void Copy() {
    constexpr int64_t kPiece = 128 << 10;  // small enough for ordinary stores
    const auto bytes = static_cast<int64_t>(ours_.bytes());
    ParallelFor(CeilDiv(bytes, kPiece), [&](int64_t i, int) {
      std::memcpy(ours_.as<char>() + i * kPiece, blocked_x_.as<char>() + i * kPiece,
                  static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)));
    });
  }
  std::string variant() const { return plan_.Describe(); }
  double MultiplyAdds() const {
    const double pixels = s_.transposed ? double(s_.d * s_.h * s_.w) : double(s_.od * s_.oh * s_.ow);
    return double(s_.n * s_.oc * s_.c / s_.groups * s_.kd * s_.kh * s_.kw) * pixels;
  }
  // Largest difference over the largest value.
  double Difference() {
    const int64_t out = s_.od * s_.oh * s_.ow;
    std::vector<float> theirs(static_cast<size_t>(s_.n * s_.oc * out));
    memory plain({Dims(s_.oc, s_.od, s_.oh, s_.ow), memory::data_type::f32, Plain()}, engine_, theirs.data());
    dnnl::reorder(y_, plain).execute(stream_, y_, plain);
    stream_.wait();
    double most = 0, largest = 0;
    for (int64_t i = 0; i < s_.n; ++i)
      for (int64_t o = 0; o < s_.oc; ++o)
        for (int64_t p = 0; p < out; ++p) {
          const float* block =
              ours_.as<float>() + (i * CeilDiv(s_.oc, conv::kC0) + o / conv::kC0) * out * conv::kC0;
          const double a = block[p * conv::kC0 + o % conv::kC0];
          const double b = theirs[static_cast<size_t>((i * s_.oc + o) * out + p)];
          most = std::max(most, std::fabs(a - b)), largest = std::max(largest, std::fabs(b));
        }
    return most / largest;
  }

 private:
  bool volume() const { return s_.kd > 1; }
  memory::format_tag Plain() const { return volume() ? memory::format_tag::abcde : memory::format_tag::abcd; }
  memory::dims Dims(int64_t c, int64_t d, int64_t h, int64_t w) const {
    return volume() ? memory::dims{s_.n, c, d, h, w} : memory::dims{s_.n, c, h, w};
  }
  memory::dims Spatial(int64_t depth, int64_t plane) const {
    return volume() ? memory::dims{depth, plane, plane} : memory::dims{plane, plane};
  }

  void MakeOurs() {
    const int64_t in = s_.d * s_.h * s_.w, out = s_.od * s_.oh * s_.ow;
    const auto blocked = [](int64_t c) { return CeilDiv(c, conv::kC0) * conv::kC0; };
    blocked_x_ = AlignedBuffer(static_cast<size_t>(s_.n * blocked(s_.c) * in) * sizeof(float));
    ours_ = AlignedBuffer(static_cast<size_t>(s_.n * blocked(s_.oc) * out) * sizeof(float));
    packed_ = AlignedBuffer(static_cast<size_t>(plan_.packed_floats) * sizeof(float));
    workspace_ = AlignedBuffer(std::max<size_t>(plan_.workspace_bytes, 1));
    for (int64_t i = 0; i < s_.n * s_.c * in; ++i) {
      const int64_t image = i / in / s_.c, c = i / in % s_.c, p = i % in;
      const int64_t at =
          s_.x_blocked
              ? ((image * CeilDiv(s_.c, conv::kC0) + c / conv::kC0) * in + p) * conv::kC0 + c % conv::kC0
              : i;
      blocked_x_.as<float>()[at] = x_[static_cast<size_t>(i)];
    }
    conv::PackWeights(plan_, w_.data(), packed_.as<float>());
    args_.x = blocked_x_.as<float>(), args_.y = ours_.as<float>(), args_.weights = packed_.as<float>();
    args_.workspace = workspace_.data();
    args_.epilogue.bias = bias_.data();
    args_.epilogue.act = RegAct::kRelu;
  }

  void MakeTheirs(const Layer& l) {
    using Tag = memory::format_tag;
    constexpr auto kF32 = memory::data_type::f32;
    const auto in = Dims(s_.c, s_.d, s_.h, s_.w), out = Dims(s_.oc, s_.od, s_.oh, s_.ow);
    memory::dims weights =
        l.groups > 1 ? memory::dims{l.groups, s_.oc / l.groups, s_.c / l.groups} : memory::dims{s_.oc, s_.c};
    for (const int64_t k : Spatial(s_.kd, l.k)) weights.push_back(k);
    const size_t rank = weights.size();
    const Tag plain_w = rank == 5 ? Tag::abcde : l.transposed ? Tag::bacd : Tag::abcd;
    const memory::dims stride = Spatial(1, l.s), dilation = Spatial(0, 0), pad = Spatial(s_.pf, l.p);
    const memory::desc any_x(in, kF32, Tag::any), any_w(weights, kF32, Tag::any), any_y(out, kF32, Tag::any),
        bias({s_.oc}, kF32, Tag::a);
    dnnl::primitive_attr attr;
    dnnl::post_ops ops;
    ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(ops);
    memory::desc x, w, y;
    const auto make = [&](auto pd, auto primitive) {
      x = pd.src_desc(), w = pd.weights_desc(), y = pd.dst_desc();
      primitive_ = decltype(primitive)(pd);
    };
    if (l.transposed) {
      make(dnnl::deconvolution_forward::primitive_desc(engine_, dnnl::prop_kind::forward_inference,
                                                       dnnl::algorithm::deconvolution_direct, any_x, any_w,
                                                       bias, any_y, stride, dilation, pad, pad, attr),
           dnnl::deconvolution_forward());
    } else {
      make(dnnl::convolution_forward::primitive_desc(engine_, dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::convolution_auto, any_x, any_w, bias,
                                                     any_y, stride, dilation, pad, pad, attr),
           dnnl::convolution_forward());
    }
    const auto put = [&](const memory::desc& from, const memory::desc& to, std::vector<float>& values) {
      memory plain(from, engine_, values.data()), made(to, engine_);
      dnnl::reorder(plain, made).execute(stream_, plain, made);
      stream_.wait();
      return made;
    };
    y_ = memory(y, engine_);
    memories_ = {{DNNL_ARG_SRC, put({in, kF32, Plain()}, x, x_)},
                 {DNNL_ARG_WEIGHTS, put({weights, kF32, plain_w}, w, w_)},
                 {DNNL_ARG_BIAS, memory(bias, engine_, bias_.data())},
                 {DNNL_ARG_DST, y_}};
  }

  conv::ConvShape s_;
  conv::ConvPlan plan_;
  std::vector<float> x_, w_, bias_;
  AlignedBuffer blocked_x_, ours_, packed_, workspace_;
  conv::ConvArgs args_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  memory y_;
  std::unordered_map<int, memory> memories_;
};

// Turns of several calls, each begun with one that is not timed: the other side has left the caches, and its
// threads may still be spinning, which the pause outlasts.
void Turns(Pair& pair, int threads, double seconds, std::vector<double>* ours, std::vector<double>* theirs,
           std::vector<double>* copies) {
  constexpr int kLeastTurns = 7;
  constexpr double kTurn = 2e-3;
  const double t0 = Now();
  pair.Ours();
  const int repeats = std::clamp(static_cast<int>(kTurn / (Now() - t0)), 1, 100);
  const auto turn = [&](auto&& run, std::vector<double>* times) {
    PauseBetweenTurns(threads);
    run();
    const double begin = Now();
    for (int r = 0; r < repeats; ++r) run();
    times->push_back((Now() - begin) / repeats);
  };
  const double begin = Now();
  for (int i = 0; i < kLeastTurns || Now() - begin < seconds; ++i) {
    turn([&] { pair.Ours(); }, ours);
    turn([&] { pair.Theirs(); }, theirs);
    if (pair.IsLikeCopy()) turn([&] { pair.Copy(); }, copies);
  }
}

int Main(int argc, char** argv) {
  const int given = argc > 1 ? std::atoi(argv[1]) : 0;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  const std::string filter = argc > 3 ? argv[3] : "";
  const dnnl_version_t* v = dnnl_version();
  std::printf("oneDNN %d.%d.%d; medians, ratio = oneDNN / opsnn\n", v->major, v->minor, v->patch);
  std::vector<int> counts = given > 0 ? std::vector<int>{given} : std::vector<int>{1};
  if (given == 0 && NumThreads() > 1) counts.push_back(NumThreads());
  for (const int threads : counts) {
    SetNumThreads(threads);
    double log_sum = 0, worst = 1e9;
    int points = 0;
    for (const int64_t n : {1, 8})
      for (const Layer& l : kLayers) {
        if (std::string(l.name).find(filter) == std::string::npos) continue;
        Pair pair(l, n, threads);
        pair.Ours(), pair.Theirs();
        constexpr double kLeast = 1e-4;
        if (const double d = pair.Difference(); !(d < kLeast))
          std::printf("  they differ by %g of the largest\n", d);
        std::vector<double> ours, theirs, copies;
        Turns(pair, threads, seconds, &ours, &theirs, &copies);
        const double a = Median(ours), b = Median(theirs);
        std::printf("%-30s N%lld %dT  opsnn %9.1f us %6.1f Gflop/s  oneDNN %9.1f us  ratio %.3f  %s\n",
                    l.name, static_cast<long long>(n), threads, a * 1e6, 2e-9 * pair.MultiplyAdds() / a,
                    b * 1e6, b / a, pair.variant().c_str());
        if (!copies.empty()) {
          const double copy = Median(copies);
          std::printf("  a copy of the image %.1f us, oneDNN / copy %.3f, share of its speed %.2f\n",
                      copy * 1e6, b / copy, copy / a);
        }
        std::fflush(stdout);
        log_sum += std::log(b / a), worst = std::min(worst, b / a), ++points;
      }
    if (points > 0) {
      std::printf("%d thread%s: geometric mean %.3f, worst %.3f, %d points\n\n", threads,
                  threads > 1 ? "s" : "", std::exp(log_sum / points), worst, points);
    }
  }
  return 0;
}

}  // namespace
}  // namespace opsnn::peers

int main(int argc, char** argv) {
  opsnn::peers::StartWithQuietOpenMp(argv);
  return opsnn::peers::Main(argc, argv);
}
