// Every kind of bad argument is refused with its code and a message that names function, argument, what it
// got and what is allowed; executors cannot be misused.
#include <cmath>
#include <cstring>
#include <thread>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_digamma.h"
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

constexpr int kNull = 161001, kInvalid = 161002;

TEST_F(ApiTest, NullArguments) {
  ApiTensor x(DType::kF32, {2, 3}), y(DType::kF32, {2, 3});
  ApiScalar one(1.0f);
  ExpectRefused(CALL(aclnnRelu, nullptr, y), kNull, {"aclnnRelu", "self is null"});
  ExpectRefused(CALL(aclnnRelu, x, nullptr), kNull, {"aclnnRelu", "out is null"});
  ExpectRefused(CALL(aclnnGelu, nullptr, y), kNull, {"aclnnGelu", "self is null"});
  ExpectRefused(CALL(aclnnAdd, x, nullptr, one, y), kNull, {"aclnnAdd", "other is null"});
  ExpectRefused(CALL(aclnnAdd, x, x, nullptr, y), kNull, {"aclnnAdd", "alpha is null", "aclScalar"});
  ExpectRefused(CALL(aclnnMul, x, x, nullptr), kNull, {"aclnnMul", "out is null"});
  ExpectRefused(CALL(aclnnMatmul, x, nullptr, y, int8_t{0}), kNull, {"aclnnMatmul", "mat2 is null"});
  ExpectRefused(CALL(aclnnSoftmax, nullptr, 0, y), kNull, {"aclnnSoftmax", "self is null"});
  ExpectRefused(CALL(aclnnLayerNorm, x, nullptr, nullptr, nullptr, 1e-5, y, nullptr, nullptr), kNull,
                {"aclnnLayerNorm", "normalizedShape is null", "aclIntArray"});
  ExpectRefused(CALL(aclnnCast, x, ACL_FLOAT, nullptr), kNull, {"aclnnCast", "out is null"});
  ExpectRefused(CALL(aclnnMaxPool, x, nullptr, nullptr, 0, nullptr, nullptr, 0, y), kNull,
                {"aclnnMaxPool", "kernelShape is null"});
  ExpectRefused(aclnnReluGetWorkspaceSize(x, y, nullptr, &executor_), kNull,
                {"aclnnRelu", "workspaceSize is null"});
  ExpectRefused(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, nullptr), kNull,
                {"aclnnRelu", "executor is null"});
}

