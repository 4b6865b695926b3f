// Reading and writing along one dim: GatherV2, IndexSelect, IndexFillTensor, IndexCopy, RepeatInterleaveInt.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

using ll = long long;

OpCall GatherCall(const Operand& x, const Operand& index, int dim, const Operand& y) {
  OpCall c;
  c.op = op::FindOperator("Gather");
  c.attrs.Set("axis", int64_t{dim});
  c.inputs = {x, index};
  c.outputs = {y};
  return c;
}

}  // namespace

Status Adapt_Gather(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  Operand index = Arg(call, "index");
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  const bool select = std::string_view(call.function().api) == "aclnnIndexSelect";
  if (select) OPSNN_RETURN_IF_ERROR(RequireRank(call, index, 0, 1));
  // An index without dims selects one slice; the dim stays where the output has it.
  if (select || y.desc.dims.rank() == rank) index = AtLeast1d(index);
  // A self without dims is one element; a result of one element may lack the dim as well.
  if (rank == 0 && y.desc.dims.rank() == 0) {
    if (NumElements(index.desc.dims) != 1) {
      return InvalidArgument("%s: index has shape %s; allowed: one element, as self has no dims",
                             call.function().api, ToString(index.desc.dims).c_str());
    }
    out = GatherCall(AtLeast1d(self), AtLeast1d(index), dim, AtLeast1d(y));
  } else {
    out = GatherCall(AtLeast1d(self), index, dim, y);
  }
  return OkStatus();
}

Status Adapt_IndexFill(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, {"selfRef", "self"}));
  const Operand y = Arg(call, {"out", "selfRef"});
  const Dims& dims = self.desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, Arg(call, {"selfRef", "self"})));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const Operand value, ConstantScalar(call, "value", self.desc.dtype));
  // A mask over the dim chooses between the value and what is there.
  Dims mask_dims = Dims::Filled(dims.rank(), 1);
  mask_dims[dim] = dims[dim];
  OPSNN_ASSIGN_OR_RETURN(const auto mask, NewConstant(call, DType::kBool, mask_dims));
  auto* bits = static_cast<uint8_t*>(mask->data());
  std::fill(bits, bits + mask->size(), uint8_t{0});
  const bool empty = NumElements(dims) == 0;  // nothing to fill, whatever the index says
  for (int64_t i : empty ? std::vector<int64_t>() : call.Ints("index")) {
    if (i < -dims[dim] || i >= dims[dim]) {
      return BadValue(call, "index", "a list with " + std::to_string(i),
                      StrFormat("%lld to %lld, positions in dim %d", -ll{dims[dim]}, ll{dims[dim]} - 1, dim));
    }
    bits[i < 0 ? i + dims[dim] : i] = 1;
  }
  out.op = op::FindOperator("Where");
  out.inputs = {Constant(mask), value, self};
  out.outputs = {AtLeast1d(y)};
  return OkStatus();
}

Status Adapt_MaskedFill(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), mask = Arg(call, "mask");
  const auto both = BroadcastDims(self.desc.dims, mask.desc.dims);
  if (!both.ok() || !(*both == self.desc.dims)) {
    return InvalidArgument("%s: mask has shape %s; allowed: shapes that broadcast to %s, that of selfRef",
                           call.function().api, ToString(mask.desc.dims).c_str(),
                           ToString(self.desc.dims).c_str());
  }
  Operand value;
  if (call.function().params[call.Index("value")].kind == ParamKind::kScalar) {
    OPSNN_ASSIGN_OR_RETURN(value, ConstantScalar(call, "value", self.desc.dtype));
  } else {
    value = WithDType(Arg(call, "value"), self.desc.dtype);
    if (NumElements(value.desc.dims) != 1)
      return BadValue(call, "value", "of shape " + ToString(value.desc.dims), "one element");
    value = WithView(value, Dims(), Dims());
  }
  Take(CallOf("Where", {mask, value, self}, {self}), &out);
  return OkStatus();
}

Status Adapt_IndexCopy(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const Operand self = AtLeast1d(Arg(call, "selfRef")), y = AtLeast1d(Arg(call, {"outRef", "selfRef"}));
  const Operand index = AtLeast1d(Arg(call, "index")), source = AtLeast1d(Arg(call, "source"));
  const int rank = self.desc.dims.rank();
  for (const Operand* o : {&source, &y}) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, self.desc.dtype, "selfRef"));
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, index, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, source, rank, rank));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  const int64_t count = index.desc.dims[0];
  Dims want = self.desc.dims;
  want[dim] = count;
  if (!(source.desc.dims == want)) {
    return InvalidArgument("%s: source has shape %s; allowed: %s, that of selfRef with one slice per index",
                           api, ToString(source.desc.dims).c_str(), ToString(want).c_str());
  }
  const std::vector<int> order = MoveToFront(dim, rank);
  const Dims tuples = {count, 1}, strides = {StridesOf(index.desc)[0], 1};
  out.op = op::FindOperator("ScatterND");
  out.inputs = {Permuted(self, order), WithView(index, tuples, strides), Permuted(source, order)};
  out.outputs = {Permuted(y, order)};
  out.in_place = true;
  return OkStatus();
}

Status Adapt_RepeatInterleave(const Call& call, OpCall& out) {
  const bool with_dim = call.function().Find("dim") >= 0;
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const int64_t repeats = call.Int("repeats");
  if (repeats < 0) return BadValue(call, "repeats", std::to_string(repeats), "0 or more");
  if (with_dim) OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  int dim = 0;
  if (with_dim) {
    OPSNN_ASSIGN_OR_RETURN(dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  }
  const int64_t size = with_dim ? self.desc.dims[dim] : NumElements(self.desc.dims);
  int64_t total;
  const bool wrong = __builtin_mul_overflow(size, repeats, &total) || call.Int("outputSize") != total;
  if (wrong && NumElements(self.desc.dims) > 0) {
    return BadValue(call, "outputSize", std::to_string(call.Int("outputSize")),
                    StrFormat("%lld x %lld, repeats times the elements of self%s", ll{repeats}, ll{size},
                              with_dim ? " along dim" : ""));
  }
  Dims want = with_dim ? self.desc.dims : Dims{total};
  want[dim] = total;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "with every element repeated"));

  // One more dim, of stride 0 on the way in, that is part of `dim` on the way out.
  Operand from = self;
  if (!with_dim) {  // flattened
    if (!self.desc.IsContiguous()) {
      from = out.Temp(self.desc.dtype, self.desc.dims);
      OpCall copy;
      copy.op = op::FindOperator("Identity");
      copy.inputs = {self};
      copy.outputs = {from};
      out.first.push_back(std::move(copy));
    }
    from = Reshaped(from, {size});
  }
  if (from.desc.dims.rank() == kMaxRank) {
    OPSNN_ASSIGN_OR_RETURN(const auto index, NewConstant(call, DType::kS64, {total}));
    for (int64_t i = 0; i < total; ++i) index->as<int64_t>()[i] = i / repeats;
    out = GatherCall(from, Constant(index), dim, y);
    return OkStatus();
  }
  Dims dims = from.desc.dims, in = StridesOf(from.desc), result = StridesOf(y.desc);
  const int64_t step = result[dim];
  dims.insert(dim + 1, repeats);
  in.insert(dim + 1, 0);
  result[dim] = step * repeats;
  result.insert(dim + 1, step);
  out.op = op::FindOperator("Identity");
  out.inputs = {WithView(from, dims, in)};
  out.outputs = {WithView(y, dims, result)};
  return OkStatus();
}

}  // namespace opsnn::capi
