// What DeformConv and its gradient read from their shapes and attributes.
#ifndef OPSNN_OPS_CONV_DEFORM_OP_H_
#define OPSNN_OPS_CONV_DEFORM_OP_H_

#include "ops/conv/conv_op.h"

namespace opsnn::ops {

struct DeformCall {
  ConvCall conv;
  int64_t offset_groups = 1;
  int64_t channels = 1;      // of offset per value: offset_groups * kernel positions
  bool planes = false;       // offset: all values to the right, then all downwards, then the mask if inside
  bool mask_inside = false;  // the third part of offset
};

struct DeformDims {
  const Dims &x, &w, &offset;
};
// `may_mask`: a third part of offset is the mask.
Result<DeformCall> ResolveDeform(const char* name, const DeformDims& dims, bool planes, bool may_mask,
                                 const op::Attrs& attrs);

// `want` has sizes that are not known where it cannot say.
Status CheckDeformDims(const char* name, const char* input, const Dims& got, const Dims& want);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_DEFORM_OP_H_
