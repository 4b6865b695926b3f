// OpenBLAS: sgemm, and nothing but sgemm: it has no epilogues.
#include <cblas.h>

#include "bench/peers/case.h"

extern "C" void openblas_set_num_threads(int);

namespace opsnn::peers {
namespace {

class OpenBlas : public Contender {
 public:
  explicit OpenBlas(const Case& c) : c_(c), y_(static_cast<size_t>(c.m * c.n * c.batch)) {}
  const char* name() const override { return "OpenBLAS"; }
  void Run() override {
    openblas_set_num_threads(c_.threads);
    for (int64_t i = 0; i < c_.batch; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(c_.m), Int(c_.n), Int(c_.k), 1.0f,
                  static_cast<const float*>(c_.a) + i * c_.m * c_.k, Int(c_.k),
                  static_cast<const float*>(c_.w) + i * c_.k * c_.n, Int(c_.n), 0.0f,
                  y_.data() + i * c_.m * c_.n, Int(c_.n));
    }
  }
  const void* result() const override { return y_.data(); }

 private:
  static blasint Int(int64_t x) { return static_cast<blasint>(x); }
  Case c_;
  std::vector<float> y_;
};

}  // namespace

void AddOpenBlas(const Case& c, Contenders& to) {
  if (c.type != Type::kF32 || c.bias || c.act != Act::kNone) return;
  to.push_back(std::make_unique<OpenBlas>(c));
}

}  // namespace opsnn::peers
