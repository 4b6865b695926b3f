// The operator framework: what an operator is, and how a call goes.
//
//   check -> infer -> plan -> run
//
// An operator is declared in src/ops/<family>/<name>.toml (names, dtypes, attributes, docs, the ONNX and
// aclnn forms) and defined in <name>.cc by one function, found by name through the generated table:
//
//   OPSNN_DEFINE_OPERATOR(Relu) {                  // op::OpDef& def
//     def.program = [](const op::ProgramContext& c) { ... return Program; };   // pointwise or row-wise, or
//     def.infer = ...; def.plan = ...;                                         // anything heavier
//   }
//
// A pointwise operator gives only its program: check, shape inference (numpy broadcasting), planning,
// execution, fusion into neighbours and cost all follow from it. Operators never call each other: they share
// kernels and programs. Names and attributes are those of the latest ONNX opset; importer and C API translate
// into them.
#ifndef OPSNN_OP_OPERATOR_H_
#define OPSNN_OP_OPERATOR_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "base/status.h"
#include "op/attrs.h"
#include "plan/decision.h"
#include "program/program.h"
#include "tensor/host_tensor.h"
#include "tensor/layout.h"
#include "tensor/tensor_view.h"

namespace opsnn::op {

// What is known of an operand before it exists. `dims` are logical (NCHW for blocked layouts).
struct TensorDesc {
  DType dtype = DType::kF32;
  Dims dims;             // may hold kUnknownDim during inference, never during planning
  Layout layout;         // ND unless the graph chose otherwise
  Dims strides;          // elements; rank 0 with dims of rank > 0 means contiguous (stored order)
  ConstTensor constant;  // the value, where it is known before running; logical dims, ND
  bool known_rank = true;

  bool IsContiguous() const {
    return strides.empty() || strides == ContiguousStrides(StoredDims(dims, layout));
  }
  // A view for running: stored dims and strides on `data`.
  TensorView View(void* data) const;
};

// Operands by position; an absent optional input is null.
using InputDescs = std::span<const TensorDesc* const>;

// ---- run

struct RunArgs {
  void* const* inputs =
      nullptr;  // null where absent; the operator's inputs, then the fused tail's extra inputs
  void* const* outputs = nullptr;
  void* workspace = nullptr;  // workspace_bytes() bytes, aligned to kAlignment
};

// A planned call: immutable, shared, runs on any thread with any pointers of the planned shapes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status Run(const RunArgs& args) const = 0;
  virtual size_t workspace_bytes() const { return 0; }
  virtual std::string variant() const = 0;  // "gemm packed 14x2", "direct 3x3", for traces
};
using KernelPtr = std::shared_ptr<const Kernel>;

// ---- plan
// A
// pointwise chain that was fused behind an operator: `program` input 0 is the operator's output 0; its
// further inputs follow the operator's own inputs in order.
struct FusedTail {
  Program program;
  std::vector<plan::Region> regions;  // of a matrix product's rows; empty: all of them are fused
};

// Packed weights belong to whoever owns the constants (a graph, a weight handle), never to a plan.
class PackCache {
 public:
  virtual ~PackCache() = default;
  // The buffer stored for (constant, key), or the result of make(), which is stored. Thread safe.
  virtual std::shared_ptr<const void> GetOrMake(const ConstTensor& constant, const std::string& key,
                                                FunctionRef<std::shared_ptr<const void>()> make) = 0;
};

struct PlanContext {
  InputDescs inputs;                    // the operator's own inputs
  std::span<const TensorDesc> outputs;  // as inferred, with the layouts chosen; after the tail, if any
  const Attrs* attrs = nullptr;
  const FusedTail* tail = nullptr;
  InputDescs tail_inputs;      // descs of the tail program's inputs 1..
  PackCache* packs = nullptr;  // null: constants may not be packed ahead (eager calls)
};

// ---- infer

struct InferContext {
  InputDescs inputs;
  const Attrs* attrs = nullptr;
  int num_outputs = 1;              // outputs that the caller wants
  std::vector<TensorDesc> outputs;  // filled by infer: dtype and dims
};

struct ProgramContext {
  std::span<const DType> input_dtypes;  // storage types
  const Attrs* attrs = nullptr;
  InputDescs inputs;  // may be empty when only dtypes are known
};

// ---- the operator

enum class OpClass : uint8_t { kMatrix, kVector, kData, kControl };

// How an operator takes blocked (NC1HWC0) images.
enum class LayoutRule : uint8_t {
  kLogicalOnly,  // needs the logical order; the graph converts before it
  kElementwise,  // any layout, the same for all operands (pointwise programs)
  kAccepts,      // works on blocked input without gaining or losing: pools, resize, channel concat
  kPrefers,      // wants blocked input: convolution
};

struct Declaration;  // op/declaration.h

struct OpDef {
  std::string name;                          // "Relu"
  const Declaration* declaration = nullptr;  // the whole of its TOML file
  OpClass op_class = OpClass::kVector;
  LayoutRule layout = LayoutRule::kLogicalOnly;
  int min_inputs = 0, max_inputs = 0;  // from the declaration

  // Argument checks beyond the declaration's dtypes; optional.
  std::function<Status(const InferContext&)> check;
  std::function<Status(InferContext&)> infer;
  std::function<Result<KernelPtr>(const PlanContext&)> plan;
  // Set for pointwise operators: the stages they stand for. Then infer and plan are filled in.
  std::function<Result<Program>(const ProgramContext&)> program;
  // May this operator take a fused tail (a cube kernel with an epilogue)?
  bool takes_tail = false;
  // The fused tail is the whole computation instead of something behind it: the graph's Program nodes.
  bool tail_is_program = false;
  // Output 0 holds input 0's elements in the same order (Reshape, Squeeze, ...): the graph may alias them,
  // and the kernel does nothing when both pointers are equal.
  bool is_view = false;
  // Output dtype of a pointwise operator if it is not the promoted input dtype (comparisons: bool).
  std::function<DType(const ProgramContext&)> out_dtype;
  // Constant folding needs no function of its own: the graph runs the planned kernel on the constants.
};

#define OPSNN_DEFINE_OPERATOR(NAME)            \
  namespace opsnn::ops {                       \
  void Define_##NAME(::opsnn::op::OpDef& def); \
  }                                            \
  void ::opsnn::ops::Define_##NAME(::opsnn::op::OpDef& def)

// ---- registry (generated table, built once)

const OpDef* FindOperator(std::string_view name);  // null when there is none
std::span<const OpDef* const> AllOperators();      // sorted by name

// ---- one call
// Number of
// inputs, dtypes against the declaration, attributes known and of the right type, then def.check.
Status Check(const OpDef& def, const InferContext& c);
// Check + infer.
Status Infer(const OpDef& def, InferContext& c);
// Plans an inferred call; pointwise programs get the generic kernel.
Result<KernelPtr> Plan(const OpDef& def, const PlanContext& c);

}  // namespace opsnn::op

#endif  // OPSNN_OP_OPERATOR_H_
