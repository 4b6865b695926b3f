#include "ops/conv/deform_op.h"

#include <limits>

namespace opsnn::ops {

using ll = long long;

Status CheckDeformDims(const char* name, const char* input, const Dims& got, const Dims& want) {
  bool fits = got.rank() == want.rank();
  for (int i = 0; fits && i < want.rank(); ++i)
    fits = got[i] == want[i] || got[i] == kUnknownDim || want[i] == kUnknownDim;
  if (fits) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %s", name, input, ToString(got).c_str(),
                         ToString(want).c_str());
}

Result<DeformCall> ResolveDeform(const char* name, const DeformDims& dims, bool planes, bool may_mask,
                                 const op::Attrs& attrs) {
  const Dims &x = dims.x, &w = dims.w, &offset = dims.offset;
  if (x.rank() != 4) {
    return InvalidArgument("%s: X has shape %s; allowed: rank 4 (N, C, H, W)", name, ToString(x).c_str());
  }
  DeformCall call;
  OPSNN_ASSIGN_OR_RETURN(call.conv, ResolveConv(name, false, x, w, attrs));
  call.offset_groups = attrs.Int("offset_group", 1);
  call.planes = planes;
  if (call.offset_groups < 1 || (x[1] >= 0 && x[1] % call.offset_groups != 0)) {
    return InvalidArgument("%s: attribute offset_group is %lld; allowed: a divisor of the %lld channels of X",
                           name, ll{call.offset_groups}, ll{x[1]});
  }
  constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max() - 1;
  int64_t pixels = 0;
  if (x[2] >= 0 && x[3] >= 0 && (__builtin_mul_overflow(x[2], x[3], &pixels) || pixels > kMostPixels)) {
    return InvalidArgument("%s: X has shape %s; allowed: up to 2^31 - 2 pixels", name, ToString(x).c_str());
  }
  const Dims& out = call.conv.out;
  if (!IsKnown(w)) return call;
  if (__builtin_mul_overflow(call.offset_groups, w[2] * w[3], &call.channels)) {
    return InvalidArgument("%s: attribute offset_group is %lld; allowed: a divisor of the channels of X",
                           name, ll{call.offset_groups});
  }
  call.mask_inside = may_mask && offset.rank() == 4 && offset[1] == 3 * call.channels;
  OPSNN_RETURN_IF_ERROR(CheckDeformDims(name, "offset", offset,
                                        {x[0], (call.mask_inside ? 3 : 2) * call.channels, out[2], out[3]}));
  return call;
}

}  // namespace opsnn::ops
