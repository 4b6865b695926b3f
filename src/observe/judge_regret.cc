#include "observe/judge_regret.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "isa/tier.h"
#include "kernels/gemm/gemm.h"
#include "plan/gemm_blocking.h"
#include "plan/judge.h"
#include "vector/run.h"

namespace opsnn::observe {
namespace {

struct Chain {
  std::string name;
  Program program;
  int full_operands = 0;
};

Chain Unary(StageOp op) {
  ProgramBuilder b;
  b.Output(b.Unary(op, b.Input()));
  return {Info(op).name, std::move(b).Build(), 0};
}

Chain AddThen(StageOp op) {
  ProgramBuilder b;
  const SlotId x = b.Input(), y = b.Input();
  b.Output(b.Unary(op, b.Binary(StageOp::kAdd, x, y)));
  return {std::string("add+") + Info(op).name, std::move(b).Build(), 1};
}

// A gate: x * sigmoid(y), then a rational tail long enough to strain a block's slots.
Chain Long() {
  ProgramBuilder b;
  const SlotId x = b.Input(), y = b.Input();
  SlotId v = b.Binary(StageOp::kMul, x, b.Unary(StageOp::kSigmoid, y));
  for (int i = 0; i < 6; ++i) v = b.Binary(StageOp::kAdd, b.Unary(StageOp::kTanh, v), x);
  b.Output(v);
  return {"long", std::move(b).Build(), 1};
}

struct Point {
  int64_t m, n, k, batch;
};

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

class Pair {
 public:
  Pair(const Chain& chain, const Point& s) : chain_(chain), s_(s) {}
  // Out of memory is an error: the largest of the points takes 400 MiB.
  Status Prepare() {
    const int64_t elements = s_.m * s_.n * s_.batch;
    a_ = Filled(s_.m * s_.k * s_.batch);
    b_ = Filled(s_.k * s_.n * s_.batch);
    c_ = Filled(elements);
    out_ = Filled(elements);
    split_out_ = Filled(elements);
    other_ = Filled(elements);
    if (!a_ || !b_ || !c_ || !out_ || !split_out_ || !other_) {
      return Errorf(Code::kRuntime, "the judge's bench: no memory for a product of %lld x %lld x %lld",
                    static_cast<long long>(s_.m), static_cast<long long>(s_.n), static_cast<long long>(s_.k));
    }
    OPSNN_ASSIGN_OR_RETURN(whole_, vector::Compile(chain_.program));
    return Bind();
  }

  void Fused() { gemm::Run(fused_); }
  void Split() {
    gemm::Run(split_);
    const Dims dims{s_.batch, s_.m, s_.n};
    const TensorView in[2] = {TensorView::Contiguous(c_.data(), DType::kF32, dims),
                              TensorView::Contiguous(other_.data(), DType::kF32, dims)};
    const TensorView out[1] = {TensorView::Contiguous(split_out_.data(), DType::kF32, dims)};
    vector::RunTensors(*whole_, {in, static_cast<size_t>(1 + chain_.full_operands)}, out);
  }

 private:
  static AlignedBuffer Filled(int64_t n) {
    AlignedBuffer b(static_cast<size_t>(n) * sizeof(float));
    for (int64_t i = 0; b && i < n; ++i) b.as<float>()[i] = static_cast<float>(i % 97 - 48) / 48;
    return b;
  }

  Status Bind() {
    gemm::Params p;
    p.m = s_.m, p.n = s_.n, p.k = s_.k, p.batch = s_.batch;
    p.a = {a_.data(), DType::kF32, s_.k, 1, s_.m * s_.k};
    p.b = {b_.data(), DType::kF32, s_.n, 1, s_.k * s_.n};
    p.c_row_stride = s_.n;
    p.c_batch_stride = s_.m * s_.n;
    const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
    const device::DeviceProfile& host = device::HostProfile();
    const plan::GemmBlocking g =
        plan::PlanGemmBlocking({s_.m, s_.n, s_.k, s_.batch}, {tile.mr, tile.nr}, host);
    p.blocking.mc = g.mc;
    p.blocking.kc = g.kc;
    split_ = p;
    split_.c = c_.as<float>();
    fused_ = p;
    const bool columns[2] = {false, false};
    const vector::EpilogueSplit e =
        vector::SplitEpilogue(chain_.program, {columns, static_cast<size_t>(1 + chain_.full_operands)});
    fused_.epilogue.act = e.act;
    std::copy(e.act_imm, e.act_imm + 2, fused_.epilogue.act_imm);
    fused_.c = out_.as<float>();  // the chain then works on it in place
    if (!e.rest) return OkStatus();
    OPSNN_ASSIGN_OR_RETURN(rest_, vector::Compile(e.rest_program));
    const int64_t batch_stride = s_.m * s_.n;
    for (size_t i = 0; i < e.rest_inputs.size(); ++i) {
      args_.push_back({other_.data(), DType::kF32, batch_stride, 0, s_.n, 1});
    }
    args_.push_back({out_.data(), DType::kF32, batch_stride, 0, s_.n, 1});
    fused_.epilogue.program = rest_.get();
    fused_.epilogue.args = args_;
    return OkStatus();
  }

