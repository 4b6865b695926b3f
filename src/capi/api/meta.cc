// aclTensor, aclScalar, arrays and lists.
#include <cstring>

#include "capi/acl_exports.h"
#include "capi/boundary.h"
#include "capi/objects.h"

namespace opsnn::capi {
namespace {

constexpr int kNull = static_cast<int>(Code::kNull), kInvalid = static_cast<int>(Code::kInvalid);
// More dims than any operator takes, few enough that a wild count is recognised.
constexpr uint64_t kMaxDims = 64;
// Elements: no address space is larger, and offset times element size stays inside 64 bits.
constexpr int64_t kMaxOffset = int64_t{1} << 48;

std::string NotLive(const char* argument, const void* handle, HandleKind want) {
  const HandleKind got = runtime::KindOf(handle);
  return StrFormat("%s %p is not a live %s (%s)", argument, handle, Name(want),
                   got == want                ? "destroyed already"
                   : got == HandleKind::kNone ? "not a handle"
                                              : Name(got));
}

// The live object, or null with `code` set and the message kept.
template <typename T>
std::shared_ptr<T> Find(const char* function, const char* argument, const void* handle, int* code) {
  constexpr HandleKind kind = KindOfObject<T>::value;
  *code = 0;
  if (!handle) {
    *code = Fail(function, kNull, StrFormat("%s is null; it must be a live %s", argument, Name(kind)));
    return nullptr;
  }
  std::shared_ptr<T> object = Table<T>().Find(handle);
  if (!object) *code = Fail(function, kInvalid, NotLive(argument, handle, kind));
  return object;
}

// Null may be destroyed; a handle that is not live is reported.
template <typename T>
int Destroy(const char* function, const char* argument, const void* handle) {
  if (!handle || Table<T>().Remove(handle)) return 0;
  return Fail(function, kInvalid, NotLive(argument, handle, KindOfObject<T>::value));
}

template <typename T, typename Handle>
Handle* Create(const char* function, std::shared_ptr<T> object) {
  void* handle = Table<T>().Insert(std::move(object));
  if (!handle) Fail(function, kAclnnBadAlloc, "too many objects of this kind are alive");
  return static_cast<Handle*>(handle);
}

bool CheckDims(const char* function, const char* argument, const int64_t* dims, uint64_t count) {
  if (count > kMaxDims) {
    Fail(function, kInvalid,
         StrFormat("%s has %llu dims; allowed: at most %llu", argument,
                   static_cast<unsigned long long>(count), static_cast<unsigned long long>(kMaxDims)));
    return false;
  }
  if (count && !dims) {
    Fail(function, kNull,
         StrFormat("%s is null; its count is %llu", argument, static_cast<unsigned long long>(count)));
    return false;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (dims[i] >= 0) continue;
    Fail(function, kInvalid,
         StrFormat("%s[%llu] is %lld; allowed: 0 or more", argument, static_cast<unsigned long long>(i),
                   static_cast<long long>(dims[i])));
    return false;
  }
  return true;
}

std::shared_ptr<Tensor> MakeTensor(const char* function, const int64_t* view_dims, uint64_t view_count,
                                   aclDataType dtype, const int64_t* stride, int64_t offset, aclFormat format,
                                   const int64_t* storage_dims, uint64_t storage_count, void* data) {
  if (!CheckDims(function, "viewDims", view_dims, view_count)) return nullptr;
  if (!CheckDims(function, "storageDims", storage_dims, storage_count)) return nullptr;
  if (stride && !CheckDims(function, "stride", stride, view_count)) return nullptr;
  if (offset < 0 || offset > kMaxOffset) {
    Fail(function, kInvalid,
         StrFormat("offset is %lld; allowed: 0 to %lld", static_cast<long long>(offset),
                   static_cast<long long>(kMaxOffset)));
    return nullptr;
  }
  auto t = std::make_shared<Tensor>();
  t->acl_dtype = dtype;
  t->format = format;
  t->offset = offset;
  t->data = data;
  t->dims.assign(view_dims, view_dims + view_count);
  t->storage_dims.assign(storage_dims, storage_dims + storage_count);
  if (stride) {
    t->strides.assign(stride, stride + view_count);
  } else {
    t->strides.resize(view_count);
    int64_t step = 1;
    for (size_t i = view_count; i-- > 0;) {
      t->strides[i] = step;
      // A product that overflows cannot be allocated either; the check of the view rejects it later.
      if (__builtin_mul_overflow(step, t->dims[i] ? t->dims[i] : 1, &step)) step = INT64_MAX;
    }
  }
  return t;
}

// The caller frees with delete[].
int CopyOut(const char* function, const std::vector<int64_t>& values, int64_t** out, uint64_t* count) {
  if (!out || !count) return Fail(function, kNull, "the result pointers must not be null");
  *out = new int64_t[values.size() ? values.size() : 1];
  std::memcpy(*out, values.data(), values.size() * sizeof(int64_t));
  *count = values.size();
  return 0;
}

template <typename T>
int SizeOfArray(const char* function, const void* handle, uint64_t* size, size_t (*count)(const T&)) {
  int code;
  auto array = Find<T>(function, "array", handle, &code);
  if (!array) return code;
  if (!size) return Fail(function, kNull, "size is null; it must point to the result");
  *size = count(*array);
  return 0;
}

}  // namespace

OPSNN_ACL_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                         const int64_t* stride, int64_t offset, aclFormat format,
                                         const int64_t* storageDims, uint64_t storageDimsNum,
                                         void* tensorData) {
  auto t = MakeTensor("aclCreateTensor", viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                      storageDimsNum, tensorData);
  return t ? Create<Tensor, aclTensor>("aclCreateTensor", std::move(t)) : nullptr;
}

