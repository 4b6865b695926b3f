// Operands of kernels that want dense f32, whatever the call's tensors are.
#ifndef OPSNN_OPS_CONV_FLOATS_H_
#define OPSNN_OPS_CONV_FLOATS_H_

#include <cstddef>

#include "op/operator.h"

namespace opsnn::ops {

// A tensor that is dense f32, or one that is copied to or from such a one in the workspace.
class Floats {
 public:
  Floats() = default;  // of an operand that is absent
  // Reserves what it needs behind *workspace_bytes.
  Floats(const op::TensorDesc& d, size_t* workspace_bytes);

  bool given() const { return given_; }
  const Dims& dims() const { return view_.dims; }
  const float* Read(const void* tensor, const op::RunArgs& args) const;  // copies where it has to
  float* Write(void* tensor, const op::RunArgs& args) const;             // where the result goes first
  void Finish(void* tensor, const op::RunArgs& args) const;  // after it is there: copies where it has to

 private:
  TensorView Copy(const op::RunArgs& args) const;

  bool given_ = false, direct_ = false;
  TensorView view_;
  size_t offset_ = 0;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_FLOATS_H_
