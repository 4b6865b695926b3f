#include "ops/control/control_op.h"

#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

// What comes out only the graph inside knows, and the engine has not chosen it yet.
Status InferUnknown(op::InferContext& c) {
  const std::vector<int64_t> dtypes = op::AttrsOf(c.attrs).Ints("dtypes");
  for (const int64_t t : dtypes)
    if (t < 0 || t >= kNumDTypes)
      return InvalidArgument("dtypes holds %lld; allowed: 0 to %d", static_cast<long long>(t),
                             kNumDTypes - 1);
  c.outputs.clear();
  for (size_t i = 0; i < static_cast<size_t>(c.num_outputs); ++i) {
    op::TensorDesc y;
    if (i < dtypes.size()) y.dtype = static_cast<DType>(dtypes[i]);
    y.known_rank = false;
    c.outputs.push_back(y);
  }
  return OkStatus();
}

}  // namespace

void DefineControl(op::OpDef& def) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = InferUnknown;
  def.plan = [self](const op::PlanContext&) -> Result<op::KernelPtr> {
    return Errorf(Code::kNotImplemented, "%s: it runs as part of a model only", self->name.c_str());
  };
}

}  // namespace opsnn::ops
