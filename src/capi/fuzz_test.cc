// Random calls: any mixture of handles, shapes, strides, dtypes and attribute values gives a documented code
// and a message that starts with the function's name, and what is accepted runs without touching foreign
// memory.
#include <array>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_gelu.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_max_pool.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_softmax.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kBlockBytes = 16384;

// Random arguments. Objects live until the round ends; some are destroyed early on purpose.
class Source {
 public:
  Source(Rng& rng, char* block) : rng_(rng), block_(block) {}
  ~Source() {
    for (aclTensor* t : tensors_) aclDestroyTensor(t);
    for (aclIntArray* a : arrays_) aclDestroyIntArray(a);
    for (aclScalar* s : scalars_) aclDestroyScalar(s);
    aclGetRecentErrMsg();
  }

  // Mostly tensors that go together: one of two shapes, one dtype, memory in one block.
  aclTensor* Tensor() {
    if (rng_.Chance(0.02)) return nullptr;
    if (rng_.Chance(0.02)) return reinterpret_cast<aclTensor*>(Scalar());
    if (!tensors_.empty() && rng_.Chance(0.15))
      return tensors_[rng_.Int(0, static_cast<int64_t>(tensors_.size()) - 1)];
    std::vector<int64_t> dims = shapes_[rng_.Chance(0.7) ? 0 : rng_.Int(0, 3)];
    if (rng_.Chance(0.1)) dims.push_back(rng_.Int(0, 3));
    std::vector<int64_t> strides(dims.size());
    int64_t step = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      strides[i] = rng_.Chance(0.05) ? rng_.Int(0, 7) : step;
      step *= dims[i] + (rng_.Chance(0.05) ? 1 : 0);
    }
    if (dims.size() > 1 && rng_.Chance(0.15)) std::swap(strides[0], strides.back());
    static constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_INT32,  ACL_INT8,
                                             ACL_INT64, ACL_BOOL,    ACL_UINT8, ACL_UINT16, ACL_DOUBLE};
    const aclDataType type = rng_.Chance(0.8) ? type_ : kTypes[rng_.Int(0, 9)];
    static constexpr aclFormat kFormats[] = {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC,
                                             ACL_FORMAT_FRACTAL_NZ};
    const aclFormat format = rng_.Chance(0.95) ? ACL_FORMAT_ND : kFormats[rng_.Int(0, 3)];
    void* data = rng_.Chance(0.03) ? nullptr : block_ + 8 * rng_.Int(0, kBlockBytes / 8 - 1) * rng_.Int(0, 1);
    const int64_t offset = rng_.Chance(0.5) ? 0 : rng_.Int(0, 900);
    aclTensor* t = aclCreateTensor(dims.data(), dims.size(), type, strides.data(), offset, format,
                                   dims.data(), dims.size(), data);
    tensors_.push_back(t);
    if (rng_.Chance(0.01)) aclDestroyTensor(t);
    return t;
  }
  aclIntArray* Ints() {
    if (rng_.Chance(0.02)) return nullptr;
    std::vector<int64_t> v(static_cast<size_t>(rng_.Chance(0.7) ? 2 : rng_.Int(0, 5)));
    const bool odd = rng_.Chance(0.1);
    for (int64_t& x : v) x = odd ? rng_.Int(-2, 9) : rng_.Int(1, 2);
    arrays_.push_back(aclCreateIntArray(v.data(), v.size()));
    return arrays_.back();
  }
  aclScalar* Scalar() {
    static constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT,     ACL_INT32,
                                             ACL_BF16,  ACL_COMPLEX64, ACL_UINT64};
    std::array<float, 4> bytes{1.5f, 0, 0, 0};
    scalars_.push_back(aclCreateScalar(bytes.data(), kTypes[rng_.Int(0, 5)]));
    return scalars_.back();
  }
  int64_t Small() { return rng_.Chance(0.8) ? rng_.Int(0, 1) : rng_.Int(-9, 70000); }

 private:
  Rng& rng_;
  char* block_;
  const std::vector<int64_t> shapes_[4] = {{rng_.Int(1, 4), rng_.Int(1, 4), rng_.Int(1, 6), rng_.Int(1, 6)},
                                           {rng_.Int(0, 6), rng_.Int(1, 6)},
                                           {rng_.Int(1, 6)},
                                           {rng_.Int(1, 6), rng_.Int(1, 2), rng_.Int(1, 6)}};
  const aclDataType type_ = rng_.Chance(0.7) ? ACL_FLOAT : ACL_FLOAT16;
  std::vector<aclTensor*> tensors_;
  std::vector<aclIntArray*> arrays_;
  std::vector<aclScalar*> scalars_;
};

