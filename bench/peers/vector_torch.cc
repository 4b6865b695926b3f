// libtorch, eager: into given memory where the operator has such a form, else into memory of its allocator.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <cstring>

#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

at::Tensor View(const Operand& o, void* data) {
  at::ScalarType t = at::kFloat;
  if (o.dtype == DType::kBF16) t = at::kBFloat16;
  if (o.dtype == DType::kS64) t = at::kLong;
  if (o.dtype == DType::kS32) t = at::kInt;
  return at::from_blob(data, o.dims, at::TensorOptions().dtype(t));
}

struct State {
  std::vector<at::Tensor> in, out, kept;  // kept: results without an out form
  at::Tensor indices;
};

// Results that the operator allocates are left where they are; the first run's are copied for comparing.
std::function<void()> Make(const VectorCase& c, const std::shared_ptr<State>& s, int threads) {
  State& t = *s;
  const auto& x = t.in[0];
  at::Tensor y = t.out[0];
  const auto run = [s, threads](auto body) {
    return std::function<void()>([s, threads, body]() mutable {
      const c10::InferenceMode mode;
      if (at::get_num_threads() != threads) at::set_num_threads(threads);
      body();
    });
  };
  const auto keep = [s, run](auto body) {  // body gives a tuple or a tensor
    return run([s, body, first = true]() mutable {
      s->kept = body();
      if (first && s->kept[0].sizes() == s->out[0].sizes()) s->out[0].copy_(s->kept[0]);
      first = false;
    });
  };
  const int64_t k = c.kernel, st = c.stride, p = c.pad;
  switch (c.op) {
    case VectorOp::kRelu:
      return run([=, &x]() mutable { at::clamp_min_out(y, x, 0); });
    case VectorOp::kAdd:
      return run([=, &t, &x]() mutable { at::add_out(y, x, t.in[1]); });
    case VectorOp::kGeluErf:
      return run([=, &x]() mutable { at::gelu_out(y, x, "none"); });
    case VectorOp::kGeluTanh:
      return run([=, &x]() mutable { at::gelu_out(y, x, "tanh"); });
    case VectorOp::kSoftmax:
      return run([=, &x]() mutable { at::softmax_out(y, x, -1); });
    case VectorOp::kTranspose:
      return run([=, &x, &c]() mutable { y.copy_(x.permute(c.perm)); });
    case VectorOp::kColumnSum:
      return run([=, &x]() mutable { at::sum_out(y, x, 0); });
    case VectorOp::kRowSum:
      return run([=, &x]() mutable { at::sum_out(y, x, 1); });
    case VectorOp::kGather:
      return run([=, &t, &x]() mutable { at::index_select_out(y, x, 0, t.in[1]); });
    case VectorOp::kAvgPool:
      return run([=, &x]() mutable { at::avg_pool2d_out(y, x, {k, k}, {st, st}, {p, p}); });
    case VectorOp::kMaxPool:
      return keep([=, &x] { return std::vector<at::Tensor>{at::max_pool2d(x, {k, k}, {st, st}, {p, p})}; });
    case VectorOp::kLayerNorm:
      return keep([&t, &x] {
        return std::vector<at::Tensor>{at::layer_norm(x, {x.size(-1)}, t.in[1], t.in[2], 1e-5, false)};
      });
    case VectorOp::kBatchNormRelu:
      return keep([&t, &x] {
        return std::vector<at::Tensor>{
            at::batch_norm(x, t.in[1], t.in[2], t.in[3], t.in[4], false, 0.1, 1e-5, false).relu_()};
      });
    case VectorOp::kCrossEntropy:
      return keep([&t, &x] { return std::vector<at::Tensor>{at::cross_entropy_loss(x, t.in[1])}; });
    case VectorOp::kCrossEntropyGrad:  // what autograd calls for a mean
      return keep([&t, &x] {
        const at::Tensor logs = at::log_softmax(x, 1);
        const auto [loss, total] = at::nll_loss_forward(logs, t.in[1], {}, 1, -100);
        const at::Tensor g = at::nll_loss_backward(at::ones({}), logs, t.in[1], {}, 1, -100, total);
        return std::vector<at::Tensor>{at::_log_softmax_backward_data(g, logs, 1, at::kFloat)};
      });
    case VectorOp::kLayerNormGrad:
      return keep([&t] {
        auto [dx, dg, db] = at::native_layer_norm_backward(t.in[0], t.in[1], {t.in[1].size(-1)}, t.in[2],
                                                           t.in[3], t.in[4], t.in[5], {true, true, true});
        return std::vector<at::Tensor>{dx, dg, db};
      });
    case VectorOp::kBatchNormGrad:
      return keep([&t] {
        auto [dx, dg, db] = at::native_batch_norm_backward(t.in[0], t.in[1], t.in[2], {}, {}, t.in[3],
                                                           t.in[4], true, 1e-5, {true, true, true});
        return std::vector<at::Tensor>{dx, dg, db};
      });
    case VectorOp::kMaxPoolGrad: {
      at::Tensor v;
      std::tie(v, t.indices) = at::max_pool2d_with_indices(t.in[1], {k, k}, {st, st}, {p, p});
      t.in[2].copy_(t.indices);  // for opsnn, too
      return keep([=, &t] {
        return std::vector<at::Tensor>{at::max_pool2d_with_indices_backward(
            t.in[0], t.in[1], {k, k}, {st, st}, {p, p}, {1, 1}, false, t.indices)};
      });
    }
    case VectorOp::kAvgPoolGrad:
      return keep([=, &t] {
        return std::vector<at::Tensor>{
            at::avg_pool2d_backward(t.in[0], t.in[1], {k, k}, {st, st}, {p, p}, false, true, std::nullopt)};
      });
    default:
      return nullptr;
  }
}

}  // namespace

void AddTorch(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to) {
  auto s = std::make_shared<State>();
  for (size_t i = 0; i < c.in.size(); ++i) s->in.push_back(View(c.in[i], m.in[i]));
  for (size_t i = 0; i < c.out.size(); ++i) s->out.push_back(View(c.out[i], m.out[i]));
  if (auto run = Make(c, s, threads)) to.push_back({"PyTorch", run});
}

std::string TorchVersion() { return std::string("PyTorch ") + TORCH_VERSION; }

}  // namespace opsnn::peers
