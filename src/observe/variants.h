// The variants of operators: by which name each runs and when it is chosen.
//
// They are declared with the operators; every declared row has an example that is planned like any call, and
// a test holds the rows to what the planner says.
#ifndef OPSNN_OBSERVE_VARIANTS_H_
#define OPSNN_OBSERVE_VARIANTS_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "op/operator.h"

namespace opsnn::observe {

struct VariantRow {
  const char* op;
  const char *name, *when, *example;  // as in op::VariantDecl
};
// Those of one operator, best first; where there is no choice, the one row that there is, without an example.
std::vector<VariantRow> VariantsOf(const op::OpDef& op);
// Plans the example and returns the kernel's own name.
Result<std::string> PlanExample(const VariantRow& row);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_VARIANTS_H_