OPSNN_ACL_API aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                        aclDataType dataType, const int64_t* stride, int64_t offset,
                                        aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                                        void* tensorDataAddr) {
  int code;
  if (!Find<Tensor>("aclInitTensor", "tensor", tensor, &code)) return code;
  auto t = MakeTensor("aclInitTensor", viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                      storageDimsNum, tensorDataAddr);
  if (!t) return kInvalid;
  Table<Tensor>().Replace(tensor, std::move(t));
  return 0;
}

OPSNN_ACL_API aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Destroy<Tensor>("aclDestroyTensor", "tensor", tensor);
}

OPSNN_ACL_API aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  const size_t size = AclTypeSize(dataType);
  if (!value || size == 0) {
    Fail("aclCreateScalar", value ? kInvalid : kNull,
         value ? "dataType is " + AclTypeName(dataType) + "; allowed: types of at least one byte"
               : "value is null");
    return nullptr;
  }
  auto s = std::make_shared<Scalar>();
  s->acl_dtype = dataType;
  std::memcpy(s->bytes.data(), value, size);
  return Create<Scalar, aclScalar>("aclCreateScalar", std::move(s));
}
OPSNN_ACL_API aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return Destroy<Scalar>("aclDestroyScalar", "scalar", scalar);
}

namespace {
template <typename Array, typename Handle, typename T>
Handle* CreateArray(const char* function, const T* value, uint64_t size) {
  if (!value && size) {
    Fail(function, kNull, "value is null");
    return nullptr;
  }
  auto a = std::make_shared<Array>();
  a->values.assign(value, value + size);
  return Create<Array, Handle>(function, std::move(a));
}
template <typename List, typename Handle, typename Member>
Handle* CreateList(const char* function, const Member* const* value, uint64_t size) {
  if (!value && size) {
    Fail(function, kNull, "value is null");
    return nullptr;
  }
  auto l = std::make_shared<List>();
  l->members.assign(value, value + size);
  return Create<List, Handle>(function, std::move(l));
}
// Members end with their list; those that the program destroyed before are no mistake worth failing for.
template <typename List, typename Member>
int DestroyList(const char* function, const void* handle) {
  if (!handle) return 0;
  auto list = Table<List>().Remove(handle);
  if (!list) return Fail(function, kInvalid, NotLive("array", handle, KindOfObject<List>::value));
  for (const void* member : list->members) Table<Member>().Remove(member);
  return 0;
}
}  // namespace

