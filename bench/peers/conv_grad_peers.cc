// Gradients of convolutions, opsnn and oneDNN in one process and in turns: plain (NCHW) tensors in and out,
// what either side converts or packs for itself included.
//
//   conv_grad_peers [THREADS] [SECONDS] [FILTER]   as conv_peers; FILTER also matches "data" and "weights"
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/peers/turns.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/grad/weight_grad.h"

namespace opsnn::peers {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

struct Layer {
  const char* name;
  int64_t c, size, oc, k, s;
};
constexpr Layer kLayers[] = {
    {"7x7 s2 3->64 @224", 3, 224, 64, 7, 2},     {"3x3 64->64 @56", 64, 56, 64, 3, 1},
    {"3x3 128->128 @28", 128, 28, 128, 3, 1},    {"3x3 256->256 @14", 256, 14, 256, 3, 1},
    {"3x3 512->512 @7", 512, 7, 512, 3, 1},      {"3x3 s2 128->128 @56", 128, 56, 128, 3, 2},
    {"1x1 64->256 @56", 64, 56, 256, 1, 1},      {"1x1 256->64 @56", 256, 56, 64, 1, 1},
    {"1x1 s2 256->512 @56", 256, 56, 512, 1, 2}, {"1x1 512->2048 @7", 512, 7, 2048, 1, 1},
};

conv::ConvShape ShapeOf(const Layer& l, int64_t n) {
  conv::ConvShape s;
  s.n = n, s.c = l.c, s.h = s.w = l.size, s.oc = l.oc, s.kh = s.kw = l.k, s.sh = s.sw = l.s;
  s.pt = s.pl = l.k / 2;
  s.oh = s.ow = (l.size + 2 * (l.k / 2) - l.k) / l.s + 1;
  return s;
}

std::vector<float> Random(int64_t n) {
  static std::mt19937 rng(20260719);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(static_cast<int32_t>(rng())) * 0x1p-31f;
  return v;
}

// One gradient of one layer, for both sides, from the same values.
class Pair {
 public:
  Pair(const Layer& l, int64_t n, bool data, int threads)
      : s_(ShapeOf(l, n)), data_(data), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(threads);
    x_ = Random(s_.n * s_.c * s_.plane()), w_ = Random(s_.oc * s_.c * s_.taps());
    dy_ = Random(s_.n * s_.oc * s_.out_plane());
    ours_.resize(data ? x_.size() : w_.size()), theirs_.resize(ours_.size());
    MakeOurs();
    MakeTheirs();
  }
  void Ours() {
    if (!data_) {
      conv::RunWeightGrad(weights_, x_.data(), dy_.data(), ours_.data(), workspace_.data());
      return;
    }
    conv::RunConv(plan_, args_);
  }
  void Theirs() {
    for (auto& [from, to] : before_) dnnl::reorder(from, to).execute(stream_, from, to);
    primitive_.execute(stream_, memories_);
    for (auto& [from, to] : after_) dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }
  std::string variant() const { return data_ ? plan_.Describe() : weights_.Describe(); }
  double MultiplyAdds() const { return double(s_.n * s_.oc * s_.c * s_.taps()) * double(s_.out_plane()); }
  // Largest difference over the largest value.
  double Difference() const {
    double most = 0, largest = 0;
    for (size_t i = 0; i < ours_.size(); ++i) {
      most = std::max(most, std::fabs(double{ours_[i]} - double{theirs_[i]}));
      largest = std::max(largest, std::fabs(double{theirs_[i]}));
    }
    return most / largest;
  }

