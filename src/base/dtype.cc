#include "base/dtype.h"

#include "opsnn/export.h"

namespace opsnn {
namespace {

struct Alias {
  std::string_view name;
  DType type;
};
constexpr Alias kAliases[] = {
    {"float32", DType::kF32}, {"float", DType::kF32}, {"float64", DType::kF64},   {"double", DType::kF64},
    {"float16", DType::kF16}, {"half", DType::kF16},  {"bfloat16", DType::kBF16}, {"int8", DType::kS8},
    {"uint8", DType::kU8},    {"int16", DType::kS16}, {"int32", DType::kS32},     {"int64", DType::kS64},
};

}  // namespace

OPSNN_API std::optional<DType> DTypeFromName(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kDTypeInfo[i].name) return static_cast<DType>(i);
  }
  for (const Alias& a : kAliases) {
    if (name == a.name) return a.type;
  }
  return std::nullopt;
}

OPSNN_API std::optional<DType> DTypeFromAcl(int acl) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kDTypeInfo[i].acl == acl) return static_cast<DType>(i);
  }
  return std::nullopt;
}

OPSNN_API std::optional<DType> DTypeFromOnnx(int onnx) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kDTypeInfo[i].onnx == onnx) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace opsnn
