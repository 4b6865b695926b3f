// Arguments that the convolution functions share.
#ifndef OPSNN_CAPI_ADAPTERS_CONV_CONV_ARGS_H_
#define OPSNN_CAPI_ADAPTERS_CONV_CONV_ARGS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "capi/adapters/common.h"

namespace opsnn::capi {

// Refuses channels-last tensors; parameters that are null are passed over.
Status CheckConvFormats(const Call& call, std::initializer_list<const char*> params);
// Everything about ranks, groups and channels, under the names that the caller knows. `name`: parameter of x.
Status CheckConvShapes(const Call& call, const char* name, const Dims& x, const Dims& w, int64_t groups,
                       bool transposed);
// Parameters stride, padding, dilation, and outputPadding where transposed, as attributes of Conv. The list
// of pads gives one value per dim for both sides, or both sides of each dim in turn.
Result<op::Attrs> ConvAttributes(const Call& call, size_t spatial, int64_t groups, bool transposed);
std::string Listed(const Call& call, const char* param);  // of an int array: "[1,2]"
Status CheckBias(const Call& call, const Operand& bias, int64_t channels);
// The call of an operator that computes in f32. Operands of other dtypes are converted on the way, unless
// they all have the same and the operator takes it (`halves`).
OpCall ConvCall(const char* op, op::Attrs attrs, std::vector<Operand> inputs, const Operand& output,
                bool halves = true);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_CONV_CONV_ARGS_H_
