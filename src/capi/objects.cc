#include "capi/objects.h"

#include <cstring>

#include "base/half.h"
#include "base/status.h"
#include "tensor/tensor_view.h"

namespace opsnn::capi {
namespace {

// Published types that opsnn stores but does not compute in.
struct OtherType {
  int acl;
  const char* name;
  size_t size;
};
constexpr OtherType kOtherTypes[] = {
    {7, "u16", 2},        {8, "u32", 4},          {10, "u64", 8},     {13, "string", 0},
    {16, "complex64", 8}, {17, "complex128", 16}, {29, "s4", 0},      {30, "u1", 0},
    {33, "complex32", 4}, {34, "hifloat8", 1},    {35, "f8_e5m2", 1}, {36, "f8_e4m3fn", 1},
    {37, "f8_e8m0", 1},   {38, "f6_e3m2", 1},     {39, "f6_e2m3", 1}, {40, "f4_e2m1", 0},
    {41, "f4_e1m2", 0},
};

template <typename T>
T As(const Scalar& s) {
  T value;
  std::memcpy(&value, s.bytes.data(), sizeof(T));
  return value;
}

}  // namespace

std::pair<std::vector<int64_t>, std::vector<int64_t>> Tensor::Seen() const {
  const int64_t found = found_.load(std::memory_order_acquire);
  std::pair<std::vector<int64_t>, std::vector<int64_t>> seen{dims, strides};
  const auto axis = static_cast<size_t>(found % kMaxRank);
  if (found < 0 || axis >= dims.size()) return seen;
  const TensorView room{nullptr, DType::kU8, Dims(std::span<const int64_t>(dims)),
                        Dims(std::span<const int64_t>(strides))};
  seen.first[axis] = found / kMaxRank;
  if (room.IsContiguous()) {
    const Dims closed = ContiguousStrides(Dims(std::span<const int64_t>(seen.first)));
    seen.second.assign(closed.begin(), closed.end());
  }
  return seen;
}

std::string AclTypeName(int acl_dtype) {
  if (auto t = DTypeFromAcl(acl_dtype)) return Name(*t);
  for (const OtherType& t : kOtherTypes) {
    if (t.acl == acl_dtype) return t.name;
  }
  return StrFormat("aclDataType %d", acl_dtype);
}

size_t AclTypeSize(int acl_dtype) {
  if (auto t = DTypeFromAcl(acl_dtype)) return SizeOf(*t);
  for (const OtherType& t : kOtherTypes) {
    if (t.acl == acl_dtype) return t.size;
  }
  return 0;
}

std::optional<double> Scalar::ToDouble() const {
  switch (acl_dtype) {
    case 0:
      return As<float>(*this);
    case 11:
      return As<double>(*this);
    case 1:
      return ToFloat(As<F16>(*this));
    case 27:
      return ToFloat(As<BF16>(*this));
    case 10:
      return static_cast<double>(As<uint64_t>(*this));
    default: {
      const auto i = ToInt();
      return i ? std::optional<double>(static_cast<double>(*i)) : std::nullopt;
    }
  }
}

std::optional<int64_t> Scalar::ToInt() const {
  switch (acl_dtype) {
    case 2:
      return As<int8_t>(*this);
    case 3:
      return As<int32_t>(*this);
    case 4:
      return As<uint8_t>(*this);
    case 6:
      return As<int16_t>(*this);
    case 7:
      return As<uint16_t>(*this);
    case 8:
      return As<uint32_t>(*this);
    case 9:
      return As<int64_t>(*this);
    case 10:
      return static_cast<int64_t>(As<uint64_t>(*this));
    case 12:
      return As<uint8_t>(*this) != 0;
    case 0:
    case 1:
    case 11:
    case 27: {
      const double d = *ToDouble();
      // Outside the range of int64 (and for NaN) there is no integer to give.
      if (!(d > -0x1p63 && d < 0x1p63)) return std::nullopt;
      return static_cast<int64_t>(d);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace opsnn::capi