 private:
  // The gradient of the input is the transposed convolution of that of the output.
  conv::ConvShape Adjoint() const {
    conv::ConvShape t = s_;
    t.transposed = true;
    std::swap(t.c, t.oc), std::swap(t.h, t.oh), std::swap(t.w, t.ow);
    t.x_blocked = t.y_blocked = false;
    return t;
  }
  void MakeOurs() {
    if (!data_) {
      weights_ = conv::PlanWeightGrad(s_);
      workspace_ = AlignedBuffer(weights_.workspace_bytes);
      return;
    }
    plan_ = conv::PlanConv(Adjoint());
    workspace_ = AlignedBuffer(plan_.workspace_bytes);
    packed_ = AlignedBuffer(static_cast<size_t>(plan_.packed_floats) * sizeof(float));
    args_.x = dy_.data(), args_.y = ours_.data(), args_.plain_weights = w_.data();
    args_.packing = packed_.as<float>();
    args_.workspace = workspace_.data();
  }
  // The memory that the primitive wants for plain values; a reorder where it wants another format.
  memory In(const memory::desc& plain, const memory::desc& wanted, std::vector<float>& values) {
    memory from(plain, engine_, values.data());
    if (plain == wanted) return from;
    memory to(wanted, engine_);
    before_.emplace_back(from, to);
    return to;
  }
  memory Out(const memory::desc& plain, const memory::desc& wanted, std::vector<float>& values) {
    memory to(plain, engine_, values.data());
    if (plain == wanted) return to;
    memory from(wanted, engine_);
    after_.emplace_back(from, to);
    return from;
  }
  void MakeTheirs() {
    const memory::dims in{s_.n, s_.c, s_.h, s_.w}, w{s_.oc, s_.c, s_.kh, s_.kw},
        out{s_.n, s_.oc, s_.oh, s_.ow}, stride{s_.sh, s_.sw}, pad{s_.pt, s_.pl};
    const auto desc = [](const memory::dims& d, Tag tag) { return memory::desc(d, kF32, tag); };
    const auto algorithm = dnnl::algorithm::convolution_auto;
    const dnnl::convolution_forward::primitive_desc forward(engine_, dnnl::prop_kind::forward_training,
                                                            algorithm, desc(in, Tag::any), desc(w, Tag::any),
                                                            desc(out, Tag::any), stride, pad, pad);
    if (data_) {
      const dnnl::convolution_backward_data::primitive_desc pd(engine_, algorithm, desc(in, Tag::any),
                                                               desc(w, Tag::any), desc(out, Tag::any), stride,
                                                               pad, pad, forward);
      primitive_ = dnnl::convolution_backward_data(pd);
      memories_ = {{DNNL_ARG_DIFF_DST, In(desc(out, Tag::abcd), pd.diff_dst_desc(), dy_)},
                   {DNNL_ARG_WEIGHTS, In(desc(w, Tag::abcd), pd.weights_desc(), w_)},
                   {DNNL_ARG_DIFF_SRC, Out(desc(in, Tag::abcd), pd.diff_src_desc(), theirs_)}};
      return;
    }
    const dnnl::convolution_backward_weights::primitive_desc pd(engine_, algorithm, desc(in, Tag::any),
                                                                desc(w, Tag::any), desc(out, Tag::any),
                                                                stride, pad, pad, forward);
    primitive_ = dnnl::convolution_backward_weights(pd);
    memories_ = {{DNNL_ARG_SRC, In(desc(in, Tag::abcd), pd.src_desc(), x_)},
                 {DNNL_ARG_DIFF_DST, In(desc(out, Tag::abcd), pd.diff_dst_desc(), dy_)},
                 {DNNL_ARG_DIFF_WEIGHTS, Out(desc(w, Tag::abcd), pd.diff_weights_desc(), theirs_)}};
  }

  conv::ConvShape s_;
  bool data_;
  conv::ConvPlan plan_;
  conv::WeightGradPlan weights_;
  conv::ConvArgs args_;
  std::vector<float> x_, w_, dy_, ours_, theirs_;
  AlignedBuffer packed_, workspace_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<std::pair<memory, memory>> before_, after_;
  std::unordered_map<int, memory> memories_;
};

// Turns, each begun with a call that is not timed; the pause outlasts the spinning of the other side's
// threads.
void Turns(Pair& pair, int threads, double seconds, std::vector<double>* ours, std::vector<double>* theirs) {
  constexpr int kLeastTurns = 7;
  const auto turn = [&](auto&& run, std::vector<double>* times) {
    PauseBetweenTurns(threads);
    run();
    const double begin = Now();
    run();
    times->push_back(Now() - begin);
  };
  const double begin = Now();
  for (int i = 0; i < kLeastTurns || Now() - begin < seconds; ++i) {
    turn([&] { pair.Ours(); }, ours);
    turn([&] { pair.Theirs(); }, theirs);
  }
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  const std::string filter = argc > 3 ? argv[3] : "";
  SetNumThreads(threads);
  double log_sum = 0, worst = 1e9;
  int points = 0;
  for (const bool data : {false, true})
    for (const int64_t n : {1, 8})
      for (const Layer& l : kLayers) {
        const std::string name = std::string(data ? "data " : "weights ") + l.name;
        if (name.find(filter) == std::string::npos) continue;
        Pair pair(l, n, data, threads);
        pair.Ours(), pair.Theirs();
        constexpr double kLeast = 1e-4;
        if (const double d = pair.Difference(); !(d < kLeast))
          std::printf("  they differ by %g of the largest\n", d);
        std::vector<double> ours, theirs;
        Turns(pair, threads, seconds, &ours, &theirs);
        const double a = Median(ours), b = Median(theirs);
        std::printf("%-28s N%lld %dT  opsnn %9.1f us %6.1f Gflop/s  oneDNN %9.1f us  ratio %.3f  %s\n",
                    name.c_str(), static_cast<long long>(n), threads, a * 1e6, 2e-9 * pair.MultiplyAdds() / a,
                    b * 1e6, b / a, pair.variant().c_str());
        std::fflush(stdout);
        log_sum += std::log(b / a), worst = std::min(worst, b / a), ++points;
      }
  if (points > 0)
    std::printf("geometric mean %.3f, worst %.3f, %d points\n", std::exp(log_sum / points), worst, points);
  return 0;
}

}  // namespace
}  // namespace opsnn::peers

int main(int argc, char** argv) {
  opsnn::peers::StartWithQuietOpenMp(argv);
  return opsnn::peers::Main(argc, argv);
}
