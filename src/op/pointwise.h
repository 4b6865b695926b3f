// Program operators: shape inference, planning and execution that follow from a vector program alone.
#ifndef OPSNN_OP_POINTWISE_H_
#define OPSNN_OP_POINTWISE_H_

#include <span>
#include <string>
#include <vector>

#include "op/operator.h"

namespace opsnn::op {

// The common dtype of two operands: a float beats an integer beats bool; within a kind the wider wins, f16
// with bf16 gives f32, u8 with s8 gives s16. Sizes do not cross kinds: s64 with f16 is f16.
DType PromoteTypes(DType a, DType b);
DType PromoteTypes(std::span<const DType> types);

// Whether operator input i is given. With only dtypes at hand every one is.
bool HasInput(const ProgramContext& c, size_t i);
// The value of a constant input of one element; false when it is absent, larger, or only known at run time.
bool ConstantScalar(const ProgramContext& c, size_t i, double* value);
const Attrs& AttrsOf(const Attrs* attrs);  // an empty set for null

// An operator's program together with the operator inputs it reads.
//
// OpDef::program gives one program input per given operator input, in order; an input that became an
// immediate (Clip's constant bounds) is an input that no stage reads. Here such inputs are dropped:
// operands[i] is the index of the operator input that program input i stands for.
struct BoundProgram {
  Program program;
  std::vector<int> operands;
};
Result<BoundProgram> BindProgram(const OpDef& def, const ProgramContext& c);

// infer and plan for operators that have a program; the registry installs them.
Status InferPointwise(const OpDef& def, InferContext& c);
Result<KernelPtr> PlanPointwise(const OpDef& def, const PlanContext& c);

// One operand of a program kernel: its position in RunArgs and its planned view (data null).
struct KernelOperand {
  int index = 0;
  TensorView view;
};
// A kernel that runs `program` over the trailing `row_rank` dims of each row, or pointwise for 0. Inputs
// broadcast to `iteration`, whose dims are those of the outputs (for per-row outputs with the reduced dims as
// 1).
Result<KernelPtr> MakeProgramKernel(const Program& program, const Dims& iteration,
                                    std::vector<KernelOperand> inputs, std::vector<KernelOperand> outputs,
                                    int row_rank, std::string variant);

// The layout of a pointwise call: that of its outputs or else inputs which are not stored in logical order.
Layout CommonLayout(InputDescs inputs, std::span<const TensorDesc> outputs);
// Views for a pointwise call over operands in any mix of layouts that has a meaning: all logical, or all in
// the same blocked layout, operands of one element aside.
Result<TensorView> PointwiseView(const std::string& op, const TensorDesc& x, const Layout& common,
                                 const Dims& stored);

// ---- one-line definitions
// y = stage(x); imm from
// the attributes by name ("" for none) with their defaults.
struct ImmAttr {
  const char* name = "";
  double fallback = 0;
};
void DefineUnary(OpDef& def, StageOp stage, ImmAttr imm0 = {}, ImmAttr imm1 = {});
// y = a stage b, operands promoted to their common type.
void DefineBinary(OpDef& def, StageOp stage);
// The same with a bool result.
void DefineComparison(OpDef& def, StageOp stage);
// Folds two or more operands from the left: Sum, Max, Min.
void DefineVariadic(OpDef& def, StageOp stage);

// Declares one program input per given operator input of `c`, converted to compute type `to`.
std::vector<SlotId> ConvertedInputs(ProgramBuilder& b, const ProgramContext& c, ComputeType to);

}  // namespace opsnn::op

#endif  // OPSNN_OP_POINTWISE_H_