// The workspace must fit its block, whatever size the caller tells.
TEST_F(ApiTest, WorkspacesThatTheirBlockCannotHold) {
  ApiTensor x(DType::kF32, {1, 16, 8, 8}), w(DType::kF32, {16, 16, 3, 3}), y(DType::kF32, {1, 16, 8, 8});
  ApiInts ones({1, 1}), zeros({0, 0});
  for (const size_t missing : {size_t{0}, size_t{4096}}) {
    ASSERT_EQ(aclnnConvolutionGetWorkspaceSize(x, w, nullptr, ones, ones, ones, false, zeros, 1, y, 0,
                                               &workspace_size_, &executor_),
              0);
    ASSERT_GT(workspace_size_, missing + 64);
    void* block = nullptr;
    ASSERT_EQ(aclrtMalloc(&block, workspace_size_ - missing, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    const int code = aclnnConvolution(block, workspace_size_, executor_, stream_);
    if (missing == 0) {
      EXPECT_EQ(code, 0) << aclGetRecentErrMsg();
    } else {
      ExpectRefused(code, kInvalid,
                    {"aclnnConvolution", "workspace", std::to_string(workspace_size_ - missing)});
    }
    EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
    EXPECT_EQ(aclrtFree(block), 0);
  }
}

TEST_F(ApiTest, DeadAndForeignHandles) {
  ApiTensor y(DType::kF32, {2});
  ApiScalar one(1.0f);
  const int64_t dims[] = {2};
  aclTensor* dead = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
  aclDestroyTensor(dead);
  ExpectRefused(CALL(aclnnRelu, dead, y), kInvalid, {"aclnnRelu", "self", "destroyed already"});
  auto* scalar = reinterpret_cast<const aclTensor*>(static_cast<const aclScalar*>(one));
  ExpectRefused(CALL(aclnnRelu, scalar, y), kInvalid,
                {"aclnnRelu", "self is an aclScalar", "a live aclTensor"});
  ExpectRefused(CALL(aclnnRelu, reinterpret_cast<const aclTensor*>(&y), y), kInvalid,
                {"self is not a handle"});
}

TEST_F(ApiTest, NullMembersOfLists) {
  ApiTensor x(DType::kF32, {2}), y(DType::kF32, {4});
  const aclTensor* members[] = {x, nullptr};
  aclTensorList* list = aclCreateTensorList(members, 2);
  ASSERT_NE(list, nullptr);
  ExpectRefused(CALL(aclnnCat, list, 0, y), kNull, {"aclnnCat", "tensors[1] is null", "live aclTensor"});
}

// As on the device, a tensor may be made of anything; functions say what they do not take.
TEST_F(ApiTest, OddTypesAndFormatsAreRefusedWhereTheyAreUsed) {
  const int64_t dims[] = {2};
  ApiTensor y(DType::kF32, {2});
  for (int type : {-1, 5, 42, 999}) {
    aclTensor* odd =
        aclCreateTensor(dims, 1, static_cast<aclDataType>(type), nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
    ASSERT_NE(odd, nullptr);
    ExpectRefused(CALL(aclnnRelu, odd, y), kInvalid,
                  {"aclnnRelu", "self has dtype", std::to_string(type), "allowed"});
    aclDestroyTensor(odd);
  }
  for (int format : {-1, 3, 999}) {
    aclTensor* odd =
        aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, static_cast<aclFormat>(format), dims, 1, nullptr);
    ASSERT_NE(odd, nullptr);
    ExpectRefused(CALL(aclnnRelu, odd, y), kInvalid, {"aclnnRelu", "self has format", "allowed"});
    aclDestroyTensor(odd);
  }
}

TEST_F(ApiTest, WrongDTypes) {
  ApiTensor f32(DType::kF32, {2, 2}), f64(DType::kF64, {2, 2}), s32(DType::kS32, {2, 2}),
      f16(DType::kF16, {2, 2});
  ApiScalar one(1.0f);
  ExpectRefused(CALL(aclnnRelu, f64, f64), kInvalid, {"aclnnRelu", "self has dtype f64", "allowed:", "f32"});
  ExpectRefused(CALL(aclnnRelu, f32, f16), kInvalid, {"aclnnRelu", "out has dtype f16", "allowed: f32"});
  ExpectRefused(CALL(aclnnGelu, s32, s32), kInvalid, {"aclnnGelu", "self has dtype s32"});
  ExpectRefused(CALL(aclnnAdd, f32, f32, one, s32), kInvalid, {"aclnnAdd", "out has dtype s32", "f32"});
  ExpectRefused(CALL(aclnnAdd, s32, s32, one, s32), kInvalid,
                {"aclnnAdd", "alpha has dtype f32", "cast to s32"});
  ExpectRefused(CALL(aclnnMul, f32, f32, s32), kInvalid, {"aclnnMul", "out has dtype s32"});
  ExpectRefused(CALL(aclnnMatmul, s32, s32, s32, int8_t{0}), kInvalid, {"aclnnMatmul", "self has dtype s32"});
  ExpectRefused(CALL(aclnnSoftmax, s32, 0, s32), kInvalid, {"aclnnSoftmax", "self has dtype s32"});
  ExpectRefused(CALL(aclnnCast, f32, ACL_INT32, f16), kInvalid,
                {"aclnnCast", "dtype is s32", "allowed: f16"});
  const int64_t dims[] = {2, 2};
  aclTensor* u16 = aclCreateTensor(dims, 2, ACL_UINT16, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
  ExpectRefused(CALL(aclnnRelu, u16, f32), kInvalid, {"aclnnRelu", "self has dtype u16"});
  aclDestroyTensor(u16);
  std::array<float, 2> z{1, 1};
  ApiScalar complex(z.data(), ACL_COMPLEX64);
  ExpectRefused(CALL(aclnnAdd, f32, f32, complex, f32), kInvalid, {"aclnnAdd", "alpha", "complex64"});
}

TEST_F(ApiTest, WrongShapes) {
  ApiTensor x(DType::kF32, {2, 3}), y(DType::kF32, {3, 2}), z(DType::kF32, {2, 4});
  ApiScalar one(1.0f);
  ExpectRefused(CALL(aclnnRelu, x, y), kInvalid, {"aclnnRelu", "out has shape [3,2]", "allowed: [2,3]"});
  ExpectRefused(CALL(aclnnAdd, x, z, one, x), kInvalid, {"aclnnAdd", "[2,3]", "[2,4]"});
  ExpectRefused(CALL(aclnnMul, x, x, z), kInvalid, {"aclnnMul", "out has shape [2,4]"});
  ExpectRefused(CALL(aclnnMatmul, x, z, y, int8_t{0}), kInvalid,
                {"aclnnMatmul", "mat2 has shape [2,4]", "3 rows"});
  ExpectRefused(CALL(aclnnMatmul, x, y, x, int8_t{0}), kInvalid,
                {"aclnnMatmul", "out has shape [2,3]", "[2,2]"});
  ExpectRefused(CALL(aclnnMatmul, x, y, x, int8_t{9}), kInvalid,
                {"aclnnMatmul", "cubeMathType is 9", "0 to 4"});
  ExpectRefused(CALL(aclnnSoftmax, x, 2, x), kInvalid, {"aclnnSoftmax", "dim"});
  ExpectRefused(CALL(aclnnSoftmax, x, 0, y), kInvalid, {"aclnnSoftmax", "out has shape"});
  const int64_t nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  aclTensor* t = aclCreateTensor(nine, 9, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nine, 9, nullptr);
  ExpectRefused(CALL(aclnnRelu, t, x), kInvalid, {"aclnnRelu", "self has 9 dims", "at most 8"});
  aclDestroyTensor(t);
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  t = aclCreateTensor(huge, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, huge, 2, nullptr);
  ExpectRefused(CALL(aclnnRelu, t, t), kInvalid, {"aclnnRelu", "overflow"});
  aclDestroyTensor(t);
}

TEST_F(ApiTest, LayerNormRefusals) {
  ApiTensor x(DType::kF32, {2, 3, 4}), y(DType::kF32, {2, 3, 4}), w(DType::kF32, {4}),
      w2(DType::kF32, {3, 4});
  ApiTensor h(DType::kF16, {4}), mean(DType::kF32, {2, 3}), f16(DType::kF16, {2, 3, 4});
  ApiInts last({4}), wrong({5}), none({}), four({1, 2, 3, 4});
  auto call = [&](const aclTensor* in, const aclIntArray* shape, const aclTensor* weight,
                  const aclTensor* bias, const aclTensor* out, aclTensor* m) {
    return CALL(aclnnLayerNorm, in, shape, weight, bias, 1e-5, const_cast<aclTensor*>(out), m, nullptr);
  };
  ExpectRefused(call(x, wrong, nullptr, nullptr, y, nullptr), kInvalid,
                {"aclnnLayerNorm", "normalizedShape is [5]", "[2,3,4]"});
  ExpectRefused(call(x, none, nullptr, nullptr, y, nullptr), kInvalid,
                {"normalizedShape has 0 values", "1 to 3"});
  ExpectRefused(call(x, four, nullptr, nullptr, y, nullptr), kInvalid, {"normalizedShape has 4 values"});
  ExpectRefused(call(x, last, w2, nullptr, y, nullptr), kInvalid,
                {"weightOptional has shape [3,4]", "allowed: [4]"});
  ExpectRefused(call(x, last, nullptr, w2, y, nullptr), kInvalid, {"biasOptional has shape [3,4]"});
  ExpectRefused(call(x, last, h, nullptr, y, nullptr), kInvalid,
                {"weightOptional has dtype f16", "allowed: f32"});
  ExpectRefused(call(f16, last, h, w, f16, nullptr), kInvalid,
                {"biasOptional has dtype f32", "weightOptional"});
  ExpectRefused(call(x, last, nullptr, nullptr, f16, nullptr), kInvalid, {"out has dtype f16"});
  ExpectRefused(call(x, last, nullptr, nullptr, y, mean), kInvalid,
                {"meanOutOptional has shape [2,3]", "[2,3,1]"});
  ExpectRefused(call(x, last, nullptr, nullptr, w2, nullptr), kInvalid, {"out has shape [3,4]"});
}

TEST_F(ApiTest, MaxPoolRefusals) {
  ApiTensor x(DType::kF32, {1, 2, 6, 6}), y(DType::kF32, {1, 2, 3, 3}), flat(DType::kF32, {6, 6});
  ApiInts two({2, 2}), none({}), zero({0, 2}), three({1, 1, 1}), big({2, 2, 2, 2}), dilated({2, 2}),
      pad0({0, 0});
  auto call = [&](const aclTensor* in, const aclIntArray* kernel, const aclIntArray* strides, int64_t mode,
                  const aclIntArray* pads, const aclIntArray* dilations) {
    return CALL(aclnnMaxPool, in, kernel, strides, mode, pads, dilations, 0, y);
  };
  EXPECT_EQ(call(x, two, two, 0, pad0, none), 0);
  ExpectRefused(call(flat, two, two, 0, pad0, none), kInvalid,
                {"aclnnMaxPool", "self has 2 dims", "3 (C, H, W)"});
  ExpectRefused(call(x, three, two, 0, pad0, none), kInvalid, {"kernelShape has 3 values", "1 or 2"});
  ExpectRefused(call(x, zero, two, 0, pad0, none), kInvalid, {"kernelShape has the value 0"});
  ExpectRefused(call(x, two, zero, 0, pad0, none), kInvalid, {"strides has the value 0"});
  ExpectRefused(call(x, two, two, 1, pad0, none), kInvalid, {"autoPad is 1", "allowed: 0"});
  ExpectRefused(call(x, two, two, 0, three, none), kInvalid, {"pads has 3 values"});
  ExpectRefused(call(x, two, two, 0, big, none), kInvalid, {"pads of the height are 2 and 2"});
  ExpectRefused(call(x, two, two, 0, pad0, dilated), kInvalid, {"dilations must be"});
  ExpectRefused(call(x, two, none, 0, pad0, none), kInvalid, {"out has shape [1,2,3,3]", "[1,2,5,5]"});
}

TEST_F(ApiTest, ConvolutionRefusals) {
  ApiTensor x(DType::kF32, {1, 4, 5, 5}), w(DType::kF32, {6, 4, 3, 3}), b(DType::kF32, {5}),
      y(DType::kF32, {1, 6, 3, 3});
  ApiTensor w1d(DType::kF32, {6, 4, 3}), big(DType::kF32, {6, 4, 9, 9}), x5(DType::kF32, {1, 4, 5, 5, 5});
  ApiTensor nhwc(DType::kF32, {1, 4, 5, 5}, nullptr, false, ACL_FORMAT_NHWC);
  ApiInts one({1, 1}), zero({0, 0}), three({1, 1, 1}), negative({-1, 0}), single({1});
  struct Args {
    const aclTensor *x, *w, *b;
    const aclIntArray *stride, *padding, *dilation;
    bool transposed = false;
    const aclIntArray* extra = nullptr;
    int64_t groups = 1;
    int8_t math = 0;
  };
  auto call = [&](const Args& a) {
    return CALL(aclnnConvolution, a.x, a.w, a.b, a.stride, a.padding, a.dilation, a.transposed, a.extra,
                a.groups, y, a.math);
  };
  EXPECT_EQ(call({x, w, nullptr, one, zero, one}), 0);
  ExpectRefused(call({nullptr, w, nullptr, one, zero, one}), kNull, {"aclnnConvolution", "input is null"});
  ExpectRefused(call({x, w, nullptr, nullptr, zero, one}), kNull, {"stride is null"});
  ExpectRefused(call({x, w, nullptr, one, zero, one, true}), kNull, {"outputPadding is null", "transposed"});
  ExpectRefused(call({x, w, b, one, zero, one}), kInvalid, {"bias has shape [5]", "[6]"});
  ExpectRefused(call({x, w1d, nullptr, one, zero, one}), kInvalid, {"weight has 3 dims", "allowed: 4"});
  ExpectRefused(call({x, w, nullptr, single, zero, one}), kInvalid, {"stride has 1 values", "allowed: 2"});
  ExpectRefused(call({x, w, nullptr, zero, zero, one}), kInvalid, {"stride has the value 0"});
  ExpectRefused(call({x, w, nullptr, one, three, one}), kInvalid, {"padding has 3 values", "2 or 4"});
  ExpectRefused(call({x, w, nullptr, one, negative, one}), kInvalid, {"padding has the value -1"});
  ExpectRefused(call({x, w, nullptr, one, zero, zero}), kInvalid, {"dilation has the value 0"});
  ExpectRefused(call({x, w, nullptr, one, zero, one, false, nullptr, 3}), kInvalid, {"groups is 3"});
  ApiTensor five(DType::kF32, {5, 2, 3, 3});
  ExpectRefused(call({x, five, nullptr, one, zero, one, false, nullptr, 2}), kInvalid,
                {"groups is 2", "weight has shape [5,2,3,3]", "divide its 5 channels"});
  ExpectRefused(call({x, w, nullptr, one, zero, one, false, nullptr, 0}), kInvalid,
                {"groups is 0", "1 to 65535"});
  ExpectRefused(call({x, w, nullptr, one, zero, one, false, nullptr, 1, 7}), kInvalid, {"cubeMathType is 7"});
  ExpectRefused(call({x, big, nullptr, one, zero, one}), kInvalid, {"aclnnConvolution"});
  ExpectRefused(call({nhwc, w, nullptr, one, zero, one}), kInvalid, {"input has format 1", "NCHW"});
  ExpectRefused(call({x5, w, nullptr, one, zero, one}), kInvalid, {"weight has 4 dims", "allowed: 5"});
  ExpectRefused(call({x, w, nullptr, one, one, one}), kInvalid, {"output has shape [1,6,3,3]", "[1,6,5,5]"});
}

TEST_F(ApiTest, OverlapsAreRefused) {
  std::vector<float> memory(64);
  auto tensor = [&](std::vector<int64_t> dims, std::vector<int64_t> strides, int64_t offset) {
    return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, strides.data(), offset, ACL_FORMAT_ND,
                           dims.data(), dims.size(), memory.data());
  };
  aclTensor* x = tensor({4, 4}, {4, 1}, 0);
  aclTensor* shifted = tensor({4, 4}, {4, 1}, 1);
  aclTensor* repeated = tensor({4, 4}, {0, 1}, 32);
  aclTensor* apart = tensor({4, 4}, {4, 1}, 32);
  ExpectRefused(CALL(aclnnRelu, x, shifted), kInvalid, {"aclnnRelu", "out overlaps self"});
  ExpectRefused(CALL(aclnnRelu, x, repeated), kInvalid, {"aclnnRelu", "out overlaps itself", "[0,1]"});
  EXPECT_EQ(CALL(aclnnRelu, repeated, x), 0);  // an input may repeat
  EXPECT_EQ(CALL(aclnnRelu, x, apart), 0);
  ApiInts shape({4});
  aclTensor* stats = tensor({4, 1}, {1, 1}, 40);
  ExpectRefused(CALL(aclnnLayerNorm, x, shape, nullptr, nullptr, 1e-5, apart, stats, nullptr), kInvalid,
                {"aclnnLayerNorm", "overlaps", "outputs that are apart"});
  for (aclTensor* t : {x, shifted, repeated, apart, stats}) aclDestroyTensor(t);
}

TEST_F(ApiTest, ViewsPastTheirAllocation) {
  void* small = nullptr;
  ASSERT_EQ(aclrtMalloc(&small, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  const int64_t dims[] = {4096};
  aclTensor* x = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, small);
  ApiTensor y(DType::kF32, {4096});
  ExpectRefused(CALL(aclnnRelu, x, y), kInvalid, {"aclnnRelu", "self reaches", "allocation of 64 bytes"});
  aclDestroyTensor(x);
  EXPECT_EQ(aclrtFree(small), ACL_SUCCESS);
}

// The byte range and the block are named, and come before any talk of overlaps.
TEST_F(ApiTest, OffsetsPastTheirAllocation) {
  void* small = nullptr;
  ASSERT_EQ(aclrtMalloc(&small, 208, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  const int64_t dims[] = {51}, strides[] = {1};
  auto view = [&](int64_t offset) {
    return aclCreateTensor(dims, 1, ACL_FLOAT, strides, offset, ACL_FORMAT_ND, dims, 1, small);
  };
  ApiTensor y(DType::kF32, {51});
  for (int64_t offset : {int64_t{64}, int64_t{1000000000}, int64_t{-1}}) {
    aclTensor* t = view(offset);
    if (!t) continue;  // refused when it was made
    const std::string bytes =
        "bytes " + std::to_string(4 * offset) + " to " + std::to_string(4 * offset + 203);
    ExpectRefused(CALL(aclnnRelu, t, y), kInvalid,
                  {"aclnnRelu", "self reaches", bytes, "allocation of 208 bytes"});
    ExpectRefused(CALL(aclnnRelu, y, t), kInvalid,
                  {"aclnnRelu", "out reaches", bytes, "allocation of 208 bytes"});
    aclDestroyTensor(t);
  }
  aclTensor* huge = view(int64_t{1} << 62);
  if (huge) ExpectRefused(CALL(aclnnRelu, huge, y), kInvalid, {"self overflow 64 bits"});
  aclDestroyTensor(huge);
  aclTensor* inside = view(1);
  EXPECT_EQ(CALL(aclnnRelu, inside, y), 0);
  aclDestroyTensor(inside);
  // A repeatable executor is held to the same.
  aclTensor* first = view(0);
  ASSERT_EQ(aclnnReluGetWorkspaceSize(first, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  ExpectRefused(aclSetInputTensorAddr(executor_, 0, first, static_cast<char*>(small) + 100), kInvalid,
                {"aclSetInputTensorAddr", "self reaches", "byte 100 of an allocation of 208 bytes"});
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  aclDestroyTensor(first);
  EXPECT_EQ(aclrtFree(small), ACL_SUCCESS);
}

TEST_F(ApiTest, MemoryFreedBetweenThePhases) {
  const int64_t dims[] = {64};
  auto block = [] {
    void* p = nullptr;
    EXPECT_EQ(aclrtMalloc(&p, 256, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    std::memset(p, 0, 256);
    return p;
  };
  auto tensor = [&](void* p) {
    return aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, p);
  };
  void *in = block(), *out = block(), *other = block();
  aclTensor *x = tensor(in), *y = tensor(out);
  // Memory that the call does not use may go.
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclrtFree(other), ACL_SUCCESS);
  EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);

  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclrtFree(in), ACL_SUCCESS);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid,
                {"aclnnRelu", "the memory of self at", "was freed after phase one"});
  // Also when another block lies there now.
  in = block();
  EXPECT_EQ(aclSetRawTensorAddr(x, in), 0);
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclrtFree(out), ACL_SUCCESS);
  out = block();
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid, {"the memory of out at", "was freed"});
  for (aclTensor* t : {x, y}) aclDestroyTensor(t);
  for (void* p : {in, out}) EXPECT_EQ(aclrtFree(p), ACL_SUCCESS);
}

// Columns and every other element of one buffer have no element in common.
TEST_F(ApiTest, InterleavedViewsAreApart) {
  std::vector<float> memory(256, -1);
  auto view = [&](std::vector<int64_t> dims, std::vector<int64_t> strides, int64_t offset) {
    return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, strides.data(), offset, ACL_FORMAT_ND,
                           dims.data(), dims.size(), memory.data());
  };
  aclTensor *left = view({16, 8}, {16, 1}, 0), *right = view({16, 8}, {16, 1}, 8);
  aclTensor *even = view({128}, {2}, 0), *odd = view({128}, {2}, 1), *shifted = view({16, 8}, {16, 1}, 7);
  EXPECT_EQ(CALL(aclnnRelu, left, right), 0);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(memory[i], i % 16 < 8 ? -1 : 0) << i;
  memory.assign(256, -1);
  EXPECT_EQ(CALL(aclnnRelu, even, odd), 0);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(memory[i], i % 2 ? 0 : -1) << i;
  ExpectRefused(CALL(aclnnRelu, left, shifted), kInvalid, {"aclnnRelu", "out overlaps self"});
  for (aclTensor* t : {left, right, even, odd, shifted}) aclDestroyTensor(t);
}

TEST_F(ApiTest, MessagesNameTheCallersArguments) {
  ApiTensor h(DType::kF16, {2, 2}), f(DType::kF32, {3, 2}), y(DType::kF32, {2, 2});
  ExpectRefused(CALL(aclnnMatmul, h, f, y, int8_t{0}), kInvalid,
                {"aclnnMatmul: mat2 has shape [3,2]; allowed: 2 rows, the last dim of self, whose shape is"});
  ExpectRefused(CALL(aclnnRelu, nullptr, y), kNull, {"aclnnRelu: self is null; a tensor is required"});
  ApiTensor x(DType::kF32, {1, 1, 4, 4}), w(DType::kF32, {1, 1, 1, 1});
  ApiInts one({1, 1}), zero({0, 0}), huge({INT64_MAX, 0});
  for (bool transposed : {false, true}) {
    ExpectRefused(CALL(aclnnConvolution, x, w, nullptr, one, huge, one, transposed, zero, 1, x, int8_t{0}),
                  kInvalid, {"aclnnConvolution: padding has the value 9223372036854775807; allowed: 0 to"});
    ExpectRefused(CALL(aclnnConvolution, x, w, nullptr, huge, zero, one, transposed, zero, 1, x, int8_t{0}),
                  kInvalid, {"aclnnConvolution: stride has the value 9223372036854775807"});
  }
  ASSERT_EQ(aclnnReluGetWorkspaceSize(y, y, &workspace_size_, &executor_), 0);
  ExpectRefused(
      aclnnRelu(nullptr, 0, executor_, reinterpret_cast<aclrtStream>(0x999)), kInvalid,
      {"aclnnRelu: stream 0x999 is not a live aclrtStream", "allowed: a live aclrtStream, or null"});
}

TEST_F(ApiTest, AttributesOutOfRange) {
  ApiTensor x(DType::kF32, {2, 4}), y(DType::kF32, {2, 4});
  ApiInts shape({4});
  for (double eps : {-1e-9, -100.0, static_cast<double>(NAN)}) {
    ExpectRefused(CALL(aclnnLayerNorm, x, shape, nullptr, nullptr, eps, y, nullptr, nullptr), kInvalid,
                  {"aclnnLayerNorm: eps is ", "allowed: 0 or more"});
  }
  EXPECT_EQ(CALL(aclnnLayerNorm, x, shape, nullptr, nullptr, 0.0, y, nullptr, nullptr), 0);
  ApiTensor image(DType::kF32, {1, 1, 8, 8}), pooled(DType::kF32, {1, 1, 4, 4});
  ApiInts kernel({3, 3}), two({2, 2}), none({}), zero({0, 0});
  for (int64_t ceil : {5, -1, 2}) {
    ExpectRefused(CALL(aclnnMaxPool, image, kernel, two, 0, zero, none, ceil, pooled), kInvalid,
                  {"aclnnMaxPool: ceilMode is " + std::to_string(ceil) + "; allowed: 0, 1"});
  }
  EXPECT_EQ(CALL(aclnnMaxPool, image, kernel, two, 0, zero, none, 1, pooled), 0);
}

TEST_F(ApiTest, PhaseOneNeedsNoData) {
  const int64_t dims[] = {8};
  aclTensor* x = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
  ApiTensor y(DType::kF32, {8});
  EXPECT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kNull,
                {"aclnnRelu", "data address of self is null"});
  aclDestroyTensor(x);
  // A number that is no address is refused before anything reads it.
  x = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, reinterpret_cast<void*>(0x10));
  EXPECT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid,
                {"address of self is 0x10", "no memory"});
  aclDestroyTensor(x);
}

