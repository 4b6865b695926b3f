// Tensors without elements, as programs pass them: without memory, or with strides that lead nowhere.
#include <cmath>

#include "aclnnop/aclnn_adaptive_avg_pool2d.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_adaptive_max_pool2d.h"
#include "aclnnop/aclnn_avgpool2d_backward.h"
#include "aclnnop/aclnn_batch_norm.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_softmax_cross_entropy_with_logits.h"
#include "aclnnop/aclnn_sort.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

// A tensor of f32 or bool without elements and without an address.
class Nothing {
 public:
  explicit Nothing(const Dims& dims, aclDataType type = ACL_FLOAT)
      : Nothing(dims, ContiguousStrides(dims), type) {}
  Nothing(const Dims& dims, const Dims& strides, aclDataType type = ACL_FLOAT)
      : handle_(aclCreateTensor(dims.begin(), static_cast<uint64_t>(dims.rank()), type, strides.begin(), 0,
                                ACL_FORMAT_ND, dims.begin(), static_cast<uint64_t>(dims.rank()), nullptr)) {}
  Nothing(const Nothing&) = delete;
  ~Nothing() { aclDestroyTensor(handle_); }
  operator aclTensor*() const { return handle_; }  // NOLINT: passes as the argument it stands for

 private:
  aclTensor* handle_;
};

class EmptyRows : public ApiTest {};

TEST_F(EmptyRows, NormsOfNothing) {
  Nothing x({3, 0}), y({3, 0}), gamma({0});
  ApiTensor mean(DType::kF32, {3, 1}), rstd(DType::kF32, {3, 1});
  ApiInts zero({0});
  for (aclTensor* weight : {static_cast<aclTensor*>(nullptr), static_cast<aclTensor*>(gamma)}) {
    ASSERT_EQ(CALL(aclnnLayerNorm, x, zero, weight, weight, 1e-5, y, mean, rstd), 0) << aclGetRecentErrMsg();
    for (const double v : rstd.Get()) EXPECT_FALSE(std::isfinite(v) && v < 0) << v;
  }
  ASSERT_EQ(CALL(aclnnRmsNorm, x, gamma, 1e-5, y, rstd), 0) << aclGetRecentErrMsg();
  Nothing strided({3, 0}, {1, 7});
  ASSERT_EQ(CALL(aclnnRmsNorm, strided, gamma, 1e-5, y, rstd), 0) << aclGetRecentErrMsg();
  ApiTensor one(DType::kF32, {2}), variance(DType::kF32, {2}), save(DType::kF32, {2}),
      inverse(DType::kF32, {2});
  one.Set({1, 1}), variance.Set({1, 1});
  Nothing batch({0, 2}, {6, 3}), out({0, 2});
  ASSERT_EQ(CALL(aclnnBatchNorm, batch, one, one, nullptr, nullptr, true, 0.1, 1e-5, out, save, inverse), 0)
      << aclGetRecentErrMsg();
  ExpectGuards({&mean, &rstd, &save, &inverse});
}

