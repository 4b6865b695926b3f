// Reserved addresses, physical memory and mappings.
#include <cstring>

#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

TEST_F(ApiTest, PhysicalMemoryIsMappedWhereItWasReserved) {
  aclrtPhysicalMemProp prop{};
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  size_t page = 0;
  ASSERT_EQ(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &page), 0);
  ASSERT_GT(page, 0u);
  void* base = nullptr;
  ASSERT_EQ(aclrtReserveMemAddress(&base, 4 * page, 0, nullptr, 0), 0);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(base) % page, 0u);
  auto* bytes = static_cast<char*>(base);
  aclrtDrvMemHandle memory = nullptr, again = nullptr;
  ExpectRefused(aclrtMallocPhysical(&memory, page + 1, &prop, 0), ACL_ERROR_INVALID_PARAM,
                {"aclrtMallocPhysical", "size is", "multiples of"});
  ASSERT_EQ(aclrtMallocPhysical(&memory, 2 * page, &prop, 0), 0);
  ASSERT_EQ(aclrtMapMem(bytes, page, 0, memory, 0), 0);
  ASSERT_EQ(aclrtMapMem(bytes + 2 * page, 2 * page, 0, memory, 0), 0);
  ExpectRefused(aclrtMapMem(bytes + page, 2 * page, 0, memory, 0), ACL_ERROR_INVALID_PARAM, {"overlaps"});
  ExpectRefused(aclrtMapMem(bytes + page, page, 2 * page, memory, 0), ACL_ERROR_INVALID_PARAM, {"offset"});
  ExpectRefused(aclrtMapMem(bytes + 4 * page, page, 0, memory, 0), ACL_ERROR_INVALID_PARAM, {"not reserved"});
  std::memset(bytes, 42, page);
  EXPECT_EQ(bytes[2 * page], 42);  // the same memory twice
  EXPECT_EQ(bytes[3 * page], 0);

  EXPECT_EQ(aclrtMemRetainAllocationHandle(bytes + 5, &again), 0);
  EXPECT_EQ(again, memory);
  EXPECT_EQ(aclrtFreePhysical(again), 0);
  EXPECT_EQ(aclrtFreePhysical(memory), 0);
  EXPECT_EQ(bytes[page - 1], 42);  // lives on while it is mapped
  ExpectRefused(aclrtFreePhysical(memory), ACL_ERROR_INVALID_PARAM, {"no live physical memory"});
  ExpectRefused(aclrtReleaseMemAddress(base), ACL_ERROR_INVALID_PARAM, {"2 mappings"});
  ExpectRefused(aclrtUnmapMem(bytes + page), ACL_ERROR_INVALID_PARAM, {"not the start of a mapping"});
  EXPECT_EQ(aclrtUnmapMem(bytes), 0);
  EXPECT_EQ(aclrtUnmapMem(bytes + 2 * page), 0);
  EXPECT_EQ(aclrtReleaseMemAddress(base), 0);
  ExpectRefused(aclrtReleaseMemAddress(base), ACL_ERROR_INVALID_PARAM, {"no reserved address"});
}

// Whoever touched a hole would end the process, so tensors, copies and workspaces over one are refused, also
// where it came between the phases.
TEST_F(ApiTest, HolesInReservedAddressesAreRefused) {
  aclrtPhysicalMemProp prop{};
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  size_t page = 0;
  ASSERT_EQ(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &page), 0);
  void* base = nullptr;
  aclrtDrvMemHandle memory = nullptr;
  ASSERT_EQ(aclrtReserveMemAddress(&base, 3 * page, 0, nullptr, 0), 0);
  ASSERT_EQ(aclrtMallocPhysical(&memory, page, &prop, 0), 0);
  auto* bytes = static_cast<char*>(base);
  ASSERT_EQ(aclrtMapMem(bytes, page, 0, memory, 0), 0);
  ASSERT_EQ(aclrtMapMem(bytes + 2 * page, page, 0, memory, 0), 0);
  const auto n = static_cast<int64_t>(page / sizeof(float));
  const auto view = [](char* at, int64_t count) {
    return aclCreateTensor(&count, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &count, 1, at);
  };
  const char* const hole = "addresses that are reserved and not mapped";
  aclTensor *whole = view(bytes, 3 * n), *first = view(bytes, n), *last = view(bytes + 2 * page, n),
            *over = view(bytes + page - 4, 2);
  EXPECT_EQ(CALL(aclnnRelu, first, last), 0) << aclGetRecentErrMsg();
  ExpectRefused(CALL(aclnnRelu, whole, whole), 161002,
                {"self lies over", hole, "byte " + std::to_string(page)});
  ExpectRefused(CALL(aclnnRelu, over, over), 161002, {"self lies over", hole, "byte 4 of the 8"});
  ExpectRefused(aclrtMemcpy(bytes, 3 * page, bytes + page, page, ACL_MEMCPY_DEVICE_TO_DEVICE),
                ACL_ERROR_INVALID_PARAM, {"src is reserved and not mapped from byte 0"});
  ExpectRefused(aclrtMemset(bytes, 3 * page, 0, 2 * page), ACL_ERROR_INVALID_PARAM,
                {"not mapped from byte " + std::to_string(page)});
  ASSERT_EQ(aclnnReluGetWorkspaceSize(first, first, &workspace_size_, &executor_), 0);
  EXPECT_EQ(aclrtUnmapMem(bytes), 0);
  ExpectRefused(aclnnRelu(nullptr, 0, executor_, stream_), 161002, {"self lies over", hole});
  for (aclTensor* t : {whole, first, last, over}) EXPECT_EQ(aclDestroyTensor(t), 0);
  EXPECT_EQ(aclrtUnmapMem(bytes + 2 * page), 0);
  EXPECT_EQ(aclrtFreePhysical(memory), 0);
  EXPECT_EQ(aclrtReleaseMemAddress(base), 0);
}

TEST_F(ApiTest, WeightSizesAreThoseOfTiles) {
  ApiInts matrix({510, 270}), line({5}), batch({3, 20, 40});
  uint64_t size = 0;
  EXPECT_EQ(aclnnCalculateMatmulWeightSizeV2(matrix, ACL_FLOAT16, &size), 0);
  EXPECT_EQ(size, 512u * 272u);
  EXPECT_EQ(aclnnCalculateMatmulWeightSizeV2(matrix, ACL_INT8, &size), 0);
  EXPECT_EQ(size, 512u * 288u);
  EXPECT_EQ(aclnnCalculateMatmulWeightSize(batch, &size), 0);
  EXPECT_EQ(size, 3u * 32u * 48u);
  ExpectRefused(aclnnCalculateMatmulWeightSizeV2(matrix, ACL_FLOAT, &size), 161002, {"dataType is f32"});
  ExpectRefused(aclnnCalculateMatmulWeightSize(line, &size), 161002, {"tensorShape has 1 values", "2 to 6"});
  ExpectRefused(aclnnCalculateMatmulWeightSize(nullptr, &size), 161001, {"tensorShape is null"});
}

}  // namespace
}  // namespace opsnn::capi
