#include "capi/footprint.h"

#include <algorithm>
#include <string>

#include "capi/api/reserved.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

// Existing programs overrun small buffers by a few bytes; those bytes are there (runtime/memory.h).
constexpr int64_t kSpareBytes = 32;

}  // namespace

std::string NameOf(const char* param, int member) {
  return member < 0 ? param : StrFormat("%s[%d]", param, member);
}

TensorView ViewOf(const Tensor& t, const void* data) {
  const auto dtype = DTypeFromAcl(t.acl_dtype);
  return {const_cast<void*>(data), dtype.value_or(DType::kU8), Dims(std::span<const int64_t>(t.dims)),
          Dims(std::span<const int64_t>(t.strides))};
}

bool TouchedBytes(const Tensor& t, Footprint* f) {
  *f = {};
  if (std::count(t.dims.begin(), t.dims.end(), 0)) return true;
  int64_t low = t.offset, high = t.offset;
  for (size_t i = 0; i < t.dims.size(); ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(t.dims[i] - 1, t.strides[i], &reach)) return false;
    int64_t& end = reach < 0 ? low : high;
    if (__builtin_add_overflow(end, reach, &end)) return false;
  }
  const auto size = static_cast<int64_t>(AclTypeSize(t.acl_dtype));
  return !__builtin_add_overflow(high, int64_t{1}, &high) && !__builtin_mul_overflow(low, size, &f->low) &&
         !__builtin_mul_overflow(high, size, &f->high);
}

namespace {

Status RefuseHole(const char* api, const char* param, int member, const void* address, const Footprint& f) {
  const char* const low = static_cast<const char*>(address) + f.low;
  const char* const hole = FindHole(low, static_cast<size_t>(f.high - f.low));
  if (hole == nullptr) return OkStatus();
  return InvalidArgument(
      "%s: %s lies over addresses that are reserved and not mapped: byte %lld of the %lld between its first "
      "and "
      "last element; allowed: memory that aclrtMapMem mapped",
      api, NameOf(param, member).c_str(), static_cast<long long>(hole - low),
      static_cast<long long>(f.high - f.low));
}

}  // namespace

Status HoldToBlock(const char* api, const char* param, int member, const void* address, Footprint* f) {
  f->block = 0;
  if (!address || f->low == f->high) return OkStatus();
  const auto block = runtime::FindBlock(address);
  if (!block) return RefuseHole(api, param, member, address, *f);
  // Counted from the start of the block; `at` is below its size, so nothing overflows.
  const int64_t at = static_cast<const char*>(address) - static_cast<const char*>(block->base);
  const auto size = static_cast<int64_t>(block->bytes);
  // A view that begins outside is no overrun.
  if (f->low >= -at && f->low < size - at && f->high <= size - at + kSpareBytes) {
    f->block = block->serial;
    return OkStatus();
  }
  return InvalidArgument(
      "%s: %s reaches out of its memory: the view takes bytes %lld to %lld, counted from its address, which "
      "is "
      "byte %lld of an allocation of %lld bytes at %p; allowed: views inside the allocation",
      api, NameOf(param, member).c_str(), static_cast<long long>(f->low), static_cast<long long>(f->high - 1),
      static_cast<long long>(at), static_cast<long long>(size), block->base);
}

Status CheckStillLive(const char* api, const char* param, int member, const void* address,
                      const Footprint& f) {
  if (f.block == 0) {
    return address && f.low != f.high ? RefuseHole(api, param, member, address, f) : OkStatus();
  }
  const auto block = runtime::FindBlock(address);
  if (block && block->serial == f.block) return OkStatus();
  return InvalidArgument(
      "%s: the memory of %s at %p was freed after phase one; allowed: memory that stays until the work is "
      "done",
      api, NameOf(param, member).c_str(), address);
}

}  // namespace opsnn::capi
