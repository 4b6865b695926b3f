// opsnn and the libraries that are installed, on the same products, in one process and in turns.
//
//   peers [LIST] [THREADS] [SECONDS] [MxNxK]
//   LIST: first, fused, stream, batch, bf16, s8 or all; THREADS: 1, 2, ... or 0 for 1 and all; SECONDS per
//   product (default 0.4); one shape only
//
// Prints ours, each peer, best peer / ours (the median over the turns), and the share of the machine's limit:
// the longer of the products at the peak of multiply-adds and the bytes at memory's read rate, where they do
// not fit the caches.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "base/buffer.h"
#include "base/half.h"
#include "base/parallel.h"
#include "bench/peers/case.h"
#include "bench/peers/limits.h"
#include "bench/peers/turns.h"

namespace opsnn::peers {

const char* Name(Act act) {
  static constexpr const char* kNames[] = {"", "relu", "gelu_erf", "gelu_tanh"};
  return kNames[static_cast<int>(act)];
}
const char* Name(Type type) {
  static constexpr const char* kNames[] = {"f32", "bf16", "s8"};
  return kNames[static_cast<int>(type)];
}

namespace {

struct Shape {
  int64_t m, n, k, batch;
};
constexpr Shape kFused[] = {
    {64, 64, 64, 1},       {128, 128, 128, 1}, {256, 256, 256, 1}, {512, 512, 512, 1},  {1024, 1024, 1024, 1},
    {2048, 2048, 2048, 1}, {1, 4096, 4096, 1}, {8, 4096, 4096, 1}, {128, 3072, 768, 1}, {128, 768, 3072, 1},
    {512, 4096, 1024, 1},  {768, 768, 64, 1},  {4096, 64, 64, 1}};
constexpr Shape kStream[] = {{1, 4096, 4096, 1},  {4, 4096, 4096, 1},  {8, 4096, 4096, 1},
                             {16, 4096, 4096, 1}, {24, 4096, 4096, 1}, {32, 4096, 4096, 1}};
constexpr Shape kBatch[] = {{64, 64, 64, 1024}, {64, 64, 64, 1}, {32, 32, 32, 1024}, {128, 128, 64, 96}};

class Bench {
 public:
  explicit Bench(double seconds) : seconds_(seconds) {}

  void Measure(const Shape& s, Act act, Type type, bool constant, bool with_bias, int threads) {
    Case c;
    c.m = s.m, c.n = s.n, c.k = s.k, c.batch = s.batch;
    c.act = act, c.type = type, c.constant = constant, c.threads = threads;
    const AlignedBuffer a = Random(s.m * s.k * s.batch, type), w = Random(s.k * s.n * s.batch, type);
    const AlignedBuffer bias = Random(s.n, Type::kF32);
    c.a = a.data(), c.w = w.data(), c.bias = with_bias ? bias.as<float>() : nullptr;
    SetNumThreads(threads);
    Contenders all;
    AddOurs(c, all);
#ifdef OPSNN_PEER_ONEDNN
    AddOneDnn(c, all);
#endif
#ifdef OPSNN_PEER_OPENBLAS
    AddOpenBlas(c, all);
#endif
#ifdef OPSNN_PEER_TORCH
    AddTorch(c, all);
#endif
#ifdef OPSNN_PEER_ONNXRUNTIME
    AddOnnxRuntime(c, all);
#endif
    if (Streams(c)) all.push_back(std::make_unique<Reader>(c));
    for (auto& x : all) x->Run();
    for (size_t i = 1; i < all.size(); ++i) Compare(c, *all[0], *all[i]);
    Report(c, all, Turns(c, all));
  }

  void Summary(const char* list, int threads) {
    if (points_ == 0) return;
    std::printf("%s, %d thread%s: geometric mean of best peer / ours %.3f, worst %.3f (%s), %d points\n\n",
                list, threads, threads > 1 ? "s" : "", std::exp(log_ratio_ / points_), worst_,
                worst_name_.c_str(), points_);
    points_ = 0, log_ratio_ = 0, worst_ = 1e9;
  }

 private:
  static AlignedBuffer Random(int64_t n, Type type) {
    static std::mt19937 rng(20260719);
    AlignedBuffer b(static_cast<size_t>(n) * sizeof(float));
    for (int64_t i = 0; i < n; ++i) {
      const float x = static_cast<float>(static_cast<int32_t>(rng())) * 0x1p-31f;
      if (type == Type::kF32) b.as<float>()[i] = x;
      if (type == Type::kBf16) b.as<uint16_t>()[i] = ToBF16(x).bits;
      if (type == Type::kS8) b.as<int8_t>()[i] = static_cast<int8_t>(std::lround(x * 127));
    }
    return b;
  }

  static void Compare(const Case& c, const Contender& ours, const Contender& peer) {
    if (!peer.result()) return;
    double most = 0;
    for (int64_t i = 0; i < c.m * c.n * c.batch; ++i) {
      const auto at = [&](const void* p) {
        return c.type == Type::kS8 ? static_cast<double>(static_cast<const int32_t*>(p)[i])
                                   : static_cast<double>(static_cast<const float*>(p)[i]);
      };
      most = std::max(most, std::fabs(at(ours.result()) - at(peer.result())));
    }
    const double bound = c.type == Type::kS8 ? 0 : 1e-6 * static_cast<double>(c.k) + 1e-3;
    if (most > bound) std::printf("  %s differs from %s by %g\n", ours.name(), peer.name(), most);
  }