TEST_F(ApiTest, ExecutorsAreSingleShot) {
  ApiTensor x(DType::kF32, {8}), y(DType::kF32, {8}), m(DType::kF32, {4, 4}), n(DType::kF32, {4, 4});
  ExpectRefused(aclnnRelu(nullptr, 0, nullptr, stream_), kNull, {"aclnnRelu", "executor is null"});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid, {"aclnnRelu", "used up or destroyed"});
  // The wrong function, a workspace that is missing or too small: refused, and the executor is gone.
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  ExpectRefused(aclnnGelu(nullptr, 0, executor_, stream_), kInvalid, {"aclnnGelu", "belongs to aclnnRelu"});
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid, {"used up or destroyed"});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  ExpectRefused(aclnnRelu(nullptr, 16, executor_, stream_), kNull, {"workspace is null", "16"});
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), kInvalid, {"used up or destroyed"});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, reinterpret_cast<aclrtStream>(&x)), kInvalid, {"stream"});
  ExpectRefused(aclnnRelu(nullptr, 0, reinterpret_cast<aclOpExecutor*>(&x), stream_), kInvalid,
                {"not an executor"});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

// Tensors, scalars and arrays may be destroyed as soon as phase two has returned.
TEST_F(ApiTest, PhaseTwoKeepsNothingOfTheCaller) {
  GuardedTensor x(DType::kF32, {5}), y(DType::kF32, {5});
  x.Set({1, 2, 3, 4, 5});
  const int64_t dims[] = {5};
  float two = 2;
  aclScalar* alpha = aclCreateScalar(&two, ACL_FLOAT);
  aclTensor* a = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, x.view().data);
  aclTensor* b = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, y.view().data);
  ASSERT_EQ(aclnnAddGetWorkspaceSize(a, a, alpha, b, &workspace_size_, &executor_), 0);
  ASSERT_EQ(aclnnAdd(nullptr, 0, executor_, stream_), 0);
  aclDestroyTensor(a);
  aclDestroyTensor(b);
  aclDestroyScalar(alpha);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(y.Get(), (std::vector<double>{3, 6, 9, 12, 15}));
}

