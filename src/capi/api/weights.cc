// How large a buffer for weights should be, and the shape of one in FRACTAL_NZ: tiles of 16 rows and 32
// bytes. aclnnTransMatmulWeight leaves weights row-major, but programs size their buffers by these figures.
#include <algorithm>

#include "acl/acl_base.h"
#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "capi/boundary.h"
#include "capi/objects.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kTileRows = 16, kTileBytes = 32;

int WeightSize(const char* api, const aclIntArray* shape, int64_t column_tile, uint64_t* size) {
  if (!shape || !size) {
    return Fail(
        api, Errorf(Code::kNull, "%s is null; it is required", shape ? "weightTensorSize" : "tensorShape"));
  }
  const auto dims = Table<IntArray>().Find(shape);
  if (!dims) return Fail(api, InvalidArgument("tensorShape is not a live aclIntArray"));
  const std::vector<int64_t>& d = dims->values;
  if (d.size() < 2 || d.size() > 6) {
    return Fail(api, InvalidArgument("tensorShape has %zu values; allowed: 2 to 6", d.size()));
  }
  uint64_t elements = 1;
  for (size_t i = 0; i < d.size(); ++i) {
    constexpr int64_t kMost = int64_t{1} << 40;
    if (d[i] < 1 || d[i] > kMost) {
      return Fail(api, InvalidArgument("tensorShape has the value %lld; allowed: 1 to 2^40",
                                       static_cast<long long>(d[i])));
    }
    const int64_t tile = i + 1 == d.size() ? column_tile : i + 2 == d.size() ? kTileRows : 1;
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>((d[i] + tile - 1) / tile * tile), &elements)) {
      return Fail(api, InvalidArgument("tensorShape names more elements than 64 bits hold"));
    }
  }
  *size = elements;
  return 0;
}

}  // namespace

OPSNN_ACL_API aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape,
                                                         uint64_t* weightTensorSize) {
  return WeightSize("aclnnCalculateMatmulWeightSize", tensorShape, kTileRows, weightTensorSize);
}

OPSNN_ACL_API aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape,
                                                           aclDataType dataType, uint64_t* weightTensorSize) {
  static const char* const kApi = "aclnnCalculateMatmulWeightSizeV2";
  if (dataType != ACL_FLOAT16 && dataType != ACL_BF16 && dataType != ACL_INT8) {
    return Fail(kApi, InvalidArgument("dataType is %s; allowed: f16, bf16, s8",
                                      AclTypeName(static_cast<int>(dataType)).c_str()));
  }
  const auto bytes = static_cast<int64_t>(AclTypeSize(static_cast<int>(dataType)));
  return WeightSize(kApi, tensorShape, kTileBytes / bytes, weightTensorSize);
}

// The shape of dstTensor in memory: blocks where it shall be in FRACTAL_NZ, else that of srcTensor. The
// caller releases it with delete[].
OPSNN_ACL_API aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor,
                                                                   const int dstFormat, int additionalDtype,
                                                                   int64_t** dstShape, uint64_t* dstShapeSize,
                                                                   int* actualFormat) {
  static const char* const kApi = "aclnnNpuFormatCastCalculateSizeAndFormat";
  if (!srcTensor || !dstShape || !dstShapeSize || !actualFormat)
    return Fail(kApi, Errorf(Code::kNull, "a pointer is null; srcTensor and the three results are required"));
  const auto t = Table<Tensor>().Find(srcTensor);
  if (!t) return Fail(kApi, InvalidArgument("srcTensor is not a live aclTensor"));
  std::vector<int64_t> shape = t->dims;
  const size_t rank = shape.size();
  if (rank < 2 || rank > 6)
    return Fail(kApi, InvalidArgument("srcTensor has %zu dims; allowed: 2 to 6", rank));
  for (int64_t d : shape) {
    if (d < 1) return Fail(kApi, InvalidArgument("srcTensor is empty; allowed: one element or more"));
  }
  if (dstFormat != ACL_FORMAT_ND && dstFormat != ACL_FORMAT_FRACTAL_NZ)
    return Fail(kApi, InvalidArgument("dstFormat is %d; allowed: 2 (ND), 29 (FRACTAL_NZ)", dstFormat));
  const auto bytes =
      static_cast<int64_t>(AclTypeSize(additionalDtype == -1 ? t->acl_dtype : additionalDtype));
  if (bytes != 1 && bytes != 2 && bytes != 4) {
    return Fail(kApi, InvalidArgument("additionalDtype is %d; allowed: -1 or a type of 1, 2 or 4 bytes",
                                      additionalDtype));
  }
  if (dstFormat == ACL_FORMAT_FRACTAL_NZ) {
    const int64_t rows = shape[rank - 2], columns = shape[rank - 1], tile = kTileBytes / bytes;
    shape[rank - 2] = (columns + tile - 1) / tile, shape[rank - 1] = (rows + kTileRows - 1) / kTileRows;
    shape.push_back(kTileRows), shape.push_back(tile);
  }
  *dstShape = new int64_t[shape.size()];
  std::copy(shape.begin(), shape.end(), *dstShape);
  *dstShapeSize = shape.size();
  *actualFormat = dstFormat;
  return 0;
}

}  // namespace opsnn::capi