  // Each turn is long enough to be timed and begins with a call that is not: whoever ran before has left the
  // caches and may still be spinning, which the pause outlasts.
  std::vector<std::vector<double>> Turns(const Case& c, Contenders& all) const {
    constexpr double kTurn = 4e-4;
    constexpr int kLeastTurns = 7;
    std::vector<std::vector<double>> times(all.size());
    std::vector<int> repeats;
    for (auto& x : all) {
      const double t0 = Now();
      x->Run();
      repeats.push_back(std::clamp(static_cast<int>(kTurn / (Now() - t0)), 1, 1000));
    }
    const double begin = Now();
    for (int turn = 0; turn < kLeastTurns || Now() - begin < seconds_; ++turn) {
      for (size_t i = 0; i < all.size(); ++i) {
        PauseBetweenTurns(c.threads);
        all[i]->Run();
        if (c.threads > 1) all[i]->Run();
        const double t0 = Now();
        for (int r = 0; r < repeats[i]; ++r) all[i]->Run();
        times[i].push_back((Now() - t0) / repeats[i]);
      }
    }
    return times;
  }

  void Report(const Case& c, const Contenders& all, const std::vector<std::vector<double>>& times) {
    const std::string name = std::string(Name(c.type)) + " " + std::to_string(c.m) + "x" +
                             std::to_string(c.n) + "x" + std::to_string(c.k) +
                             (c.batch > 1 ? " b" + std::to_string(c.batch) : "") +
                             (c.act != Act::kNone ? std::string(" ") + Name(c.act) : "");
    const double ours = Median(times[0]);
    std::printf("%-30s %dT  opsnn %10.2f us", name.c_str(), c.threads, ours * 1e6);
    double ratio = kNobody, limit = ProductSeconds(c);
    for (size_t i = 1; i < all.size(); ++i) {
      const double t = Median(times[i]);
      std::printf("  %s %10.2f", all[i]->name(), t * 1e6);
      if (std::strcmp(all[i]->name(), "reading") == 0) {
        limit = std::max(limit, t);
      } else {
        ratio = std::min(ratio, MedianRatio(times[i], times[0]));
      }
    }
    if (ratio < kNobody) std::printf("  ratio %.3f", ratio);
    std::printf("  limit %5.1f %%", 100 * limit / ours);
    if (ratio < kNobody) std::printf(" (peer %5.1f)", 100 * limit / ours / ratio);
    std::printf("\n");
    std::fflush(stdout);
    if (ratio == kNobody) return;
    ++points_;
    log_ratio_ += std::log(ratio);
    if (ratio < worst_) worst_ = ratio, worst_name_ = name;
  }

  // Turn by turn: what else runs on the machine comes and goes within a measurement, and slows both sides of
  // a turn alike.
  static double MedianRatio(const std::vector<double>& peer, const std::vector<double>& ours) {
    std::vector<double> ratios;
    for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(peer[i] / ours[i]);
    return Median(ratios);
  }

  static constexpr double kNobody = 1e30;
  double seconds_;
  int points_ = 0;
  double log_ratio_ = 0, worst_ = 1e9;
  std::string worst_name_;
};

int Main(int argc, char** argv) {
  const std::string list = argc > 1 ? argv[1] : "all";
  const int given = argc > 2 ? std::atoi(argv[2]) : 0;
  const std::string only = argc > 4 ? argv[4] : "";
  Bench bench(argc > 3 ? std::atof(argv[3]) : 0.4);
  const int most = NumThreads();
  std::vector<int> threads = given > 0 ? std::vector<int>{given} : std::vector<int>{1};
  if (given == 0 && most > 1) threads.push_back(most);
  const auto wants = [&](const char* name) { return list == name || list == "all"; };
  const auto matches = [&](const Shape& s) {
    const std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
    return only.empty() || name == only;
  };
  for (const int t : threads) {
    SetNumThreads(t);
    PrintLimits(t);
    if (wants("first")) MeasureFirstCalls(t);
    if (wants("fused")) {
      for (const Shape& s : kFused) {
        for (const Act act : {Act::kRelu, Act::kGeluErf, Act::kGeluTanh}) {
          if (matches(s)) bench.Measure(s, act, Type::kF32, true, true, t);
        }
      }
      bench.Summary("fused", t);
    }
    if (wants("stream")) {
      for (const Shape& s : kStream) {
        if (matches(s)) bench.Measure(s, Act::kNone, Type::kF32, false, false, t);
      }
      bench.Summary("stream", t);
    }
    if (wants("batch")) {
      for (const Shape& s : kBatch) {
        if (matches(s)) bench.Measure(s, Act::kNone, Type::kF32, false, false, t);
      }
      bench.Summary("batch", t);
    }
    for (const Type type : {Type::kBf16, Type::kS8}) {
      if (!wants(Name(type))) continue;
      for (const Shape& s : kFused) {
        if (matches(s)) bench.Measure(s, Act::kNone, type, true, false, t);
      }
      bench.Summary(Name(type), t);
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