TEST_F(EmptyRows, LossesAndGradientsOfNothing) {
  Nothing logits({3, 0}), labels({3, 0}), back({3, 0});
  ApiTensor loss(DType::kF32, {3});
  ASSERT_EQ(CALL(aclnnSoftmaxCrossEntropyWithLogits, logits, labels, loss, back), 0) << aclGetRecentErrMsg();
  // Weights of a convolution without input channels.
  ApiTensor dy(DType::kF32, {1, 2, 2}), db(DType::kF32, {2});
  dy.Set({1, 2, 3, 4});
  Nothing x({1, 0, 4}), w({2, 0, 3}), dx({1, 0, 4}), dw({2, 0, 3});
  ApiInts sizes({2}), ones({1}), zeros({0});
  const bool all[] = {true, true, true};
  aclBoolArray* mask = aclCreateBoolArray(all, 3);
  ASSERT_EQ(CALL(aclnnConvolutionBackward, dy, x, w, sizes, ones, zeros, ones, false, zeros, 1, mask, 0, dx,
                 dw, db),
            0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(db.Get(), (std::vector<double>{3, 7}));
  aclDestroyBoolArray(mask);
}

// What has no elements costs nothing, whatever its other dims.
TEST_F(EmptyRows, HugeDimsBesideAnEmptyOne) {
  const Dims dims{0, int64_t{1} << 40};
  Nothing x(dims), y(dims), at(dims, ACL_INT64);
  ASSERT_EQ(CALL(aclnnSort, x, false, 0, false, y, at), 0) << aclGetRecentErrMsg();
}

// The windows of an adaptive mean repeat, so no matrix of all elements by all windows is needed.
TEST_F(EmptyRows, LongAdaptiveMeans) {
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{30000}, int64_t{60000}}) {
    ApiTensor x(DType::kF32, {1, 1, 60000}), y(DType::kF32, {1, 1, n});
    std::vector<double> values(60000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 4);
    x.Set(values);
    ApiInts size({1, n});
    ASSERT_EQ(CALL(aclnnAdaptiveAvgPool2d, x, size, y), 0) << aclGetRecentErrMsg();
    const std::vector<double> got = y.Get();
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = n == 60000 ? values[i] : n == 30000 ? 0.5 + 2.0 * static_cast<double>(i % 2) : 1.5;
      const double tolerance = 3.0 * (60000.0 / static_cast<double>(n)) * 0x1p-24;  // of a sum in any order
      ASSERT_NEAR(got[i], want, tolerance) << i << " of " << n;
    }
  }
}

// Planning looks at shapes: it costs no more for dims that no memory could hold, or says what it takes.
TEST_F(EmptyRows, PlanningLongPools) {
  constexpr int64_t kLong = 100000000;
  const auto plan = [&](const char* api, const Dims& image, const Dims& pooled) {
    ApiInts size({pooled[1], pooled[2]}), kernel({1, 3}), stride({1, 2}), none({0, 0});
    Nothing x(image), y(pooled), at(pooled, ACL_INT64);
    const std::string name = api;
    if (name == "max")
      return aclnnAdaptiveMaxPool2dGetWorkspaceSize(x, size, y, at, &workspace_size_, &executor_);
    if (name == "mean")
      return aclnnAdaptiveAvgPool2dGetWorkspaceSize(x, size, y, &workspace_size_, &executor_);
    if (name == "mean back")
      return aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(y, x, x, &workspace_size_, &executor_);
    return aclnnAvgPool2dBackwardGetWorkspaceSize(y, x, kernel, stride, none, false, true, 0, 0, x,
                                                  &workspace_size_, &executor_);
  };
  for (const int64_t n : {int64_t{1}, int64_t{1000}, kLong / 4}) {
    for (const char* api : {"max", "mean"}) {
      EXPECT_EQ(plan(api, {1, 1, kLong}, {1, 1, n}), 0) << api << n << aclGetRecentErrMsg();
      aclDestroyAclOpExecutor(executor_);
    }
  }
  ExpectRefused(plan("max", {1, 1, kLong}, {1, 1, kLong - 1}), 561003, {"aclnnAdaptiveMaxPool2d", "at most"});
  ExpectRefused(plan("mean", {1, 1, kLong}, {1, 1, kLong - 1}), 561003,
                {"aclnnAdaptiveAvgPool2d", "at most"});
  ExpectRefused(plan("mean", {1, 1, kLong}, {1, 1, 7}), 561003, {"aclnnAdaptiveAvgPool2d", "at most"});
  ExpectRefused(plan("mean back", {1, 1, kLong}, {1, 1, kLong}), 561003,
                {"aclnnAdaptiveAvgPool2dBackward", "at most"});
  ExpectRefused(plan("back", {1, 1, kLong}, {1, 1, (kLong - 3) / 2 + 1}), 561003,
                {"aclnnAvgPool2dBackward", "at most"});
}

TEST_F(EmptyRows, SortOfTruthValues) {
  ApiTensor x(DType::kBool, {5}), y(DType::kBool, {5}), at(DType::kS64, {5});
  x.Set({1, 0, 1, 0, 1});
  ASSERT_EQ(CALL(aclnnSort, x, true, 0, false, y, at), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{0, 0, 1, 1, 1}));
  EXPECT_EQ(at.Get(), (std::vector<double>{1, 3, 0, 2, 4}));
}

}  // namespace
}  // namespace opsnn::capi
