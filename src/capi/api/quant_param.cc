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
  // As many values as the longer array has, rounded up to 16 where there are several; 0 behind the last.
  constexpr uint64_t kBlock = 16;
  const uint64_t given = scaleSize > offsetSize ? scaleSize : offsetSize;
  const uint64_t n = given == 1                    ? 1
                     : given > UINT64_MAX - kBlock ? given
                                                   : (given + kBlock - 1) / kBlock * kBlock;
  auto* packed =
      static_cast<uint64_t*>(n <= SIZE_MAX / sizeof(uint64_t) ? std::calloc(n, sizeof(uint64_t)) : nullptr);
  if (!packed) {
    return Fail(kApi,
                Errorf(Code::kRuntime, "no memory for %llu values", static_cast<unsigned long long>(n)));
  }
  for (uint64_t i = 0; i < given; ++i) {
    const float scale = i < scaleSize ? scaleArray[i] : 0;
    packed[i] =
        static_cast<uint64_t>(PackQuantParam(scale, i < offsetSize ? offsetArray + i : nullptr, false));
  }
  *quantParam = packed;
  *quantParamSize = n;
  return 0;
}

}  // namespace opsnn::capi