  const Chain& chain_;
  Point s_;
  // Each form has an output of its own: streaming stores would push the other's out of the caches.
  AlignedBuffer a_, b_, c_, out_, split_out_, other_;
  gemm::Params fused_, split_;
  std::shared_ptr<const vector::CompiledProgram> whole_, rest_;
  std::vector<vector::EpilogueArg> args_;
};

// Medians of both forms in microseconds, measured in turns. Short ones are repeated within a run.
std::pair<double, double> Measure(Pair& pair, int runs) {
  using Clock = std::chrono::steady_clock;
  auto time = [](auto&& body, int repeats) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repeats; ++i) body();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeats;
  };
  pair.Split();
  pair.Fused();
  constexpr double kRunMicroseconds = 200;
  const int repeats =
      std::clamp(static_cast<int>(kRunMicroseconds / time([&] { pair.Fused(); }, 1)), 1, 1000);
  std::vector<double> fused, split;
  for (int i = 0; i < runs; ++i) {
    fused.push_back(time([&] { pair.Fused(); }, repeats));
    split.push_back(time([&] { pair.Split(); }, repeats));
  }
  return {Median(fused), Median(split)};
}

const Point kPoints[] = {
    {16, 16, 16, 1},    {64, 64, 64, 1},      {64, 64, 64, 64},   {128, 128, 128, 1}, {256, 256, 256, 1},
    {512, 512, 512, 1}, {1024, 1024, 256, 1}, {1, 4096, 1024, 1}, {8, 4096, 64, 1},   {4096, 16, 64, 1},
    {3136, 64, 64, 1},  {12544, 32, 16, 1},   {12544, 16, 8, 1},  {2048, 2048, 8, 1}, {2048, 2048, 64, 1},
    {128, 768, 768, 1}, {128, 3072, 768, 1},  {16, 16, 16, 1024}, {128, 128, 64, 96}, {4096, 4096, 32, 1},
};

std::string ShapeText(const Point& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
         (s.batch > 1 ? " b" + std::to_string(s.batch) : "");
}

Result<JudgePoint> MeasurePoint(const Chain& chain, const Point& s, int threads, int runs) {
  plan::ContractionEdge e;
  e.chain = "matmul+" + chain.name;
  e.m = s.m, e.n = s.n, e.k = s.k, e.batch = s.batch;
  e.tail = &chain.program;
  e.full_operands = chain.full_operands;
  e.threads = threads;
  const plan::Decision d = plan::JudgeContraction(e, device::HostProfile(), Knobs{});
  Pair pair(chain, s);
  OPSNN_RETURN_IF_ERROR(pair.Prepare());
  JudgePoint p;
  p.chain = e.chain, p.shape = ShapeText(s), p.threads = threads, p.verdict = d.verdict;
  p.predicted_fused_us = d.time_fused_us, p.predicted_split_us = d.time_split_us;
  const auto measure = [&] {
    std::tie(p.fused_us, p.split_us) = Measure(pair, runs);
    p.regret = (plan::Fuses(d) ? p.fused_us : p.split_us) / std::min(p.fused_us, p.split_us);
  };
  constexpr double kOffender = 1.03;
  measure();
  if (p.regret > kOffender) measure();
  return p;
}

void SumUp(JudgeReport& r) {
  constexpr double kWins = 1.05;
  double log_regret = 0, log_error = 0;
  r.fused_vs_parts_worst = 0;
  for (const JudgePoint& p : r.points) {
    log_regret += std::log(p.regret);
    r.regret_worst = std::max(r.regret_worst, p.regret);
    log_error += std::fabs(std::log(p.predicted_fused_us / p.fused_us));
    r.split_wins += p.fused_us > kWins * p.split_us;
    r.fuse_wins += p.split_us > kWins * p.fused_us;
    if (p.verdict != plan::Verdict::kFuse) continue;
    const double gain = p.split_us / p.fused_us;
    r.fused_vs_parts_worst = r.fused_vs_parts_worst == 0 ? gain : std::min(r.fused_vs_parts_worst, gain);
  }
  const double n = static_cast<double>(r.points.size());
  r.regret_geomean = std::exp(log_regret / n);
  r.prediction_error = std::exp(log_error / n);
}

}  // namespace

Result<JudgeReport> MeasureJudge(int runs, const std::function<void(int, int)>& progress) {
  std::vector<Chain> chains;
  chains.push_back(Unary(StageOp::kRelu));
  chains.push_back(Unary(StageOp::kGeluErf));
  chains.push_back(AddThen(StageOp::kRelu));
  chains.push_back(Long());
  std::vector<int> threads = {1};
  if (NumThreads() > 1) threads.push_back(NumThreads());
  JudgeReport report;
  report.threads = threads.back();
  const int total = static_cast<int>(threads.size() * chains.size() * std::size(kPoints));
  for (const int t : threads) {
    ScopedThreadLimit limit(t);
    for (const Chain& chain : chains) {
      for (const Point& s : kPoints) {
        OPSNN_ASSIGN_OR_RETURN(JudgePoint p, MeasurePoint(chain, s, t, runs));
        report.points.push_back(std::move(p));
        if (progress) progress(static_cast<int>(report.points.size()), total);
      }
    }
  }
  SumUp(report);
  return report;
}

}  // namespace opsnn::observe
