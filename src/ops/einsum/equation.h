// Reading an Einsum equation: "bij, bjk -> bik", with ellipses and implicit outputs.
#ifndef OPSNN_OPS_EINSUM_EQUATION_H_
#define OPSNN_OPS_EINSUM_EQUATION_H_

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/shape.h"

namespace opsnn::ops {

// A subscript letter, or kEllipsis + k for the k-th dim from the end of what "..." stands for.
using Label = int;
inline constexpr Label kEllipsis = 256;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> operands;  // one label per dim
  Labels output;
  std::map<Label, int64_t> size;  // dims of 1 repeat against others
  Dims OutputDims() const;
};

// An error names what is wrong with the equation or which dims disagree. Dims may hold kUnknownDim.
Result<Equation> ParseEquation(const std::string& text, const std::vector<Dims>& operands);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_EINSUM_EQUATION_H_