TEST_F(ApiTest, DeclaredOperatorsSaySo) {
  ApiTensor x(DType::kF32, {2}), y(DType::kF32, {2});
  executor_ = reinterpret_cast<aclOpExecutor*>(&x);
  ExpectRefused(CALL(aclnnDigamma, x, y), 561003, {"aclnnDigamma", "no operator"});
}

TEST_F(ApiTest, FourThreadsHammer) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      if (aclrtSetDevice(0)) ++failures;
      aclrtStream stream = nullptr;
      if (aclrtCreateStream(&stream)) ++failures;
      for (int i = 0; i < 200; ++i) {
        const int64_t n = 1 + (i * 7 + t) % 50;
        GuardedTensor x(DType::kF32, {n}), y(DType::kF32, {n});
        x.Set(std::vector<double>(static_cast<size_t>(n), i));
        const int64_t dims[] = {n};
        float two = 2;
        aclScalar* alpha = aclCreateScalar(&two, ACL_FLOAT);
        aclTensor* a = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, x.view().data);
        aclTensor* b = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, y.view().data);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        if (aclnnAddGetWorkspaceSize(a, a, alpha, b, &size, &executor)) ++failures;
        if (aclnnAdd(nullptr, size, executor, stream)) ++failures;
        if (i % 3 == 0 && aclnnRelu(nullptr, 0, executor, stream) == 0) ++failures;
        aclDestroyTensor(a);
        aclDestroyTensor(b);
        aclDestroyScalar(alpha);
        if (aclrtSynchronizeStream(stream)) ++failures;
        if (y.Get() != std::vector<double>(static_cast<size_t>(n), 3.0 * i)) ++failures;
        aclGetRecentErrMsg();
      }
      if (aclrtDestroyStream(stream)) ++failures;
      if (aclrtResetDevice(0)) ++failures;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace opsnn::capi
