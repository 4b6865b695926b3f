// Repeatable executors whose tensors move between runs.
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_scatter.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

constexpr int kInvalid = 161002;

TEST_F(ApiTest, RepeatableExecutorsMove) {
  Rng rng;
  ApiTensor x(DType::kF32, {6}), y(DType::kF32, {6}), x2(DType::kF32, {6}), y2(DType::kF32, {6});
  x.Set({-1, 2, -3, 4, -5, 6});
  x2.Set({1, -2, 3, -4, 5, -6});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  void *x2_data = nullptr, *y2_data = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(x2, &x2_data), 0);
  EXPECT_EQ(aclGetRawTensorAddr(y2, &y2_data), 0);
  EXPECT_EQ(aclSetInputTensorAddr(executor_, 0, x, x2_data), 0);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, y2_data), 0);
  EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  EXPECT_EQ(aclSetTensorAddr(executor_, 1, y, y2_data), 0);
  ExpectRefused(aclSetTensorAddr(executor_, 2, y, y2_data), kInvalid, {"index is 2", "below 2"});
  ExpectRefused(aclSetInputTensorAddr(nullptr, 0, x, x2_data), 561103, {"executor is null"});
  ExpectRefused(aclSetInputTensorAddr(executor_, 0, nullptr, x2_data), 561103, {"tensor is null"});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(y.Get(), (std::vector<double>{0, 2, 0, 4, 0, 6}));
  EXPECT_EQ(y2.Get(), (std::vector<double>{1, 0, 3, 0, 5, 0}));
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  ExpectRefused(aclDestroyAclOpExecutor(executor_), kInvalid, {"used up or destroyed"});
  ExpectRefused(aclSetAclOpExecutorRepeatable(nullptr), 561103, {"executor is null"});
}

