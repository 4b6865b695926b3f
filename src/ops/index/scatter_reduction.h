// The attribute `reduction` of the scatter operators.
#ifndef OPSNN_OPS_INDEX_SCATTER_REDUCTION_H_
#define OPSNN_OPS_INDEX_SCATTER_REDUCTION_H_

#include <optional>
#include <string>

#include "kernels/gather/gather.h"
#include "op/attrs.h"

namespace opsnn::ops {

// nullopt: the updates replace what is there.
inline std::optional<kernels::ScatterReduction> FindReduction(const op::Attrs& attrs) {
  const std::string name = attrs.String("reduction", "none");
  if (name == "add" || name == "mean") return kernels::ScatterReduction::kAdd;
  if (name == "mul") return kernels::ScatterReduction::kMul;
  if (name == "max") return kernels::ScatterReduction::kMax;
  if (name == "min") return kernels::ScatterReduction::kMin;
  if (name == "div") return kernels::ScatterReduction::kDiv;
  return std::nullopt;
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_INDEX_SCATTER_REDUCTION_H_
