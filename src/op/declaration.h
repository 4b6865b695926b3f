// Declaration: what an operator's TOML file says, as plain static data. tools/gen_ops.py writes one per
// operator into the generated table; check, docs, the support table and the C API read it.
#ifndef OPSNN_OP_DECLARATION_H_
#define OPSNN_OP_DECLARATION_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "op/operator.h"

namespace opsnn::op {

using DTypeMask = uint16_t;  // bit i: the dtype with enum value i
constexpr bool Contains(DTypeMask mask, DType t) { return (mask >> static_cast<int>(t)) & 1; }
std::string ToString(DTypeMask mask);  // "f32, f16"

struct OperandDecl {
  const char* name;
  DTypeMask dtypes;  // allowed storage types
  int same_as;       // index of the input whose dtype this operand shares, or -1
  bool optional;
  bool variadic;  // inputs: one or more; outputs: as many as the caller asks for
  const char* doc;
};

enum class AttrType : uint8_t {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kTensor
};  // order of AttrValue
const char* Name(AttrType t);

struct AttrDecl {
  const char* name;
  AttrType type;
  bool required;
  bool has_default;
  int64_t int_default;
  double float_default;
  const char* string_default;
  std::span<const int64_t> ints_default;
  std::span<const double> floats_default;
  std::span<const char* const> strings_default;
  std::span<const int64_t> int_values;  // allowed values; empty: any
  std::span<const char* const> string_values;
  const char* doc;
};

struct OnnxDecl {
  const char* domain;
  int since;  // first opset with this meaning; 0: not an ONNX operator
};

enum class ParamDir : uint8_t { kIn, kOut, kInOut, kAttr };
struct AclnnParam {
  const char* name;
  const char* ctype;
  ParamDir dir;
  bool optional;
};
struct AclnnDTypes {
  int param;  // index into params
  DTypeMask dtypes;
};
struct AclnnBind {
  const char* operand;  // input, output or attribute of the operator
  int param;
};
struct AclnnSet {  // an attribute that the function fixes
  const char* attr;
  AttrType type;
  int64_t int_value;
  double float_value;
  const char* string_value;
};
// May the output have another dtype than the result, if that casts to it? By default where operands promote.
// kPromotes: so may the inputs, although those of the operator share a dtype.
enum class AclnnCasts : uint8_t { kDefault, kYes, kNo, kPromotes };
struct AclnnDecl {
  const char* api;     // "aclnnRelu"
  const char* header;  // "aclnnop/aclnn_relu.h"
  std::span<const AclnnParam> params;
  std::span<const AclnnParam> exec_params;  // empty: the usual four
  std::span<const AclnnDTypes> dtypes;
  std::span<const AclnnBind> bind;  // empty when an adapter translates
  const char* adapter;
  std::span<const AclnnSet> set;
  AclnnCasts casts;
};

struct Declaration {
  const char* name;
  const char* family;
  OpClass op_class;
  LayoutRule layout;
  bool takes_tail;
  const char* formula;
  const char* doc;
  std::span<const OperandDecl> inputs;
  std::span<const OperandDecl> outputs;
  std::span<const AttrDecl> attrs;
  OnnxDecl onnx;
  std::span<const AclnnDecl> aclnn;

  const AttrDecl* FindAttr(std::string_view attr) const;  // null when there is none
};

struct OperatorEntry {
  const Declaration* declaration;
  void (*define)(OpDef&);
};
std::span<const OperatorEntry> OperatorTable();  // the generated table, sorted by name

}  // namespace opsnn::op

#endif  // OPSNN_OP_DECLARATION_H_
