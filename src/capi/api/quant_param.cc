// aclnnTransQuantParam: on the host, in memory that the caller releases with free.
#include <cstdlib>

#include "aclnnop/aclnn_trans_quant_param.h"
#include "base/quant_param_bits.h"
#include "capi/boundary.h"

namespace opsnn::capi {

OPSNN_ACL_API aclnnStatus aclnnTransQuantParam(const float* scaleArray, uint64_t scaleSize,
                                               const float* offsetArray, uint64_t offsetSize,
                                               uint64_t** quantParam, uint64_t* quantParamSize) {
  static const char* const kApi = "aclnnTransQuantParam";
  if (!scaleArray || !quantParam || !quantParamSize)
    return Fail(kApi, Errorf(Code::kNull, "a pointer is null; scaleArray and the results are required"));
  if (scaleSize < 1) return Fail(kApi, InvalidArgument("scaleSize is 0; allowed: 1 or more"));
  if ((offsetArray != nullptr) != (offsetSize > 0)) {
    return Fail(
        kApi, InvalidArgument("offsetSize is %llu with offsetArray %s; allowed: 0 if and only if it is null",
                              static_cast<unsigned long long>(offsetSize), offsetArray ? "given" : "null"));
  }
  const uint64_t n = scaleSize > offsetSize ? scaleSize : offsetSize;
  if ((scaleSize != n && scaleSize != 1) || (offsetSize != n && offsetSize > 1)) {
    return Fail(kApi,
                InvalidArgument("scaleSize is %llu and offsetSize %llu; allowed: the same, or one of them 1",
                                static_cast<unsigned long long>(scaleSize),
                                static_cast<unsigned long long>(offsetSize)));
  }
  auto* packed =
      n <= SIZE_MAX / sizeof(uint64_t) ? static_cast<uint64_t*>(std::malloc(n * sizeof(uint64_t))) : nullptr;
  if (!packed)
    return Fail(kApi,
                Errorf(Code::kRuntime, "no memory for %llu values", static_cast<unsigned long long>(n)));
  for (uint64_t i = 0; i < n; ++i) {
    const float* offset = offsetArray ? offsetArray + (offsetSize == 1 ? 0 : i) : nullptr;
    packed[i] = static_cast<uint64_t>(PackQuantParam(scaleArray[scaleSize == 1 ? 0 : i], offset, false));
  }
  *quantParam = packed;
  *quantParamSize = n;
  return 0;
}

}  // namespace opsnn::capi
