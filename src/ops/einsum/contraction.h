// An Einsum as steps on strided tensors: sums, permutations and batched matrix products, two operands at a
// time.
#ifndef OPSNN_OPS_EINSUM_CONTRACTION_H_
#define OPSNN_OPS_EINSUM_CONTRACTION_H_

#include <functional>
#include <vector>

#include "op/operator.h"
#include "ops/einsum/equation.h"

namespace opsnn::ops {

// A tensor on its way: a strided view whose memory is an input or a part of the workspace.
struct EinsumTensor {
  TensorView view;
  Labels labels;      // one per dim of the view
  int input = -1;     // else the workspace
  size_t offset = 0;  // bytes into the workspace
  void* Address(const op::RunArgs& args) const {
    return input >= 0 ? args.inputs[input] : static_cast<char*>(args.workspace) + offset;
  }
};

class Contraction {
 public:
  // compute: f32, f64 or s32. Inputs and output are views of any dtype that converts to it exactly.
  Contraction(const Equation& e, DType compute) : equation_(e), compute_(compute) {}
  Status Plan(const std::vector<TensorView>& inputs, const TensorView& output);
  Status Run(const op::RunArgs& args) const;
  size_t workspace_bytes() const { return bytes_; }

 private:
  using Step = std::function<Status(const op::RunArgs&)>;
  EinsumTensor Load(const TensorView& view, const Labels& labels, int input);
  EinsumTensor NewTensor(const Labels& labels);
  EinsumTensor Ordered(const EinsumTensor& x, const Labels& labels) const;
  // Sums over the labels that are not in `keep`.
  Result<EinsumTensor> SumOut(const EinsumTensor& x, const Labels& keep);
  Result<EinsumTensor> Multiply(EinsumTensor a, EinsumTensor b, const Labels& needed);
  // The same values, contiguous in the compute type.
  EinsumTensor Materialise(const EinsumTensor& x);

  const Equation equation_;
  const DType compute_;
  std::vector<Step> steps_;
  size_t bytes_ = 0;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_EINSUM_CONTRACTION_H_
