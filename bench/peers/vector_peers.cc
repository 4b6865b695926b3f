// opsnn and its peers on operators that memory or the vector units bound, in one process, in turns, on the
// same memory. Beside each stands the time of the fastest stream of the same bytes: reads, and writes with
// plain stores or past the caches.
//
//   vector_peers [THREADS] [SECONDS] [FILTER] [PAGES] [PEERS]   THREADS: 1, 2, ... or 0 for 1 and all;
//   SECONDS per case (default 0.6); FILTER: part of a case's name; PAGES: huge (default) or small, for
//   everybody; PEERS: all (default) or none
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "bench/peers/turns.h"
#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

void FillWithNoise(const Operand& o, void* data, uint64_t seed) {
  uint64_t s = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0, n = o.size(); i < n; ++i) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    const double v = o.low + (o.high - o.low) * static_cast<double>(s >> 40) * 0x1p-24;
    if (o.dtype == DType::kS64) {
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(s >> 33) % o.below;
    } else if (o.dtype == DType::kF32) {
      static_cast<float*>(data)[i] = static_cast<float>(v);
    } else if (o.dtype == DType::kBF16) {
      const auto f = static_cast<float>(v);
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}

// Some elements of the first output.
std::vector<double> Sample(const Operand& o, const void* data) {
  std::vector<double> v;
  const int64_t step = std::max<int64_t>(1, o.size() / 4099);
  for (int64_t i = 0; i < o.size(); i += step)
    v.push_back(o.dtype == DType::kBF16 ? FromBf16(static_cast<const uint16_t*>(data)[i])
                                        : static_cast<const float*>(data)[i]);
  return v;
}

class Bench {
 public:
  Bench(int threads, double seconds, bool huge, bool peers)
      : threads_(threads), seconds_(seconds), huge_(huge), peers_(peers) {}

  void Measure(const VectorCase& c) {
    Allocate(c);
    VectorRuns runs;
    if (peers_) AddTorch(c, m_, threads_, runs);  // first: its max pool finds the indices that everybody gets
    if (peers_) AddOneDnn(c, m_, threads_, runs);
    if (peers_) AddOnnxRuntime(c, m_, threads_, runs);
    AddOurs(c, m_, threads_, runs);
    std::swap(runs.front(), runs.back());
    Compare(c, runs);
    const size_t peers = runs.size();
    for (int kind = 0; kind < 4; ++kind) {
      const Stream s{
          in_->data(),     out_->data(),   static_cast<int64_t>(c.read), static_cast<int64_t>(c.written),
          (kind & 1) != 0, (kind & 2) != 0};
      runs.push_back({"stream", [=, this] { RunStream(s, threads_); }});
    }
    std::vector<std::vector<double>> times(runs.size());
    const double begin = Now();
    for (int i = 0; i < 5 || Now() - begin < seconds_; ++i) {
      for (size_t r = 0; r < runs.size(); ++r) times[r].push_back(Turn(runs[r]));
    }
    double limit = 1e9;
    for (size_t r = peers; r < runs.size(); ++r) limit = std::min(limit, Median(times[r]));
    const double ours = Median(times[0]);
    std::printf("%-36s %dT  opsnn %9.1f us  limit %9.1f us %3.0f %% (%5.1f GB/s)", c.name.c_str(), threads_,
                ours * 1e6, limit * 1e6, 100 * limit / ours, (c.read + c.written) / limit * 1e-9);
    for (size_t r = 1; r < peers; ++r) {
      std::printf("  %s %9.1f us %.2f", runs[r].name.c_str(), Median(times[r]) * 1e6,
                  Median(times[r]) / ours);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  // Small cases are repeated until a turn takes long enough for the clock.
  double Turn(const VectorRun& r) {
    PauseBetweenTurns(threads_);
    r.run();
    int repeats = 1;
    for (;;) {
      const double t0 = Now();
      for (int i = 0; i < repeats; ++i) r.run();
      const double t = Now() - t0;
      if (t > 2e-4 || repeats >= 256) return t / repeats;
      repeats *= 4;
    }
  }

  void Allocate(const VectorCase& c) {
    constexpr size_t kAlign = 4096;
    const auto place = [&](const std::vector<Operand>& operands, double least, std::unique_ptr<Pages>& pages,
                           std::vector<void*>& to) {
      size_t bytes = static_cast<size_t>(least) + kAlign;
      for (const Operand& o : operands) bytes += (o.bytes() + kAlign) / kAlign * kAlign;
      pages = std::make_unique<Pages>(bytes, huge_);
      char* at = pages->data();
      to.clear();
      for (const Operand& o : operands) {
        to.push_back(at);
        at += (o.bytes() + kAlign - 1) / kAlign * kAlign;
      }
    };
    place(c.in, c.read, in_, m_.in);
    place(c.out, c.written, out_, m_.out);
    for (size_t i = 0; i < c.in.size(); ++i) FillWithNoise(c.in[i], m_.in[i], i + 1);
  }

  void Compare(const VectorCase& c, const VectorRuns& runs) {
    runs[0].run();
    const std::vector<double> ours = Sample(c.out[0], m_.out[0]);
    double largest = 0;
    for (const double v : ours) largest = std::max(largest, std::fabs(v));
    for (size_t r = 1; r < runs.size(); ++r) {
      std::memset(m_.out[0], 0, c.out[0].bytes());
      runs[r].run();
      const std::vector<double> theirs = Sample(c.out[0], m_.out[0]);
      double most = 0;
      for (size_t i = 0; i < ours.size(); ++i) most = std::max(most, std::fabs(ours[i] - theirs[i]));
      const double allowed = (c.out[0].dtype == DType::kBF16 ? 0x1p-7 : 1e-5) * largest;
      if (!(most <= allowed))
        std::printf("  %s: %s differs by %g of %g\n", c.name.c_str(), runs[r].name.c_str(), most, largest);
    }
  }

  int threads_;
  double seconds_;
  bool huge_, peers_;
  VectorMemory m_;
  std::unique_ptr<Pages> in_, out_;
};

int Main(int argc, char** argv) {
  const int given = argc > 1 ? std::atoi(argv[1]) : 0;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.6;
  const std::string filter = argc > 3 ? argv[3] : "";
  const bool huge = argc <= 4 || std::string(argv[4]) != "small";
  const bool peers = argc <= 5 || std::string(argv[5]) != "none";
  std::printf("%s, %s, %s; medians, ratio = theirs / ours, limit = the fastest stream of the same bytes\n",
              OneDnnVersion().c_str(), TorchVersion().c_str(), OnnxRuntimeVersion().c_str());
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<int> counts = given > 0 ? std::vector<int>{given} : std::vector<int>{1};
  if (given == 0 && all > 1) counts.push_back(all);
  const std::vector<VectorCase> cases = VectorCases();
  for (const int threads : counts) {
    for (const VectorCase& c : cases)
      if (c.name.find(filter) != std::string::npos) Bench(threads, seconds, huge, peers).Measure(c);
  }
  return 0;
}

}  // namespace
}  // namespace opsnn::peers

int main(int argc, char** argv) {
  opsnn::peers::StartWithQuietOpenMp(argv);
  return opsnn::peers::Main(argc, argv);
}
