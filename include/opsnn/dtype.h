// Element types. One table row per type; every other file asks this one.
#ifndef OPSNN_DTYPE_H_
#define OPSNN_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace opsnn {

enum class DType : uint8_t { kF32, kF64, kF16, kBF16, kS8, kU8, kS16, kS32, kS64, kBool };
inline constexpr int kNumDTypes = 10;

struct DTypeInfo {
  const char* name;  // "f32"
  uint8_t size;      // bytes
  int8_t acl;        // aclDataType value
  int8_t onnx;       // onnx TensorProto.DataType value
  bool is_float;
  bool is_signed;
};

inline constexpr DTypeInfo kDTypeInfo[kNumDTypes] = {
    {"f32", 4, 0, 1, true, true},     {"f64", 8, 11, 11, true, true}, {"f16", 2, 1, 10, true, true},
    {"bf16", 2, 27, 16, true, true},  {"s8", 1, 2, 3, false, true},   {"u8", 1, 4, 2, false, false},
    {"s16", 2, 6, 5, false, true},    {"s32", 4, 3, 6, false, true},  {"s64", 8, 9, 7, false, true},
    {"bool", 1, 12, 9, false, false},
};

constexpr const DTypeInfo& Info(DType t) { return kDTypeInfo[static_cast<int>(t)]; }
constexpr const char* Name(DType t) { return Info(t).name; }
constexpr size_t SizeOf(DType t) { return Info(t).size; }
constexpr bool IsFloat(DType t) { return Info(t).is_float; }
constexpr bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }

std::optional<DType> DTypeFromName(std::string_view name);  // "f32", also "float32", "int8", ...
std::optional<DType> DTypeFromAcl(int acl);
std::optional<DType> DTypeFromOnnx(int onnx);

template <typename T>
struct DTypeOf;  // DTypeOf<float>::value; F16/BF16 in base/half.h
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kS8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kS16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kS32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kS64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace opsnn

#endif  // OPSNN_DTYPE_H_
