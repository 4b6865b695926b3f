// The variants of operators: by which name each runs and when it is chosen.
//
// The conditions are words for people; every row has an example that is planned like any call, and a test
// holds the rows to what the planner says.
#ifndef OPSNN_OBSERVE_VARIANTS_H_
#define OPSNN_OBSERVE_VARIANTS_H_

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "op/operator.h"

namespace opsnn::observe {

struct VariantRow {
  const char* op;
  const char* name;     // what the kernel's own name (op::Kernel::variant) holds
  const char* when;     // chosen where this holds; of the rows of one operator the first that does
  const char* example;  // "f32 4x512 512x512c axis=1": element type, input dims (c: a constant), attributes
};
// Of all operators that have a choice, best first for each.
std::span<const VariantRow> VariantRows();
// Those of one operator; where there is no choice, the one row that there is, without an example.
std::vector<VariantRow> VariantsOf(const op::OpDef& op);
// Plans the example and returns the kernel's own name.
Result<std::string> PlanExample(const VariantRow& row);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_VARIANTS_H_