TEST_F(ApiTest, MovedTensorsAreThoseOfPhaseOne) {
  ApiTensor x(DType::kF32, {2, 3}), y(DType::kF32, {2, 3}), half(DType::kF16, {2, 3}), flat(DType::kF32, {6});
  x.Set({-1, 2, -3, 4, -5, 6});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  void* address = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(y, &address), 0);
  ExpectRefused(aclSetInputTensorAddr(executor_, 0, half, address), kInvalid,
                {"aclSetInputTensorAddr: tensor is f16 [2,3]", "f32 [2,3]", "self of aclnnRelu"});
  ExpectRefused(aclSetOutputTensorAddr(executor_, 0, flat, address), kInvalid,
                {"tensor is f32 [6]", "f32 [2,3]", "out of aclnnRelu"});
  float one = 1;
  aclScalar* scalar = aclCreateScalar(&one, ACL_FLOAT);
  ExpectRefused(aclSetTensorAddr(executor_, 0, reinterpret_cast<aclTensor*>(scalar), address), kInvalid,
                {"tensor is an aclScalar", "an aclTensor"});
  aclDestroyScalar(scalar);
  // Another handle of the same form will do, and so does one that is gone.
  const int64_t dims[] = {2, 3};
  aclTensor* like = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, address);
  EXPECT_EQ(aclSetInputTensorAddr(executor_, 0, like, address), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(aclDestroyTensor(like), 0);
  EXPECT_EQ(aclSetInputTensorAddr(executor_, 0, like, address), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
}

TEST_F(ApiTest, MovedMembersAreThoseOfPhaseOne) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto row = [&](int64_t n, float* at) {
    return aclCreateTensor(&n, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &n, 1, at);
  };
  ApiTensor y(DType::kF32, {5});
  const aclTensor *members[] = {row(2, &memory[0]), row(3, &memory[2])}, *swapped[] = {row(3, &memory[5])};
  aclTensorList *list = aclCreateTensorList(members, 2), *other = aclCreateTensorList(swapped, 1);
  ASSERT_EQ(aclnnCatGetWorkspaceSize(list, 0, y, &workspace_size_, &executor_), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(workspace_size_, 0u);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  EXPECT_EQ(aclSetDynamicInputTensorAddr(executor_, 0, 1, list, &memory[5]), 0) << aclGetRecentErrMsg();
  ExpectRefused(aclSetDynamicInputTensorAddr(executor_, 0, 0, other, &memory[5]), kInvalid,
                {"tensor is f32 [3]", "f32 [2]", "tensors[0] of aclnnCat"});
  ExpectRefused(aclSetDynamicInputTensorAddr(executor_, 0, 2, list, &memory[5]), kInvalid,
                {"relativeIndex 2"});
  EXPECT_EQ(aclnnCat(nullptr, 0, executor_, stream_), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(y.Get(), (std::vector<double>{1, 2, 6, 7, 8}));
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  for (aclTensorList* l : {list, other}) EXPECT_EQ(aclDestroyTensorList(l), 0);
}

// Addresses that are set later are held to what phase one holds its own to.
TEST_F(ApiTest, MovedTensorsMustNotOverlap) {
  Rng rng;
  GuardedTensor memory(DType::kF32, {32}), other(DType::kF32, {16});
  memory.FillRandom(rng);
  other.FillRandom(rng);
  const int64_t dims[] = {4, 4}, rows[] = {1, 0};
  auto* at = static_cast<float*>(memory.view().data);
  aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, at);
  aclTensor* y = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, other.view().data);
  // A pointwise function may work in place, but not half in place.
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, at + 3), 0);
  const std::vector<double> before = memory.Get();
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid, {"aclnnRelu", "out overlaps self"});
  EXPECT_EQ(memory.Get(), before);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, at), 0);
  EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, at + 16), 0);
  EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  std::vector<double> after = memory.Get();
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(after[i], std::max(before[i], 0.0));
    EXPECT_EQ(after[16 + i], after[i]);
  }
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  // One that moves data cannot where it was planned apart.
  aclIntArray* order = aclCreateIntArray(rows, 2);
  ASSERT_EQ(aclnnPermuteGetWorkspaceSize(x, order, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  EXPECT_EQ(aclDestroyTensor(x), 0);  // the executor needs the handles no longer
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, at), 0);
  ExpectRefused(aclnnPermute(nullptr, 0, executor_, stream_), kInvalid,
                {"aclnnPermute", "out", "memory of self"});
  EXPECT_EQ(memory.Get(), after);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, at + 16), 0);
  EXPECT_EQ(aclnnPermute(nullptr, 0, executor_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  after = memory.Get();
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(after[16 + i], after[i % 4 * 4 + i / 4]);
  EXPECT_TRUE(memory.GuardsIntact());
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  aclDestroyIntArray(order);
  // One that may work in place on its first operand must not take another's memory.
  GuardedTensor index(DType::kS64, {4, 4}), updates(DType::kF32, {4, 4}), self(DType::kF32, {4, 4});
  index.Set({3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3});
  self.FillRandom(rng);
  updates.FillRandom(rng);
  const auto tensor = [&](const GuardedTensor& t, aclDataType type) {
    return aclCreateTensor(dims, 2, type, nullptr, 0, ACL_FORMAT_ND, dims, 2, t.view().data);
  };
  aclTensor *base = tensor(self, ACL_FLOAT), *at_rows = tensor(index, ACL_INT64),
            *src = tensor(updates, ACL_FLOAT);
  ASSERT_EQ(aclnnScatterGetWorkspaceSize(base, 1, at_rows, src, 0, y, &workspace_size_, &executor_), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  void* workspace = nullptr;
  if (workspace_size_) {
    ASSERT_EQ(aclrtMalloc(&workspace, workspace_size_, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  }
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, y, updates.view().data), 0);
  ExpectRefused(aclnnScatter(workspace, workspace_size_, executor_, stream_), kInvalid,
                {"aclnnScatter", "out", "memory of src"});
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  if (workspace) {
    EXPECT_EQ(aclrtFree(workspace), 0);
  }
  for (aclTensor* t : {base, at_rows, src, y}) aclDestroyTensor(t);
}

}  // namespace
}  // namespace opsnn::capi
