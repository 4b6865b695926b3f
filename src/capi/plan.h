// Planning a call: from arguments to kernels.
//
// An adapter (or the declaration's bind) turns the arguments into an OpCall: the operator, its attributes and
// its operands, each a view on a tensor argument, on a temporary or on a constant. A function that takes
// several operators has the earlier ones in OpCall::first, which hand their results on in temporaries.
// BuildPlan infers, compares the outputs with what the caller gave, plans, and adds copies where an operand
// cannot be used as it lies: a strided view that the operator does not take, another dtype than the operator
// shall see, or an output that is also an input of an operator that does not work in place.
#ifndef OPSNN_CAPI_PLAN_H_
#define OPSNN_CAPI_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "capi/call.h"
#include "op/operator.h"

namespace opsnn::capi {

// An operand of an OpCall: a tensor argument, a temporary or a constant (desc.constant), under the dtype,
// dims and strides that the operator shall see. A dtype other than the stored one is converted on the way.
struct Operand {
  int tensor = -1;  // position in Call::tensors(); -1: none
  op::TensorDesc desc;
  int temp = -1;       // from OpCall::Temp; -1: none
  int64_t offset = 0;  // elements from the first of the tensor or temporary to the first of the view

  bool given() const { return tensor >= 0 || temp >= 0 || desc.constant != nullptr; }
};

// A dim of an output that the values decide. The tensor that the caller gave has room for the largest size;
// once the call has run, `aclGetViewShape` tells the actual one. What is behind it in a dense tensor closes
// up, a strided view keeps its strides.
struct SizeReport {
  int tensor = -1;  // position in Call::tensors()
  int axis = 0;
  Operand size;  // a temporary of one s64
};

struct OpCall {
  const op::OpDef* op = nullptr;
  op::Attrs attrs;
  std::vector<Operand> inputs, outputs;
  // May an output have another dtype than the one inferred, converted as it is stored?
  bool converts_output = false;
  // May output 0 be the memory of input 0, although the operator is not pointwise?
  bool in_place = false;
  // A program behind the operator, or the whole of operator Program. The last tail_inputs of `inputs` are its
  // further ones; outputs then have the dtypes that their operands say.
  std::shared_ptr<const op::FusedTail> tail;
  int tail_inputs = 0;

  std::vector<OpCall> first;          // run before this one, in order
  std::vector<op::TensorDesc> temps;  // of the outermost call: what Temp gave
  std::vector<SizeReport> sizes;      // of the outermost call
  // A contiguous temporary that lives as long as the call; written as an output of one call, read by others.
  Operand Temp(DType dtype, const Dims& dims);
};

// Where a kernel's operand lies when it runs.
struct Place {
  enum Kind : uint8_t { kAbsent, kTensor, kWorkspace, kConstant } kind = kAbsent;
  int tensor = 0;     // kTensor: position in the executor's addresses; kConstant: in CallPlan::constants
  size_t offset = 0;  // kWorkspace: bytes
};

struct Step {
  op::KernelPtr kernel;
  std::vector<Place> inputs, outputs;
  size_t workspace_offset = 0;
  // How messages of the operator are told in words of the function: its name, and by operand (inputs, then
  // outputs) the name of the parameter that it comes from ("" where it comes from several, or from none).
  const op::OpDef* op = nullptr;
  std::vector<std::string> parameters;
};

// A size that is in the workspace once the steps have run.
struct SizePlace {
  int tensor = -1;
  int axis = 0;
  size_t offset = 0;
};

// What phase two runs; holds no addresses, shared by all calls of the same shape class.
struct CallPlan {
  std::vector<Step> steps;
  size_t workspace_bytes = 0;    // including what aligning the caller's pointer may cost
  std::vector<bool> needs_data;  // by tensor: read or written, so its address must be set by then
  std::vector<ConstTensor> constants;
  std::vector<SizePlace> sizes;
  bool in_place = false;  // right too where an output is an input as a whole
};

// Checks everything about the call that does not depend on addresses and plans it. same_memory[i] is the
// tensor that tensor i shares its memory with exactly (itself if none), as AliasPattern found.
Result<std::shared_ptr<const CallPlan>> BuildPlan(const Call& call, const std::vector<int>& same_memory);

// How the outputs lie to the inputs: refuses outputs that overlap an operand partly; fills same_memory.
// Tensors without an address overlap nothing.
Status AliasPattern(const Call& call, std::vector<int>* same_memory);

// bool < integer < float: a value casts to its own kind or a higher one.
bool CanCast(DType from, DType to);

// The generic adapter: operands and attributes as the declaration's bind says.
Status BindFromDeclaration(const Call& call, OpCall& out);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_PLAN_H_
