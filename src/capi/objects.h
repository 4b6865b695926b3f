// What stands behind the handles of the aclnn API. Objects are immutable, except for the data address of a
// tensor and for the size that the values of a call decided; aclInitTensor puts a new object behind the
// handle. Scalars and arrays own copies of their values.
#ifndef OPSNN_CAPI_OBJECTS_H_
#define OPSNN_CAPI_OBJECTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "runtime/handle_table.h"
#include "tensor/shape.h"

namespace opsnn::capi {

struct Tensor {
  int acl_dtype = 0;
  int format = 0;
  std::vector<int64_t> dims, strides, storage_dims;  // strides in elements, one per dim
  int64_t offset = 0;                                // elements
  std::atomic<void*> data{nullptr};

  // The last call that wrote the tensor found that only `size` of dims[axis] are results (Nonzero, Unique).
  // As an output it still has the room of dims; to everybody who reads it, it has the dims of Seen. One word,
  // so that a stream may store it while others look.
  void StoreFound(int axis, int64_t size) { found_.store(size * kMaxRank + axis, std::memory_order_release); }
  void ForgetFound() { found_.store(-1, std::memory_order_relaxed); }
  bool HasFound() const { return found_.load(std::memory_order_acquire) >= 0; }
  // Dims and strides with that size in place; a dense tensor closes up, a strided view keeps its strides.
  std::pair<std::vector<int64_t>, std::vector<int64_t>> Seen() const;

 private:
  std::atomic<int64_t> found_{-1};  // size * kMaxRank + axis
};

struct Scalar {
  int acl_dtype = 0;
  std::array<char, 16> bytes{};  // complex128 is the largest
  // Nullopt for types without a single number (complex, strings).
  std::optional<double> ToDouble() const;
  std::optional<int64_t> ToInt() const;  // floats truncate
};

struct IntArray {
  std::vector<int64_t> values;
};
struct FloatArray {
  std::vector<float> values;
};
struct BoolArray {
  std::vector<uint8_t> values;
};
// Lists hold the handles of their members; destroying a list destroys these too.
struct TensorList {
  std::vector<const void*> members;
};
struct ScalarList {
  std::vector<const void*> members;
};

using runtime::HandleKind;
template <typename T>
struct KindOfObject;
template <>
struct KindOfObject<Tensor> {
  static constexpr HandleKind value = HandleKind::kTensor;
};
template <>
struct KindOfObject<Scalar> {
  static constexpr HandleKind value = HandleKind::kScalar;
};
template <>
struct KindOfObject<IntArray> {
  static constexpr HandleKind value = HandleKind::kIntArray;
};
template <>
struct KindOfObject<FloatArray> {
  static constexpr HandleKind value = HandleKind::kFloatArray;
};
template <>
struct KindOfObject<BoolArray> {
  static constexpr HandleKind value = HandleKind::kBoolArray;
};
template <>
struct KindOfObject<TensorList> {
  static constexpr HandleKind value = HandleKind::kTensorList;
};
template <>
struct KindOfObject<ScalarList> {
  static constexpr HandleKind value = HandleKind::kScalarList;
};

// The live objects of a kind. Tables are never destroyed: programs release handles from static destructors.
template <typename T>
runtime::HandleTable<T, KindOfObject<T>::value>& Table() {
  static auto* table = new runtime::HandleTable<T, KindOfObject<T>::value>;
  return *table;
}

// "f32" for the types that opsnn computes in, else the name of the published type ("u16", "complex64").
std::string AclTypeName(int acl_dtype);
// Bytes per element; 0 for unknown types and for those smaller than a byte.
size_t AclTypeSize(int acl_dtype);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_OBJECTS_H_
