// libtorch: addmm into a given output, then the activation in place, as an eager program would write it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "bench/peers/case.h"

#ifdef OPSNN_PEER_OPENBLAS
extern "C" void openblas_set_num_threads(int);
#endif

namespace opsnn::peers {
namespace {

class Torch : public Contender {
 public:
  explicit Torch(const Case& c) : c_(c) {
    const c10::InferenceMode mode;
    const auto type = c.type == Type::kBf16 ? at::kBFloat16 : at::kFloat;
    const auto view = [&](const void* p, int64_t r, int64_t s, at::ScalarType t) {
      const at::TensorOptions o = at::TensorOptions().dtype(t);
      if (c.batch > 1) return at::from_blob(const_cast<void*>(p), {c.batch, r, s}, o);
      return at::from_blob(const_cast<void*>(p), {r, s}, o);
    };
    a_ = view(c.a, c.m, c.k, type);
    w_ = view(c.w, c.k, c.n, type);
    if (c.bias) bias_ = at::from_blob(const_cast<float*>(c.bias), {c.n}, at::kFloat).to(type);
    y_ = c.batch > 1 ? at::empty({c.batch, c.m, c.n}, type) : at::empty({c.m, c.n}, type);
  }
  const char* name() const override { return "PyTorch"; }
  void Run() override {
    const c10::InferenceMode mode;
    at::set_num_threads(c_.threads);
#ifdef OPSNN_PEER_OPENBLAS
    openblas_set_num_threads(c_.threads);  // the library that it calls, where it was built so
#endif
    if (c_.batch > 1) {
      at::bmm_out(y_, a_, w_);
    } else if (c_.bias) {
      at::addmm_out(y_, bias_, a_, w_);
    } else {
      at::mm_out(y_, a_, w_);
    }
    if (c_.act == Act::kRelu) at::relu_(y_);
    if (c_.act == Act::kGeluErf) at::gelu_(y_, "none");
    if (c_.act == Act::kGeluTanh) at::gelu_(y_, "tanh");
  }
  // A product of bf16 comes out as bf16: not what the others compute, so it is not compared.
  const void* result() const override { return c_.type == Type::kF32 ? y_.data_ptr() : nullptr; }

 private:
  Case c_;
  at::Tensor a_, w_, bias_, y_;
};

}  // namespace

void AddTorch(const Case& c, Contenders& to) {
  if (c.type == Type::kS8) return;
  to.push_back(std::make_unique<Torch>(c));
}

}  // namespace opsnn::peers
