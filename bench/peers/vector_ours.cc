// opsnn: ONNX models of one operator through Model, gradients through the C API. Both phases of a C call and
// the wait for the stream are part of its time, as a program would spend it.
#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"
#include "aclnnop/aclnn_avgpool2d_backward.h"
#include "aclnnop/aclnn_batch_norm_backward.h"
#include "aclnnop/aclnn_cross_entropy_loss.h"
#include "aclnnop/aclnn_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_layer_norm_backward.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "bench/peers/vector_case.h"
#include "opsnn/model.h"
#include "opsnn/system.h"

namespace opsnn::peers {
namespace {

[[noreturn]] void Fail(const VectorCase& c, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", c.name.c_str(), why.c_str());
  std::exit(1);
}

opsnn::Tensor TensorOf(const Operand& o, void* data) {
  return opsnn::Tensor::Share(o.dtype, o.dims, std::shared_ptr<void>(data, [](void*) {}));
}

// The handles of one case; never destroyed, as the program ends with them.
class Calls {
 public:
  Calls(const VectorCase& c, const VectorMemory& m) : c_(c) {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream_);
    for (size_t i = 0; i < c.in.size(); ++i) in.push_back(Make(c.in[i], m.in[i]));
    for (size_t i = 0; i < c.out.size(); ++i) out.push_back(Make(c.out[i], m.out[i]));
  }
  static aclTensor* Make(const Operand& o, void* data) {
    return aclCreateTensor(o.dims.data(), o.dims.size(),
                           static_cast<aclDataType>(kDTypeInfo[static_cast<int>(o.dtype)].acl), nullptr, 0,
                           ACL_FORMAT_ND, o.dims.data(), o.dims.size(), data);
  }
  static aclIntArray* Ints(std::vector<int64_t> v) { return aclCreateIntArray(v.data(), v.size()); }
  template <class Size, class Run>
  void operator()(const Size& size, Run run) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    if (size(&bytes, &executor)) Fail(c_, aclGetRecentErrMsg());
    if (bytes > have_) {
      aclrtFree(workspace_);
      if (aclrtMalloc(&workspace_, bytes, ACL_MEM_MALLOC_HUGE_FIRST)) Fail(c_, aclGetRecentErrMsg());
      have_ = bytes;
    }
    if (run(workspace_, bytes, executor, stream_) || aclrtSynchronizeStream(stream_))
      Fail(c_, aclGetRecentErrMsg());
  }

  std::vector<aclTensor*> in, out;

 private:
  const VectorCase& c_;
  aclrtStream stream_ = nullptr;
  void* workspace_ = nullptr;
  uint64_t have_ = 0;
};

std::function<void()> Gradient(const VectorCase& c, const VectorMemory& m) {
  auto calls = std::make_shared<Calls>(c, m);
  Calls& k = *calls;
  const bool kAll[] = {true, true, true};
  aclBoolArray* const mask = aclCreateBoolArray(kAll, 3);
  const auto window = [&](int64_t v) { return Calls::Ints({v, v}); };
  aclIntArray *kernel = window(c.kernel), *stride = window(c.stride), *pad = window(c.pad), *one = window(1);
  switch (c.op) {
    case VectorOp::kLayerNormGrad: {
      aclIntArray* const shape = Calls::Ints(c.in[4].dims);
      return [=, &k] {
        (void)calls;
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnLayerNormBackwardGetWorkspaceSize(k.in[0], k.in[1], shape, k.in[2], k.in[3],
                                                            k.in[4], k.in[5], mask, k.out[0], k.out[1],
                                                            k.out[2], w, e);
            },
            aclnnLayerNormBackward);
      };
    }
    case VectorOp::kBatchNormGrad:
      return [=, &k] {
        (void)calls;
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnBatchNormBackwardGetWorkspaceSize(k.in[0], k.in[1], k.in[2], nullptr, nullptr,
                                                            k.in[3], k.in[4], true, 1e-5, mask, k.out[0],
                                                            k.out[1], k.out[2], w, e);
            },
            aclnnBatchNormBackward);
      };
    case VectorOp::kMaxPoolGrad:
      return [=, &k] {
        (void)calls;
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize(
                  k.in[0], k.in[1], k.in[2], kernel, stride, pad, one, false, k.out[0], w, e);
            },
            aclnnMaxPool2dWithIndicesBackward);
      };
    case VectorOp::kAvgPoolGrad:
      return [=, &k] {
        (void)calls;
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnAvgPool2dBackwardGetWorkspaceSize(k.in[0], k.in[1], kernel, stride, pad, false,
                                                            true, 0, 0, k.out[0], w, e);
            },
            aclnnAvgPool2dBackward);
      };
    case VectorOp::kCrossEntropyGrad: {  // forward and backward, as a training step does
      static char mean[] = "mean";
      static float one_grad = 1;
      auto pages = std::make_shared<Pages>(c.in[0].bytes());
      const Operand scalar{"loss", DType::kF32, {}};
      static float loss_value;
      static float unused[2];
      static std::vector<float> sums(static_cast<size_t>(c.in[0].dims[0]));
      const Operand rows{"lse", DType::kF32, {c.in[0].dims[0]}};
      aclTensor *const zloss = Calls::Make(scalar, unused), *const lse = Calls::Make(rows, sums.data());
      aclTensor* const logs = Calls::Make(c.in[0], pages->data());
      aclTensor *const loss = Calls::Make(scalar, &loss_value), *const grad = Calls::Make(scalar, &one_grad);
      return [=, &k] {
        (void)calls, (void)pages;
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnCrossEntropyLossGetWorkspaceSize(k.in[0], k.in[1], nullptr, mean, -100, 0, 0, false,
                                                           loss, logs, zloss, lse, w, e);
            },
            aclnnCrossEntropyLoss);
        k(
            [&](uint64_t* w, aclOpExecutor** e) {
              return aclnnCrossEntropyLossGradGetWorkspaceSize(grad, logs, k.in[1], nullptr, nullptr, nullptr,
                                                               mean, -100, 0, 0, k.out[0], w, e);
            },
            aclnnCrossEntropyLossGrad);
      };
    }
    default:
      return nullptr;
  }
}

}  // namespace

void AddOurs(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to) {
  if (auto s = SetOption("threads", std::to_string(threads)); !s.ok()) Fail(c, s.message());
  const std::string bytes = OnnxBytes(c, m);
  if (bytes.empty()) {
    if (auto run = Gradient(c, m)) to.push_back({"opsnn", run});
    return;
  }
  auto loaded = Model::LoadBytes(bytes.data(), bytes.size());
  if (!loaded.ok()) Fail(c, loaded.status().message());
  auto model = std::make_shared<Model>(std::move(*loaded));
  Feeds feeds;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!c.in[i].constant) feeds[c.in[i].name] = TensorOf(c.in[i], m.in[i]);
  }
  auto outputs = std::make_shared<std::vector<opsnn::Tensor>>();
  outputs->push_back(TensorOf(c.out[0], m.out[0]));
  to.push_back({"opsnn", [=, &c] {
                  if (auto s = model->Run(feeds, outputs.get()); !s.ok()) Fail(c, s.message());
                }});
}

}  // namespace opsnn::peers
