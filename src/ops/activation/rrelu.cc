#include <algorithm>
#include <array>
#include <cstdint>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

// Philox 4x32-10: ten rounds of two 32 x 32 bit products, the key moved on by Weyl constants (Salmon et al.,
// 2011).
std::array<uint32_t, 4> Philox(uint64_t counter, uint64_t stream, uint64_t seed) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

class RReluKernel : public op::Kernel {
 public:
  RReluKernel(const op::Attrs& a, DType dtype, int64_t size)
      : dtype_(dtype),
        size_(size),
        lower_(a.Float("lower", 0.125)),
        upper_(a.Float("upper", 1.0 / 3)),
        seed_(static_cast<uint64_t>(a.Int("seed", 0))),
        offset_(static_cast<uint64_t>(a.Int("offset", 0))) {}

  Status Run(const op::RunArgs& args) const override {
    constexpr int64_t kGrain = 4096;  // a draw costs some 50 instructions: a task is well above its overhead
    const auto* x = static_cast<const char*>(args.inputs[0]);
    auto* y = static_cast<char*>(args.outputs[0]);
    auto* noise = static_cast<char*>(args.outputs[1]);
    const auto step = static_cast<int64_t>(SizeOf(dtype_));
    ParallelFor((size_ + kGrain - 1) / kGrain, [&](int64_t task, int) {
      const int64_t begin = task * kGrain, end = std::min(size_, begin + kGrain);
      for (int64_t i = begin; i < end; ++i) {
        const double v = ReadElement(x + i * step, dtype_);
        double slope = 1;
        if (!(v > 0)) {
          // 24 bits: every value is a float.
          const double u = (Philox(static_cast<uint64_t>(i), offset_, seed_)[0] >> 8) * 0x1p-24;
          slope = lower_ + (upper_ - lower_) * u;
        }
        WriteElement(noise + i * step, dtype_, slope);
        slope = ReadElement(noise + i * step, dtype_);
        WriteElement(y + i * step, dtype_, slope * v);
      }
    });
    return OkStatus();
  }
  std::string variant() const override { return "rrelu"; }

 private:
  DType dtype_;
  int64_t size_;
  double lower_, upper_;
  uint64_t seed_, offset_;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(RRelu) {
  def.infer = [](op::InferContext& c) -> Status {
    op::TensorDesc y;
    y.dtype = c.inputs[0]->dtype;
    y.dims = c.inputs[0]->dims;
    c.outputs.assign(2, y);
    return OkStatus();
  };
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    if (c.outputs.size() != 2)
      return Errorf(Code::kInternal, "RRelu: got %zu outputs; allowed: 2", c.outputs.size());
    for (const op::TensorDesc* t : {c.inputs[0], &c.outputs[0], &c.outputs[1]}) {
      if (!t->IsContiguous())
        return Errorf(Code::kNotImplemented, "RRelu: a strided operand; allowed: contiguous");
    }
    return op::KernelPtr(std::make_shared<ops::RReluKernel>(op::AttrsOf(c.attrs), c.inputs[0]->dtype,
                                                            NumElements(c.inputs[0]->dims)));
  };
}
