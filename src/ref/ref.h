// Double-precision references: slow, obvious, sharing no code with kernels or vector programs. `verify`
// recomputes every node of a model with them, and operator tests compare against them.
//
// A reference takes operands as doubles and computes the mathematical definition of the operator in f64,
// without rounding to the storage type; the caller rounds or sets its bound accordingly. Integers are exact:
// those that doubles cannot hold come along as they are. Operators are named as in the graph; attributes are
// in the latest ONNX form.
#ifndef OPSNN_REF_REF_H_
#define OPSNN_REF_REF_H_

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "op/attrs.h"
#include "tensor/host_tensor.h"

namespace opsnn::ref {

struct Tensor {
  DType dtype = DType::kF32;  // storage type of the real operand: decides integer against float meaning
  Dims dims;
  std::vector<double> v;  // row-major
  // The same as integers, where one of them is 2^53 or more, up to sign; else empty.
  std::vector<int64_t> exact;

  int64_t size() const { return static_cast<int64_t>(v.size()); }
  static Tensor Make(DType dtype, const Dims& dims, double fill = 0);
};

struct Call {
  std::string_view op;
  const op::Attrs* attrs = nullptr;
  std::span<const Tensor* const> inputs;  // null where absent
  int num_outputs = 1;
  // Dims of the outputs as inferred; read by operators whose value order does not depend on them (Reshape and
  // its relatives) and by Resize.
  std::span<const Dims> output_dims;
  DType output_dtype = DType::kF32;
  std::vector<Tensor> outputs;  // filled
  // Filled for contractions and reductions: per output element of outputs[0], the sum of |terms|; what error
  // bounds scale with. Empty for other operators.
  std::vector<double> abs_sum;
  int64_t reduction_length = 1;  // terms per output element
  // Filled by operators that round to integers: how far outputs[0] may be off where the value lies at a tie.
  std::vector<double> steps;

  const Tensor& in(int i) const { return *inputs[i]; }
  bool has(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i] != nullptr; }
};

bool Has(std::string_view op);
// kNotImplemented when there is no reference; kInvalid when operands contradict each other.
Status Evaluate(Call& call);

Tensor FromHost(const HostTensor& t);

}  // namespace opsnn::ref

#endif  // OPSNN_REF_REF_H_
