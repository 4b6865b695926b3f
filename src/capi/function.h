// An implemented aclnn function: its row in an operator's declaration, resolved once.
#ifndef OPSNN_CAPI_FUNCTION_H_
#define OPSNN_CAPI_FUNCTION_H_

#include <string>
#include <string_view>
#include <vector>

#include "capi/aclnn_entry.h"
#include "op/declaration.h"
#include "op/operator.h"

namespace opsnn::capi {

class Call;
struct OpCall;

// Translates the arguments of a call into operands and attributes of the operator (capi/adapters).
using Adapter = Status (*)(const Call& call, OpCall& out);

enum class ParamKind : uint8_t {
  kTensor,
  kTensorList,
  kScalar,
  kScalarList,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kInt,
  kDouble,
  kString,
  kPointer
};

struct Param {
  const char* name;
  ParamKind kind;
  op::ParamDir dir;
  bool optional;
  bool has_dtypes;
  op::DTypeMask dtypes;  // allowed, if has_dtypes
  bool is_output() const { return dir == op::ParamDir::kOut || dir == op::ParamDir::kInOut; }
};

// Adapters by name, from the declarations (generated).
struct AdapterEntry {
  const char* name;
  Adapter adapter;
};
std::span<const AdapterEntry> AdapterTable();

}  // namespace opsnn::capi

struct OpsnnFunction {
  const char* api;
  uint32_t id;  // position in the table of functions
  const opsnn::op::OpDef* op;
  const opsnn::op::AclnnDecl* declaration;
  std::vector<opsnn::capi::Param> params;
  opsnn::capi::Adapter adapter = nullptr;  // null: the declaration's bind says it all

  // Position of a parameter; -1 when there is none.
  int Find(std::string_view name) const;
};

#endif  // OPSNN_CAPI_FUNCTION_H_
