#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

using op::PlanContext;
using op::TensorDesc;

Result<op::KernelPtr> PlanProgram(const PlanContext& c) {
  if (c.tail == nullptr) return Errorf(Code::kInternal, "Program: planned without a program");
  std::vector<const TensorDesc*> operands(c.inputs.begin(), c.inputs.end());
  operands.insert(operands.end(), c.tail_inputs.begin(), c.tail_inputs.end());
  const int row_rank = static_cast<int>(op::AttrsOf(c.attrs).Int("row_rank", 0));

  // Pointwise outputs all have the iteration's shape; per-row results are smaller, and an operand shows it.
  const Layout layout = op::CommonLayout(operands, c.outputs);
  if (row_rank > 0 && layout != Layout{})
    return Errorf(Code::kInternal, "Program: rows cannot be reduced in layout %s", ToString(layout).c_str());
  Dims logical = c.outputs[0].dims;
  for (const TensorDesc* x : operands) {
    if (row_rank == 0) break;
    OPSNN_ASSIGN_OR_RETURN(logical, BroadcastDims(logical, x->dims));
  }
  const Dims iteration = StoredDims(logical, layout);
  std::vector<op::KernelOperand> inputs, outputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    OPSNN_ASSIGN_OR_RETURN(TensorView view, op::PointwiseView("Program", *operands[i], layout, iteration));
    inputs.push_back({static_cast<int>(i), view});
  }
  for (size_t i = 0; i < c.outputs.size(); ++i)
    outputs.push_back({static_cast<int>(i), c.outputs[i].View(nullptr)});
  return op::MakeProgramKernel(c.tail->program, iteration, std::move(inputs), std::move(outputs), row_rank,
                               row_rank > 0 ? "fused row program" : "fused program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Program) {
  def.tail_is_program = true;
  def.plan = PlanProgram;
  def.infer = [](op::InferContext& c) -> Status {
    if (!c.outputs.empty()) return OkStatus();  // described by the graph when it built the node
    return Errorf(Code::kInternal, "Program: the graph describes its outputs");
  };
}
