// What the data-movement operators share: reading constant operands, kernels made of strided copies, staging.
#ifndef OPSNN_OPS_DATA_DATA_OP_H_
#define OPSNN_OPS_DATA_DATA_OP_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/transpose/strided_copy.h"
#include "op/operator.h"

namespace opsnn::ops {

// ---- operands --------------------------------------------------------------------------------------------
// Input i, or null when it is absent.
const op::TensorDesc* InputOrNull(op::InputDescs inputs, size_t i);
// The integers of a constant operand; nullopt when it is absent or only known at run time.
std::optional<std::vector<int64_t>> ConstantInts(op::InputDescs inputs, size_t i);
// The same where a plan needs them: an error that names operator and argument.
Result<std::vector<int64_t>> RequireInts(const char* op, const char* argument, op::InputDescs inputs,
                                         size_t i);
bool IsGiven(op::InputDescs inputs, size_t i);
std::string ToString(const std::vector<int64_t>& v);  // "[1,2]"
// NormalizeAxis whose error names the operator and the attribute or input that held the axis.
Result<int> NormalizeAxisOf(const char* op, const char* argument, int64_t axis, int rank);
// Axes normalised, each at most once.
Result<std::vector<int>> NormalizeAxes(const char* op, const char* argument, const std::vector<int64_t>& axes,
                                       int rank);
// "Op: argument ... got ..., allowed ..." for a rank outside [lo, hi].
Status CheckRank(const char* op, const char* argument, const Dims& dims, int lo, int hi);

// ---- outputs of infer

op::TensorDesc Desc(DType dtype, const Dims& dims);
op::TensorDesc UnknownRank(DType dtype);
// Sets one output; always ok.
Status SetOutput(op::InferContext& c, op::TensorDesc desc);
// Rank 8 is what Dims holds.
Status CheckMaxRank(const char* op, int64_t rank);

// ---- kernels

// A kernel
// from a callable Status(const op::RunArgs&).
template <typename Fn>
op::KernelPtr MakeKernel(std::string variant, Fn fn, size_t workspace = 0) {
  class FnKernel : public op::Kernel {
   public:
    FnKernel(std::string variant, Fn fn, size_t workspace)
        : variant_(std::move(variant)), fn_(std::move(fn)), workspace_(workspace) {}
    Status Run(const op::RunArgs& args) const override { return fn_(args); }
    size_t workspace_bytes() const override { return workspace_; }
    std::string variant() const override { return variant_; }

   private:
    std::string variant_;
    Fn fn_;
    size_t workspace_;
  };
  return std::make_shared<FnKernel>(std::move(variant), std::move(fn), workspace);
}

// One strided copy of a call.
struct Move {
  static constexpr int kZero = -1;        // the source is an element of zero bytes
  static constexpr int kFromOutput = -2;  // the source lies in the output itself, apart from the destination
  kernels::CopyPlan plan;
  int from = 0, to = 0;  // input and output by position
  int64_t from_byte = 0, to_byte = 0;
};
// Copies run in order. A move whose source and destination address agree is left out: the operand is a view.
op::KernelPtr MakeMovesKernel(std::vector<Move> moves, std::string variant = "");

// A copy of a box of `extent` elements between two views: from from_start on with steps in the source (of any
// sign), to to_start on in the destination.
struct Box {
  Dims extent, from_start, steps, to_start;
  static Box Whole(const Dims& extent);
};
Move MoveBox(const TensorView& from, const TensorView& to, const Box& box, int from_operand, int to_operand);

bool IsBlocked(const op::TensorDesc& d);
// Data operators that take blocked images want the same block on every side; an error otherwise.
Status CheckSameBlocks(const char* op, const op::TensorDesc& a, const op::TensorDesc& b);

// For kernels that know only contiguous operands: strided inputs are copied to the workspace before, strided
// outputs after. Returns `inner` itself when there is nothing to do.
op::KernelPtr Staged(const op::PlanContext& c, op::KernelPtr inner);

// The kernel of every view operator: copies input 0 unless the output is the same memory.
Result<op::KernelPtr> PlanView(const op::PlanContext& c);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_DATA_DATA_OP_H_
