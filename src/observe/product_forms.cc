#include "observe/product_forms.h"

#include <algorithm>
#include <chrono>

#include "device/profile.h"
#include "isa/tier.h"
#include "plan/gemm_blocking.h"

namespace opsnn::observe {
namespace {

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

AlignedBuffer Filled(int64_t n) {
  AlignedBuffer b(static_cast<size_t>(n) * sizeof(float));
  for (int64_t i = 0; b && i < n; ++i) b.as<float>()[i] = static_cast<float>(i % 97 - 48) / 48;
  return b;
}

}  // namespace

std::vector<Chain> JudgedChains() {
  std::vector<Chain> chains;
  chains.push_back(Unary(StageOp::kRelu));
  chains.push_back(Unary(StageOp::kGeluErf));
  chains.push_back(AddThen(StageOp::kRelu));
  chains.push_back(Long());
  return chains;
}

plan::ContractionEdge EdgeOf(const Chain& chain, const Point& s, int threads) {
  plan::ContractionEdge e;
  e.chain = "matmul+" + chain.name;
  e.m = s.m, e.n = s.n, e.k = s.k, e.batch = s.batch;
  e.tail = &chain.program;
  e.full_operands = chain.full_operands;
  e.threads = threads;
  return e;
}

std::string ShapeText(const Point& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
         (s.batch > 1 ? " b" + std::to_string(s.batch) : "");
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

std::vector<double> MedianMicroseconds(const std::vector<std::function<void()>>& forms, int runs) {
  using Clock = std::chrono::steady_clock;
  const auto time = [](const std::function<void()>& body, int repeats) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repeats; ++i) body();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeats;
  };
  for (const auto& form : forms) form();
  constexpr double kRunMicroseconds = 200;
  const int repeats = std::clamp(static_cast<int>(kRunMicroseconds / time(forms[0], 1)), 1, 1000);
  std::vector<std::vector<double>> all(forms.size());
  for (int i = 0; i < runs; ++i) {
    for (size_t f = 0; f < forms.size(); ++f) all[f].push_back(time(forms[f], repeats));
  }
  std::vector<double> medians;
  for (std::vector<double>& v : all) medians.push_back(Median(std::move(v)));
  return medians;
}

Status ProductForms::Prepare() {
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

Status ProductForms::SetRegions(const std::vector<plan::Region>& regions) {
  for (const plan::Region& r : regions) {
    regions_.push_back({r.rows, r.block, r.verdict == plan::Verdict::kFuse});
  }
  if (regions.empty()) return OkStatus();
  hybrid_out_ = Filled(s_.m * s_.n);
  if (!hybrid_out_) return Errorf(Code::kRuntime, "the judge's bench: no memory for the rows by regions");
  hybrid_ = fused_;
  if (hybrid_.c) hybrid_.c = hybrid_out_.as<float>();
  hybrid_args_ = args_;
  if (!hybrid_args_.empty()) hybrid_args_.back() = Whole(hybrid_out_);
  hybrid_.epilogue.args = hybrid_args_;
  for (int i = 0; i < chain_.full_operands; ++i) chain_args_.push_back(Whole(other_));
  chain_args_.push_back(Whole(hybrid_out_));
  return OkStatus();
}

void ProductForms::Pass() {
  const Dims dims{s_.batch, s_.m, s_.n};
  const TensorView in[2] = {TensorView::Contiguous(c_.data(), DType::kF32, dims),
                            TensorView::Contiguous(other_.data(), DType::kF32, dims)};
  const TensorView out[1] = {TensorView::Contiguous(split_out_.data(), DType::kF32, dims)};
  vector::RunTensors(*whole_, {in, static_cast<size_t>(1 + chain_.full_operands)}, out);
}

Status ProductForms::Bind() {
  gemm::Params p;
  p.m = s_.m, p.n = s_.n, p.k = s_.k, p.batch = s_.batch;
  p.a = {a_.data(), DType::kF32, s_.k, 1, s_.m * s_.k};
  p.b = {b_.data(), DType::kF32, s_.n, 1, s_.k * s_.n};
  p.c_row_stride = s_.n;
  p.c_batch_stride = s_.m * s_.n;
  const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
  const device::DeviceProfile& host = device::HostProfile();
  const plan::GemmBlocking g = plan::PlanGemmBlocking({s_.m, s_.n, s_.k, s_.batch}, {tile.mr, tile.nr}, host);
  p.blocking.mc = g.mc;
  p.blocking.kc = g.kc;
  p.blocking.direct_floats = plan::DirectFloats(host);
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
  for (size_t i = 0; i < e.rest_inputs.size(); ++i) args_.push_back(Whole(other_));
  args_.push_back(Whole(out_));
  fused_.epilogue.program = rest_.get();
  fused_.epilogue.args = args_;
  return OkStatus();
}

}  // namespace opsnn::observe
