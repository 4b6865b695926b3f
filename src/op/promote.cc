#include "op/pointwise.h"

namespace opsnn::op {
namespace {

// bool < integer < float: the higher kind decides alone.
int Kind(DType t) { return IsFloat(t) ? 2 : t == DType::kBool ? 0 : 1; }

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (Kind(a) != Kind(b)) return Kind(a) > Kind(b) ? a : b;
  if (SizeOf(a) != SizeOf(b)) return SizeOf(a) > SizeOf(b) ? a : b;
  return IsFloat(a) ? DType::kF32 : DType::kS16;  // the pairs of equal size: f16 with bf16, u8 with s8
}

DType PromoteTypes(std::span<const DType> types) {
  DType t = types.empty() ? DType::kF32 : types[0];
  for (DType other : types) t = PromoteTypes(t, other);
  return t;
}

}  // namespace opsnn::op
