// oneDNN: one primitive per case, on plain (not blocked) memory.
#include <omp.h>

#include <cstdio>
#include <dnnl.hpp>

#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

using dnnl::algorithm;
using dnnl::memory;
constexpr auto kInference = dnnl::prop_kind::forward_inference;

memory::desc Plain(const Operand& o, const Shape& dims) {
  using Tag = memory::format_tag;
  static constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return memory::desc(dims, o.dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32,
                      kTags[dims.size()]);
}

class Primitive {
 public:
  Primitive(const VectorCase& c, const VectorMemory& m) : c_(c), m_(m), stream_(engine_) { Make(); }
  bool made() const { return static_cast<bool>(primitive_); }
  void Run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  memory::desc In(int i) {
    const memory::desc d = Plain(c_.in[i], c_.in[i].dims);
    return d;
  }
  memory::desc Out() { return Plain(c_.out[0], c_.out[0].dims); }
  void Arg(int key, const memory::desc& d, void* data) { args_[key] = memory(d, engine_, data); }
  void InOut() { Arg(DNNL_ARG_SRC, In(0), m_.in[0]), Arg(DNNL_ARG_DST, Out(), m_.out[0]); }

  void Eltwise(algorithm a) {
    InOut();
    primitive_ = dnnl::eltwise_forward({engine_, kInference, a, In(0), Out(), 0.f, 0.f});
  }
  void Pool(algorithm a) {
    InOut();
    const memory::dims k(2, c_.kernel), s(2, c_.stride), p(2, c_.pad), none(2, 0);
    primitive_ = dnnl::pooling_forward({engine_, kInference, a, In(0), Out(), s, k, none, p, p});
  }
  void Reduce(const Shape& kept) {
    const memory::desc y = Plain(c_.out[0], kept);
    Arg(DNNL_ARG_SRC, In(0), m_.in[0]), Arg(DNNL_ARG_DST, y, m_.out[0]);
    primitive_ = dnnl::reduction({engine_, algorithm::reduction_sum, In(0), y, 0.f, 0.f});
  }
  // Always f32: it has no fast kernel for others.
  void LayerNormFactors() {
    const auto n = static_cast<size_t>(c_.in[1].size());
    factors_.resize(2 * n);
    for (size_t k = 0; k < 2; ++k) {
      for (size_t i = 0; i < n; ++i) {
        factors_[k * n + i] = c_.in[1 + k].dtype == DType::kF32
                                  ? static_cast<const float*>(m_.in[1 + k])[i]
                                  : FromBf16(static_cast<const uint16_t*>(m_.in[1 + k])[i]);
      }
    }
    const memory::desc d = Plain({"", DType::kF32, {}}, c_.in[1].dims);
    Arg(DNNL_ARG_SCALE, d, factors_.data()), Arg(DNNL_ARG_SHIFT, d, factors_.data() + n);
  }
  void Make() {
    using Flags = dnnl::normalization_flags;
    switch (c_.op) {
      case VectorOp::kRelu:
        return Eltwise(algorithm::eltwise_relu);
      case VectorOp::kGeluErf:
        return Eltwise(algorithm::eltwise_gelu_erf);
      case VectorOp::kGeluTanh:
        return Eltwise(algorithm::eltwise_gelu_tanh);
      case VectorOp::kMaxPool:
        return Pool(algorithm::pooling_max);
      case VectorOp::kAvgPool:
        return Pool(algorithm::pooling_avg_include_padding);
      case VectorOp::kColumnSum:
        return Reduce({1, c_.out[0].dims[0]});
      case VectorOp::kRowSum:
        return Reduce({c_.out[0].dims[0], 1});
      case VectorOp::kSoftmax:
        InOut();
        primitive_ = dnnl::softmax_forward({engine_, kInference, algorithm::softmax_accurate, In(0), Out(),
                                            static_cast<int>(c_.in[0].dims.size()) - 1});
        return;
      case VectorOp::kAdd:
        Arg(DNNL_ARG_SRC_0, In(0), m_.in[0]), Arg(DNNL_ARG_SRC_1, In(1), m_.in[1]);
        Arg(DNNL_ARG_DST, Out(), m_.out[0]);
        primitive_ = dnnl::binary({engine_, algorithm::binary_add, In(0), In(1), Out()});
        return;
      case VectorOp::kLayerNorm:
        InOut();
        LayerNormFactors();
        primitive_ = dnnl::layer_normalization_forward(
            {engine_, kInference, In(0), Out(), 1e-5f, Flags::use_scale | Flags::use_shift});
        return;
      case VectorOp::kBatchNormRelu:
        InOut();
        Arg(DNNL_ARG_SCALE, In(1), m_.in[1]), Arg(DNNL_ARG_SHIFT, In(2), m_.in[2]);
        Arg(DNNL_ARG_MEAN, In(3), m_.in[3]), Arg(DNNL_ARG_VARIANCE, In(4), m_.in[4]);
        primitive_ = dnnl::batch_normalization_forward(
            {engine_, kInference, In(0), Out(), 1e-5f,
             Flags::use_global_stats | Flags::use_scale | Flags::use_shift | Flags::fuse_norm_relu});
        return;
      case VectorOp::kTranspose: {  // the same logical tensor with x's dims, stored in y's order
        memory::dims strides(c_.perm.size());
        int64_t step = 1;
        for (size_t i = c_.perm.size(); i-- > 0;) {
          strides[static_cast<size_t>(c_.perm[i])] = step;
          step *= c_.in[0].dims[static_cast<size_t>(c_.perm[i])];
        }
        const memory::desc y(c_.in[0].dims, In(0).get_data_type(), strides);
        Arg(DNNL_ARG_FROM, In(0), m_.in[0]), Arg(DNNL_ARG_TO, y, m_.out[0]);
        primitive_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, In(0), engine_, y));
        return;
      }
      default:
        return;
    }
  }

  const VectorCase& c_;
  const VectorMemory& m_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  std::unordered_map<int, memory> args_;
  std::vector<float> factors_;
  dnnl::primitive primitive_;
};

}  // namespace

void AddOneDnn(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to) {
  omp_set_num_threads(threads);
  try {
    auto p = std::make_shared<Primitive>(c, m);
    if (p->made()) to.push_back({"oneDNN", [p] { p->Run(); }});
  } catch (const dnnl::error& e) {
    std::fprintf(stderr, "%s: oneDNN refuses: %s\n", c.name.c_str(), e.what());
  }
}

std::string OneDnnVersion() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

}  // namespace opsnn::peers
