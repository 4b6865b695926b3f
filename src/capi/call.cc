#include "capi/call.h"

#include <cassert>
#include <cstring>
#include <tuple>

#include "acl/acl_base.h"
#include "tensor/tensor_view.h"

namespace opsnn::capi {
namespace {

// The object of any kind behind a handle, or null.
std::shared_ptr<const void> FindObject(ParamKind kind, const void* handle) {
  switch (kind) {
    case ParamKind::kScalar:
      return Table<Scalar>().Find(handle);
    case ParamKind::kIntArray:
      return Table<IntArray>().Find(handle);
    case ParamKind::kFloatArray:
      return Table<FloatArray>().Find(handle);
    case ParamKind::kBoolArray:
      return Table<BoolArray>().Find(handle);
    case ParamKind::kTensorList:
      return Table<TensorList>().Find(handle);
    case ParamKind::kScalarList:
      return Table<ScalarList>().Find(handle);
    default:
      return nullptr;
  }
}

HandleKind HandleOf(ParamKind kind) {
  switch (kind) {
    case ParamKind::kTensor:
      return HandleKind::kTensor;
    case ParamKind::kTensorList:
      return HandleKind::kTensorList;
    case ParamKind::kScalar:
      return HandleKind::kScalar;
    case ParamKind::kScalarList:
      return HandleKind::kScalarList;
    case ParamKind::kIntArray:
      return HandleKind::kIntArray;
    case ParamKind::kFloatArray:
      return HandleKind::kFloatArray;
    case ParamKind::kBoolArray:
      return HandleKind::kBoolArray;
    default:
      return HandleKind::kNone;
  }
}

bool IsPointer(ParamKind kind) { return kind != ParamKind::kInt && kind != ParamKind::kDouble; }

const char* WhatIsWanted(ParamKind kind) {
  switch (kind) {
    case ParamKind::kTensor:
      return "a tensor";
    case ParamKind::kTensorList:
      return "an aclTensorList";
    case ParamKind::kScalar:
      return "an aclScalar";
    case ParamKind::kScalarList:
      return "an aclScalarList";
    case ParamKind::kIntArray:
      return "an aclIntArray";
    case ParamKind::kFloatArray:
      return "an aclFloatArray";
    case ParamKind::kBoolArray:
      return "an aclBoolArray";
    default:
      return "a value";
  }
}

Status NotLive(const char* api, const std::string& name, HandleKind want, const void* handle) {
  const HandleKind got = runtime::KindOf(handle);
  if (got == want)
    return InvalidArgument("%s: %s is an %s that was destroyed already", api, name.c_str(), Name(want));
  return InvalidArgument("%s: %s is %s%s; allowed: a live %s", api, name.c_str(),
                         got == HandleKind::kNone ? "not a handle" : "an ",
                         got == HandleKind::kNone ? "" : Name(got), Name(want));
}

template <typename T>
void AppendRaw(std::string* key, const T& value) {
  key->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename T>
void AppendVector(std::string* key, const std::vector<T>& v) {
  AppendRaw(key, v.size());
  if (!v.empty()) key->append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
}

bool IsPlainFormat(int format) {
  switch (format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_HWCN:
      return true;
    default:
      return false;
  }
}

// Weights in FRACTAL_NZ: these functions take them, or bring tensors into it and out of it.
bool TakesTiles(std::string_view api) {
  for (const char* part :
       {"Nz", "INT4Pack", "NpuFormatCast", "QuantMatmulDequant", "QuantMatmulV5", "WeightQuantBatch"}) {
    if (api.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool IsTiledFormat(int format) {
  return format == ACL_FORMAT_FRACTAL_NZ ||
         (format >= ACL_FORMAT_FRACTAL_NZ_C0_16 && format <= ACL_FORMAT_FRACTAL_NZ_C0_8);
}

// The dims of the blocks of a matrix, or of a batch of them, as devices lay them out: 16 rows of 32 bytes.
std::vector<int64_t> BlockDims(const Tensor& t, bool exchanged) {
  constexpr int64_t kRows = 16, kBytes = 32;
  std::vector<int64_t> dims = t.dims;
  const size_t rank = dims.size();
  const auto element = static_cast<int64_t>(AclTypeSize(t.acl_dtype));
  if (element < 1 || element > kBytes) return {};
  const int64_t rows = dims[rank - (exchanged ? 1 : 2)], columns = dims[rank - (exchanged ? 2 : 1)],
                width = kBytes / element;
  dims[rank - 2] = columns / width + (columns % width != 0),
              dims[rank - 1] = rows / kRows + (rows % kRows != 0);
  dims.push_back(kRows), dims.push_back(width);
  return dims;
}

// A tensor of its own over the same memory; what a call found in it stays behind.
std::shared_ptr<Tensor> CopyOf(const Tensor& t) {
  auto copy = std::make_shared<Tensor>();
  copy->acl_dtype = t.acl_dtype, copy->format = t.format, copy->offset = t.offset;
  copy->dims = t.dims, copy->strides = t.strides, copy->storage_dims = t.storage_dims;
  copy->data.store(t.data.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return copy;
}

// A dense tensor of the memory behind a tensor in FRACTAL_NZ; null where there is none. Its dims are the
// storage dims where these are blocks, else the usual ones. Its own storage dims are the dims that the tensor
// stands for, and a 1 where these are those of the stored matrix exchanged, else a 0 (adapters/tiles.cc reads
// them).
std::shared_ptr<const Tensor> StoredTiles(const Tensor& t) {
  const size_t rank = t.dims.size();
  if (rank < 2) return nullptr;
  // One row of several columns has a step of 1 along its columns, however it lies.
  const bool row = t.dims[rank - 2] == 1 && t.dims[rank - 1] > 1;
  const bool exchanged = t.strides[rank - 2] == 1 && (t.strides[rank - 1] != 1 || row);
  std::shared_ptr<Tensor> stored = CopyOf(t);
  stored->format = ACL_FORMAT_FRACTAL_NZ;
  stored->dims = t.storage_dims.size() == rank + 2 ? t.storage_dims : BlockDims(t, exchanged);
  if (stored->dims.empty()) return nullptr;
  stored->storage_dims = t.dims;
  stored->storage_dims.push_back(exchanged);
  stored->strides.assign(stored->dims.size(), 1);
  for (size_t i = stored->dims.size() - 1; i-- > 0;) {
    if (__builtin_mul_overflow(stored->strides[i + 1], stored->dims[i + 1], &stored->strides[i]))
      return nullptr;
  }
  return stored;
}

// Parameters of quantised products are 64 bits that no arithmetic touches: u64 stands for s64 there.
std::shared_ptr<const Tensor> AsSignedBits(const Tensor& t) {
  std::shared_ptr<Tensor> bits = CopyOf(t);
  bits->acl_dtype = ACL_INT64;
  return bits;
}

// The tensor as readers of a result of unknown size see it: with the size that was found.
std::shared_ptr<const Tensor> AsFound(const Tensor& t) {
  std::shared_ptr<Tensor> seen = CopyOf(t);
  std::tie(seen->dims, seen->strides) = t.Seen();
  return seen;
}

bool TakesQuantParams(std::string_view api) { return api.find("Quant") != std::string_view::npos; }

}  // namespace

Status Call::Make(const OpsnnFunction& function, const OpsnnArg* args, int num_args, Call* call) {
  const size_t n = function.params.size();
  if (static_cast<size_t>(num_args) != n) {
    return Errorf(Code::kInternal, "%s: called with %d arguments; it has %zu", function.api, num_args, n);
  }
  call->function_ = &function;
  call->arguments_.resize(n);
  call->tensors_.reserve(n);
  auto add_tensor = [&](size_t param, int member, std::shared_ptr<const Tensor> t) {
    TensorArgument a;
    a.object = std::move(t), a.param = static_cast<int>(param), a.member = member;
    if (function.params[param].dir != op::ParamDir::kOut && a.object->HasFound())
      a.object = AsFound(*a.object);
    if (a.object->acl_dtype == ACL_UINT64 && TakesQuantParams(function.api))
      a.object = AsSignedBits(*a.object);
    if (IsTiledFormat(a.object->format) && TakesTiles(function.api)) {
      if (auto stored = StoredTiles(*a.object)) a.object = std::move(stored), a.tiles = true;
    }
    a.base = a.object->data.load(std::memory_order_relaxed);
    call->tensors_.push_back(std::move(a));
  };
  for (size_t i = 0; i < n; ++i) {
    const Param& p = function.params[i];
    Argument& a = call->arguments_[i];
    a.raw = args[i];
    a.given = !IsPointer(p.kind) || args[i].p;
    if (!a.given) {
      if (p.optional) continue;
      return Errorf(Code::kNull, "%s: %s is null; %s is required", function.api, p.name,
                    WhatIsWanted(p.kind));
    }
    if (p.kind == ParamKind::kTensor) {
      auto t = Table<Tensor>().Find(args[i].p);
      if (!t) return NotLive(function.api, p.name, HandleKind::kTensor, args[i].p);
      a.first_tensor = static_cast<int>(call->tensors_.size());
      a.num_tensors = 1;
      add_tensor(i, -1, std::move(t));
    } else if (HandleOf(p.kind) != HandleKind::kNone) {
      a.object = FindObject(p.kind, args[i].p);
      if (!a.object) return NotLive(function.api, p.name, HandleOf(p.kind), args[i].p);
      if (p.kind != ParamKind::kTensorList) continue;
      const auto& members = static_cast<const TensorList*>(a.object.get())->members;
      a.first_tensor = static_cast<int>(call->tensors_.size());
      a.num_tensors = static_cast<int>(members.size());
      for (size_t m = 0; m < members.size(); ++m) {
        if (!members[m]) {
          return Errorf(Code::kNull, "%s: %s[%zu] is null; every member must be a live aclTensor",
                        function.api, p.name, m);
        }
        auto t = Table<Tensor>().Find(members[m]);
        if (!t)
          return NotLive(function.api, StrFormat("%s[%zu]", p.name, m), HandleKind::kTensor, members[m]);
        add_tensor(i, static_cast<int>(m), std::move(t));
      }
    }
  }
  return OkStatus();
}

Status Call::FindFootprints() {
  for (TensorArgument& t : tensors_) {
    const Param& p = function_->params[t.param];
    if (!TouchedBytes(*t.object, &t.footprint)) {
      return InvalidArgument("%s: the offset, dims and strides of %s overflow 64 bits", function_->api,
                             NameOf(static_cast<int>(&t - tensors_.data())).c_str());
    }
    OPSNN_RETURN_IF_ERROR(HoldToBlock(function_->api, p.name, t.member, t.base, &t.footprint));
    if (t.base && t.footprint.low != t.footprint.high) {
      t.data = static_cast<char*>(t.base) +
               t.object->offset * static_cast<int64_t>(AclTypeSize(t.object->acl_dtype));
    } else {
      t.data = t.base;  // empty: nothing is ever touched
    }
  }
  return OkStatus();
}

int Call::Index(std::string_view param) const {
  const int i = function_->Find(param);
  assert(i >= 0);
  return i;
}

int Call::TensorIndex(std::string_view param) const { return arguments_[Index(param)].first_tensor; }

const std::vector<int64_t>& Call::Ints(std::string_view param) const {
  static const std::vector<int64_t> none;
  const auto& object = arguments_[Index(param)].object;
  return object ? static_cast<const IntArray*>(object.get())->values : none;
}

const Scalar& Call::ScalarOf(std::string_view param) const {
  return *static_cast<const Scalar*>(arguments_[Index(param)].object.get());
}

std::string Call::NameOf(int tensor) const {
  const TensorArgument& t = tensors_[tensor];
  const char* name = function_->params[t.param].name;
  return t.member < 0 ? name : StrFormat("%s[%d]", name, t.member);
}

op::TensorDesc Call::Desc(int tensor) const {
  const Tensor& t = *tensors_[tensor].object;
  op::TensorDesc d;
  d.dtype = *DTypeFromAcl(t.acl_dtype);
  d.dims = Dims(std::span<const int64_t>(t.dims));
  const Dims strides{std::span<const int64_t>(t.strides)};
  // Dims of size 1 and empty tensors do not make a view strided.
  if (!TensorView{nullptr, d.dtype, d.dims, strides}.IsContiguous()) d.strides = strides;
  return d;
}

Status Call::CheckTensors() const {
  const char* api = function_->api;
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    const Tensor& t = *tensors_[i].object;
    const Param& p = function_->params[tensors_[i].param];
    const std::string name = NameOf(i);
    const auto dtype = DTypeFromAcl(t.acl_dtype);
    if (!dtype || (p.has_dtypes && !op::Contains(p.dtypes, *dtype))) {
      return InvalidArgument(
          "%s: %s has dtype %s; allowed: %s", api, name.c_str(), AclTypeName(t.acl_dtype).c_str(),
          op::ToString(p.has_dtypes ? p.dtypes : op::DTypeMask{(1 << kNumDTypes) - 1}).c_str());
    }
    if (t.dims.size() > kMaxRank) {
      return InvalidArgument("%s: %s has %zu dims; allowed: at most %d", api, name.c_str(), t.dims.size(),
                             kMaxRank);
    }
    const bool tiles = tensors_[i].tiles;
    if (!IsPlainFormat(t.format) && !tiles) {
      return InvalidArgument("%s: %s has format %d; allowed: ND, NCHW, NCL, NCDHW, NHWC%s", api, name.c_str(),
                             t.format, TakesTiles(api) ? ", FRACTAL_NZ" : "");
    }
    const auto elements = CheckedNumElements(Dims(std::span<const int64_t>(t.dims)));
    if (!elements) {
      return InvalidArgument("%s: %s has shape %s, whose size overflows 64 bits", api, name.c_str(),
                             ToString(Dims(std::span<const int64_t>(t.dims))).c_str());
    }
    if (*elements == 0) continue;
    int64_t last = 0;
    bool overflow = false;
    for (size_t k = 0; k < t.dims.size(); ++k) {
      int64_t step;
      overflow = overflow || __builtin_mul_overflow(t.dims[k] - 1, t.strides[k], &step) ||
                 __builtin_add_overflow(last, step, &last);
    }
    int64_t bytes = 0;
    overflow = overflow || __builtin_add_overflow(last, int64_t{1}, &bytes) ||
               __builtin_mul_overflow(bytes, static_cast<int64_t>(SizeOf(*dtype)), &bytes);
    if (overflow) return InvalidArgument("%s: the strides of %s overflow 64 bits", api, name.c_str());
  }
  return OkStatus();
}

void Call::AppendKey(std::string* key) const {
  AppendRaw(key, function_->id);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    key->push_back(a.given ? 1 : 0);
    if (!a.given) continue;
    switch (function_->params[i].kind) {
      case ParamKind::kInt:
      case ParamKind::kDouble:
        AppendRaw(key, a.raw.i);
        break;
      case ParamKind::kScalar: {
        const auto* s = static_cast<const Scalar*>(a.object.get());
        AppendRaw(key, s->acl_dtype);
        AppendRaw(key, s->bytes);
        break;
      }
      case ParamKind::kIntArray:
        AppendVector(key, static_cast<const IntArray*>(a.object.get())->values);
        break;
      case ParamKind::kFloatArray:
        AppendVector(key, static_cast<const FloatArray*>(a.object.get())->values);
        break;
      case ParamKind::kBoolArray:
        AppendVector(key, static_cast<const BoolArray*>(a.object.get())->values);
        break;
      case ParamKind::kString:
        *key += static_cast<const char*>(a.raw.p), key->push_back('\0');
        break;
      case ParamKind::kTensor:
      case ParamKind::kTensorList:
        AppendRaw(key, a.num_tensors);
        break;
      case ParamKind::kScalarList:
        for (const void* member : static_cast<const ScalarList*>(a.object.get())->members) {
          auto s = Table<Scalar>().Find(member);
          AppendRaw(key, s ? s->acl_dtype : -1);
          if (s) AppendRaw(key, s->bytes);
        }
        break;
      case ParamKind::kPointer:
        break;
    }
  }
  for (const TensorArgument& t : tensors_) {
    AppendRaw(key, t.object->acl_dtype);
    AppendRaw(key, t.object->format);
    AppendVector(key, t.object->dims);
    AppendVector(key, t.object->strides);
    if (IsTiledFormat(t.object->format)) AppendVector(key, t.object->storage_dims);
  }
}

}  // namespace opsnn::capi
