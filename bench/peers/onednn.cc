// oneDNN: a matmul primitive with bias and post-ops; constant weights in the layout it asks for.
#include <cstdio>
#include <dnnl.hpp>
#include <unordered_map>

#include "bench/peers/case.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace opsnn::peers {
namespace {

using dnnl::memory;

class OneDnn : public Contender {
 public:
  explicit OneDnn(const Case& c)
      : threads_(c.threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::data_type in = c.type == Type::kBf16 ? memory::data_type::bf16
                                 : c.type == Type::kS8 ? memory::data_type::s8
                                                       : memory::data_type::f32;
    const memory::data_type out = c.type == Type::kS8 ? memory::data_type::s32 : memory::data_type::f32;
    using Tag = memory::format_tag;
    const bool batched = c.batch > 1;
    const auto desc = [&](int64_t r, int64_t s, memory::data_type t, bool any) {
      if (batched) return memory::desc({c.batch, r, s}, t, any ? Tag::any : Tag::abc);
      return memory::desc({r, s}, t, any ? Tag::any : Tag::ab);
    };
    const memory::desc a = desc(c.m, c.k, in, false), w = desc(c.k, c.n, in, false);
    const memory::desc y = desc(c.m, c.n, out, false), any = desc(c.k, c.n, in, c.constant);
    const memory::desc bias({1, c.n}, memory::data_type::f32, Tag::ab);
    dnnl::primitive_attr attr;
    dnnl::post_ops ops;
    using Algorithm = dnnl::algorithm;
    if (c.act == Act::kRelu) ops.append_eltwise(Algorithm::eltwise_relu, 0, 0);
    if (c.act == Act::kGeluErf) ops.append_eltwise(Algorithm::eltwise_gelu_erf, 0, 0);
    if (c.act == Act::kGeluTanh) ops.append_eltwise(Algorithm::eltwise_gelu_tanh, 0, 0);
    attr.set_post_ops(ops);
    const dnnl::matmul::primitive_desc pd = c.bias
                                                ? dnnl::matmul::primitive_desc(engine_, a, any, bias, y, attr)
                                                : dnnl::matmul::primitive_desc(engine_, a, any, y, attr);
    primitive_ = dnnl::matmul(pd);
    memory weights(w, engine_, const_cast<void*>(c.w));
    if (pd.weights_desc() != w) {
      memory packed(pd.weights_desc(), engine_);
      dnnl::reorder(weights, packed).execute(stream_, weights, packed);
      stream_.wait();
      weights = packed;
    }
    y_ = memory(pd.dst_desc(), engine_);
    args_ = {{DNNL_ARG_SRC, memory(a, engine_, const_cast<void*>(c.a))},
             {DNNL_ARG_WEIGHTS, weights},
             {DNNL_ARG_DST, y_}};
    if (c.bias) args_.insert({DNNL_ARG_BIAS, memory(bias, engine_, const_cast<float*>(c.bias))});
  }
  const char* name() const override { return "oneDNN"; }
  void Run() override {
#ifdef _OPENMP
    omp_set_num_threads(threads_);
#endif
    primitive_.execute(stream_, args_);
    stream_.wait();
  }
  const void* result() const override { return y_.get_data_handle(); }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  memory y_;
  std::unordered_map<int, memory> args_;
};

}  // namespace

void AddOneDnn(const Case& c, Contenders& to) {
#ifdef _OPENMP
  omp_set_num_threads(c.threads);  // primitives are made for the threads of the moment
#endif
  try {
    to.push_back(std::make_unique<OneDnn>(c));
  } catch (const dnnl::error& e) {
    std::fprintf(stderr, "oneDNN refuses: %s\n", e.what());
  }
}

}  // namespace opsnn::peers