// An optional tensor.
aclTensor* OrNothing(Rng& rng, Source& s) { return rng.Chance(0.5) ? s.Tensor() : nullptr; }

TEST_F(ApiTest, RandomCalls) {
  Rng rng;
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, kBlockBytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  int accepted = 0, refused = 0;
  for (auto _ : testing::FuzzFor(500)) {
    ASSERT_EQ(aclrtMemset(block, kBlockBytes, 0, kBlockBytes), ACL_SUCCESS);
    Source s(rng, static_cast<char*>(block));
    const char* name = "";
    int code = -1;
    auto call = [&](const char* api, int phase_one, auto run) {
      name = api;
      code = phase_one;
      if (code) {
        EXPECT_EQ(executor_, nullptr) << api;
        return;
      }
      void* workspace = nullptr;
      if (workspace_size_) {
        ASSERT_EQ(aclrtMalloc(&workspace, workspace_size_, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
      }
      code = run(workspace, workspace_size_, executor_, stream_);
      if (!code) code = aclrtSynchronizeStream(stream_);
      if (workspace) aclrtFree(workspace);
    };
    uint64_t* const w = &workspace_size_;
    aclOpExecutor** const e = &executor_;
    switch (rng.Int(0, 9)) {
      case 0:
        call("aclnnRelu", aclnnReluGetWorkspaceSize(s.Tensor(), s.Tensor(), w, e), aclnnRelu);
        break;
      case 1:
        call("aclnnGelu", aclnnGeluGetWorkspaceSize(s.Tensor(), s.Tensor(), w, e), aclnnGelu);
        break;
      case 2:
        call("aclnnAdd", aclnnAddGetWorkspaceSize(s.Tensor(), s.Tensor(), s.Scalar(), s.Tensor(), w, e),
             aclnnAdd);
        break;
      case 3:
        call("aclnnMul", aclnnMulGetWorkspaceSize(s.Tensor(), s.Tensor(), s.Tensor(), w, e), aclnnMul);
        break;
      case 4:
        call(
            "aclnnCast",
            aclnnCastGetWorkspaceSize(s.Tensor(), static_cast<aclDataType>(rng.Int(0, 27)), s.Tensor(), w, e),
            aclnnCast);
        break;
      case 5:
        call("aclnnSoftmax", aclnnSoftmaxGetWorkspaceSize(s.Tensor(), s.Small(), s.Tensor(), w, e),
             aclnnSoftmax);
        break;
      case 6:
        call("aclnnMatmul",
             aclnnMatmulGetWorkspaceSize(s.Tensor(), s.Tensor(), s.Tensor(), static_cast<int8_t>(s.Small()),
                                         w, e),
             aclnnMatmul);
        break;
      case 7:
        call("aclnnLayerNorm",
             aclnnLayerNormGetWorkspaceSize(s.Tensor(), s.Ints(), OrNothing(rng, s), OrNothing(rng, s), 1e-5,
                                            s.Tensor(), OrNothing(rng, s), OrNothing(rng, s), w, e),
             aclnnLayerNorm);
        break;
      case 8:
        call("aclnnConvolution",
             aclnnConvolutionGetWorkspaceSize(s.Tensor(), s.Tensor(), OrNothing(rng, s), s.Ints(), s.Ints(),
                                              s.Ints(), rng.Chance(0.4), s.Ints(), s.Small(), s.Tensor(),
                                              static_cast<int8_t>(s.Small()), w, e),
             aclnnConvolution);
        break;
      default:
        call("aclnnMaxPool",
             aclnnMaxPoolGetWorkspaceSize(s.Tensor(), s.Ints(), s.Ints(), s.Small(), s.Ints(), s.Ints(),
                                          s.Small(), s.Tensor(), w, e),
             aclnnMaxPool);
    }
    code == 0 ? ++accepted : ++refused;
    if (code) {
      const char* message = aclGetRecentErrMsg();
      ASSERT_NE(message, nullptr) << name << " gave " << code;
      EXPECT_TRUE(code == 161001 || code == 161002 || code == 561003) << code << ": " << message;
      // Objects that could not be made leave messages, too.
      EXPECT_TRUE(std::string(message).find(name) != std::string::npos) << message;
    }
  }
  EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
  // Where time allows more than a few calls, both kinds come up.
  if (refused + accepted > 1000) {
    EXPECT_GT(refused, 0);
    EXPECT_GT(accepted, 0);
  }
}

}  // namespace
}  // namespace opsnn::capi
