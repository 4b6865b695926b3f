// Functions whose values decide how large the result is: Nonzero, MaskedSelect, Unique. The caller's output
// has room for the largest result; aclGetViewShape tells the actual size once the call has run.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

// Axis `axis` of y gets the size that `call` gives as its output 1, with room for what y holds now.
OpCall Counted(const char* op, const Operand& x, const Operand& y, int axis, OpCall* out) {
  OpCall c = CallOf(op, {x}, {y, out->Temp(DType::kS64, {})});
  c.attrs.Set("room", y.desc.dims[axis]);
  out->sizes.push_back({y.tensor, axis, c.outputs[1]});
  return c;
}

}  // namespace

Status Adapt_Nonzero(const Call& call, OpCall& out) {
  Operand self = Arg(call, "self");
  const Operand y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, y, 2, 2));
  const bool transposed = std::string_view(call.function().api) == "aclnnNonzeroV2";
  const int along = transposed ? 1 : 0;
  if (self.desc.dims.rank() == 0 && y.desc.dims[1 - along] == 1) self = AtLeast1d(self);
  Dims want = y.desc.dims;
  want[1 - along] = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "a position in each dim of self"));
  OpCall c = Counted("CountedNonZero", self, y, along, &out);
  c.attrs.Set("transposed", int64_t{transposed});
  Take(std::move(c), &out);
  return OkStatus();
}

Status Adapt_MaskedSelect(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), mask = Arg(call, "mask"), y = Arg(call, "out");
  const auto both = BroadcastDims(self.desc.dims, mask.desc.dims);
  if (!both.ok()) {
    return InvalidArgument("%s: mask has shape %s; allowed: shapes that broadcast with %s, that of self",
                           call.function().api, ToString(mask.desc.dims).c_str(),
                           ToString(self.desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, y, {NumElements(*both)}, "one dim with a place for every element of self and mask"));
  OpCall c = Counted("CountedSelect", BroadcastView(self, *both), y, 0, &out);
  c.inputs.push_back(BroadcastView(mask, *both));
  Take(std::move(c), &out);
  return OkStatus();
}

Status Adapt_Unique(const Call& call, OpCall& out) {
  const std::string_view api = call.function().api;
  const bool consecutive = api == "aclnnUniqueConsecutive", by_dim = api == "aclnnUniqueDim";
  constexpr int64_t kFlattened = 1000;  // the dim that stands for none
  const Operand self = Arg(call, "self"), inverse = Arg(call, "inverseOut");
  Operand y = Arg(call, "valueOut");
  const bool has_counts = call.function().Find("countsOut") >= 0;
  const Operand counts = has_counts ? Arg(call, "countsOut") : Operand();
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  const bool along = by_dim || (consecutive && call.Int("dim") != kFlattened);
  int dim = 0;
  bool flat = false;
  if (along) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
    OPSNN_ASSIGN_OR_RETURN(dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
    Dims want = self.desc.dims;
    // One dim that all slices fit into keeps it, whatever their number.
    flat = y.desc.dims.rank() == 1 && want.rank() > 1 && y.desc.IsContiguous() &&
           NumElements(y.desc.dims) == NumElements(want);
    if (flat) y = Reshaped(y, want);
    OPSNN_RETURN_IF_ERROR(RequireRank(call, y, want.rank(), want.rank()));
    want[dim] = y.desc.dims[dim];
    OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "that of self but along dim"));
  } else {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, y, 1, 1));
  }
  const int64_t slices = along ? self.desc.dims[dim] : NumElements(self.desc.dims);
  if (slices > 0 && y.desc.dims[along ? dim : 0] == 0)
    return BadValue(call, "valueOut", "of shape " + ToString(y.desc.dims), "room for one value or more");
  const bool counted = has_counts && (by_dim || call.Int("returnCounts") != 0);
  OpCall c = Counted("CountedUnique", self, y, along ? dim : 0, &out);
  if (flat) out.sizes.clear();
  if (along) c.attrs.Set("axis", int64_t{dim});
  c.attrs.Set("consecutive", int64_t{consecutive});
  c.outputs.push_back(Operand());
  c.outputs.push_back(Operand());
  if (call.Int("returnInverse") != 0) {
    const Dims want = along ? Dims{self.desc.dims[dim]} : self.desc.dims;
    OPSNN_RETURN_IF_ERROR(RequireShape(call, inverse, want, "a place for every slice of self"));
    c.outputs[2] = WithDType(inverse, DType::kS64);
  }
  if (counted) {
    const int64_t room = y.desc.dims[along ? dim : 0];
    OPSNN_RETURN_IF_ERROR(RequireRank(call, counts, 1, 1));
    if (!flat || counts.desc.dims[0] < room)
      OPSNN_RETURN_IF_ERROR(RequireShape(call, counts, {room}, "as many as valueOut has room for"));
    c.outputs[3] = WithDType(WithView(counts, {room}, StridesOf(counts.desc)), DType::kS64);
    out.sizes.push_back({counts.tensor, 0, c.outputs[1]});
  }
  if (consecutive && inverse.desc.dtype != counts.desc.dtype) {
    return InvalidArgument("%s: countsOut has dtype %s; allowed: %s, that of inverseOut", call.function().api,
                           Name(counts.desc.dtype), Name(inverse.desc.dtype));
  }
  Take(std::move(c), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