OPSNN_ACL_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return CreateArray<IntArray, aclIntArray>("aclCreateIntArray", value, size);
}
OPSNN_ACL_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return CreateArray<FloatArray, aclFloatArray>("aclCreateFloatArray", value, size);
}
OPSNN_ACL_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return CreateArray<BoolArray, aclBoolArray>("aclCreateBoolArray", value, size);
}
OPSNN_ACL_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return CreateList<TensorList, aclTensorList>("aclCreateTensorList", value, size);
}
OPSNN_ACL_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return CreateList<ScalarList, aclScalarList>("aclCreateScalarList", value, size);
}
OPSNN_ACL_API aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Destroy<IntArray>("aclDestroyIntArray", "array", array);
}
OPSNN_ACL_API aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return Destroy<FloatArray>("aclDestroyFloatArray", "array", array);
}
OPSNN_ACL_API aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return Destroy<BoolArray>("aclDestroyBoolArray", "array", array);
}
OPSNN_ACL_API aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return DestroyList<TensorList, Tensor>("aclDestroyTensorList", array);
}
OPSNN_ACL_API aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return DestroyList<ScalarList, Scalar>("aclDestroyScalarList", array);
}

OPSNN_ACL_API aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return SizeOfArray<IntArray>("aclGetIntArraySize", array, size,
                               [](const IntArray& a) { return a.values.size(); });
}
OPSNN_ACL_API aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return SizeOfArray<FloatArray>("aclGetFloatArraySize", array, size,
                                 [](const FloatArray& a) { return a.values.size(); });
}
OPSNN_ACL_API aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return SizeOfArray<BoolArray>("aclGetBoolArraySize", array, size,
                                [](const BoolArray& a) { return a.values.size(); });
}
OPSNN_ACL_API aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return SizeOfArray<TensorList>("aclGetTensorListSize", tensorList, size,
                                 [](const TensorList& l) { return l.members.size(); });
}
OPSNN_ACL_API aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return SizeOfArray<ScalarList>("aclGetScalarListSize", scalarList, size,
                                 [](const ScalarList& l) { return l.members.size(); });
}

OPSNN_ACL_API aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims,
                                          uint64_t* viewDimsNum) {
  int code;
  auto t = Find<Tensor>("aclGetViewShape", "tensor", tensor, &code);
  return t ? CopyOut("aclGetViewShape", t->Seen().first, viewDims, viewDimsNum) : code;
}
OPSNN_ACL_API aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                             uint64_t* storageDimsNum) {
  int code;
  auto t = Find<Tensor>("aclGetStorageShape", "tensor", tensor, &code);
  return t ? CopyOut("aclGetStorageShape", t->storage_dims, storageDims, storageDimsNum) : code;
}
OPSNN_ACL_API aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                            uint64_t* stridesNum) {
  int code;
  auto t = Find<Tensor>("aclGetViewStrides", "tensor", tensor, &code);
  return t ? CopyOut("aclGetViewStrides", t->Seen().second, stridesValue, stridesNum) : code;
}

namespace {
template <typename Out, typename Get>
int GetFromTensor(const char* function, const aclTensor* tensor, Out* out, Get get) {
  int code;
  auto t = Find<Tensor>(function, "tensor", tensor, &code);
  if (!t) return code;
  if (!out) return Fail(function, kNull, "the result pointer is null");
  *out = get(*t);
  return 0;
}
}  // namespace

OPSNN_ACL_API aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return GetFromTensor("aclGetViewOffset", tensor, offset, [](const Tensor& t) { return t.offset; });
}
OPSNN_ACL_API aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return GetFromTensor("aclGetFormat", tensor, format,
                       [](const Tensor& t) { return static_cast<aclFormat>(t.format); });
}
OPSNN_ACL_API aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return GetFromTensor("aclGetDataType", tensor, dataType,
                       [](const Tensor& t) { return static_cast<aclDataType>(t.acl_dtype); });
}
OPSNN_ACL_API aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return GetFromTensor("aclGetRawTensorAddr", tensor, addr, [](const Tensor& t) { return t.data.load(); });
}
OPSNN_ACL_API aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  int code;
  auto t = Find<Tensor>("aclSetRawTensorAddr", "tensor", tensor, &code);
  if (!t) return code;
  t->data = addr;
  return 0;
}

}  // namespace opsnn::capi
