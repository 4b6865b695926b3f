// opsnn's kernels with the planner's blocking, as the matmul operators call them.
#include "base/buffer.h"
#include "bench/peers/case.h"
#include "device/profile.h"
#include "isa/bf16_dots.h"
#include "isa/tier.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/int8.h"
#include "kernels/gemm/peak.h"
#include "plan/gemm_blocking.h"

namespace opsnn::peers {
namespace {

vector::RegAct ToRegAct(Act act) {
  static constexpr vector::RegAct kActs[] = {vector::RegAct::kNone, vector::RegAct::kRelu,
                                             vector::RegAct::kGeluErf, vector::RegAct::kGeluTanh};
  return kActs[static_cast<int>(act)];
}

class Ours : public Contender {
 public:
  explicit Ours(const Case& c) : y_(static_cast<size_t>(c.m * c.n * c.batch) * sizeof(float)) {
    const DType t = c.type == Type::kBf16 ? DType::kBF16 : DType::kF32;
    p_.m = c.m, p_.n = c.n, p_.k = c.k, p_.batch = c.batch;
    p_.a = {c.a, t, c.k, 1, c.m * c.k};
    p_.b = {c.w, t, c.n, 1, c.k * c.n};
    p_.c = y_.as<float>();
    p_.c_row_stride = c.n, p_.c_batch_stride = c.m * c.n;
    p_.epilogue.bias = c.bias;
    p_.epilogue.act = ToRegAct(c.act);
    const device::DeviceProfile& host = device::HostProfileUnmeasured();
    const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
    const auto plan = [&](bool packed) {
      const plan::GemmBlocking g = plan::PlanGemmBlocking({c.m, c.n, c.k, c.batch, sizeof(float), packed},
                                                          {tile.mr, tile.nr, gemm::StepCycles()}, host);
      p_.blocking.mc = g.mc, p_.blocking.kc = g.kc;
    };
    plan(false);
    p_.bf16_pairs = t == DType::kBF16 && isa::Bf16DotsPay();
    p_.blocking.direct_floats = static_cast<int64_t>(host.l1_bytes()) / 8 * 7 / sizeof(float);
    if (!c.constant || !gemm::PackingPays(p_)) return;
    plan(true);
    packed_ = gemm::PackB(p_.b, c.k, c.n, c.batch, p_.blocking, p_.bf16_pairs);
    p_.packed_b = packed_.get();
  }
  const char* name() const override { return "opsnn"; }
  void Run() override { gemm::Run(p_); }
  const void* result() const override { return y_.data(); }

 private:
  AlignedBuffer y_;
  gemm::Params p_;
  std::shared_ptr<const gemm::PackedB> packed_;
};

class OursInt8 : public Contender {
 public:
  explicit OursInt8(const Case& c) : y_(static_cast<size_t>(c.m * c.n * c.batch) * sizeof(int32_t)) {
    p_.m = c.m, p_.n = c.n, p_.k = c.k, p_.batch = c.batch;
    p_.a = {c.a, DType::kS8, c.k, 1, c.m * c.k};
    p_.b = {c.w, DType::kS8, c.n, 1, c.k * c.n};
    p_.c = y_.as<int32_t>();
    p_.c_row_stride = c.n, p_.c_batch_stride = c.m * c.n;
    if (!c.constant) return;
    packed_ = gemm::PackInt8B(p_.b, DType::kS8, c.k, c.n, c.batch);
    p_.packed_b = packed_.get();
  }
  const char* name() const override { return "opsnn"; }
  void Run() override { gemm::RunInt8(p_); }
  const void* result() const override { return y_.data(); }

 private:
  AlignedBuffer y_;
  gemm::Int8Params p_;
  std::shared_ptr<const gemm::PackedInt8B> packed_;
};

}  // namespace

void AddOurs(const Case& c, Contenders& to) {
  if (c.type == Type::kS8) {
    to.push_back(std::make_unique<OursInt8>(c));
  } else {
    to.push_back(std::make_unique<Ours>(c));
  }
}

}  // namespace opsnn::peers
