// The kernel of calls whose outputs have no elements.
#ifndef OPSNN_OP_EMPTY_KERNEL_H_
#define OPSNN_OP_EMPTY_KERNEL_H_

#include <memory>
#include <string>

#include "op/operator.h"

namespace opsnn::op {

class EmptyKernel : public Kernel {
 public:
  Status Run(const RunArgs&) const override { return OkStatus(); }
  std::string variant() const override { return "empty"; }
};

inline KernelPtr MakeEmptyKernel() { return std::make_shared<EmptyKernel>(); }

}  // namespace opsnn::op

#endif  // OPSNN_OP_EMPTY_KERNEL_H_
