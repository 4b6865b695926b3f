// Data movement: Permute, Slice, Cat, Repeat, pads, Tril and Triu, fills and copies, Roll, Im2col.
#include <algorithm>

#include "acl/acl_base.h"
#include "capi/adapters/common.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

using ll = long long;

Status Bind(const char* op, std::vector<Operand> inputs, const Operand& y, OpCall* out) {
  out->op = op::FindOperator(op);
  out->inputs = std::move(inputs);
  out->outputs = {y};
  return OkStatus();
}

}  // namespace

Status Adapt_Permute(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, DimsOf(call, "dims", rank));
  if (static_cast<int>(perm.size()) != rank) {
    return InvalidArgument("%s: dims has %zu values; allowed: %d, one per dim of self", call.function().api,
                           perm.size(), rank);
  }
  if (rank == 0) return Bind("Identity", {self}, y, &out);
  out.attrs.Set("perm", perm);
  return Bind("Transpose", {self}, y, &out);
}

Status Adapt_Slice(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  const int64_t step = call.Int("step");
  if (step <= 0) return BadValue(call, "step", std::to_string(step), "1 or more");
  return Bind("Slice",
              {self, ConstantInt(call.Int("start")), ConstantInt(call.Int("end")), ConstantInt(dim),
               ConstantInt(step)},
              y, &out);
}

Status Adapt_Cat(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const Argument& list = call.arguments()[call.Index("tensors")];
  const Operand y = Arg(call, "out");
  std::vector<Operand> members;
  std::vector<DType> types;
  for (int t = list.first_tensor; t < list.first_tensor + list.num_tensors; ++t) {
    const Operand o{t, call.Desc(t)};
    types.push_back(o.desc.dtype);
    // One dim of size 0 stands for nothing, whatever the others' shape.
    if (!(o.desc.dims == Dims{0})) members.push_back(o);
  }
  if (types.empty()) return InvalidArgument("%s: tensors is an empty list; allowed: one tensor or more", api);
  const DType common = op::PromoteTypes(types);
  OPSNN_RETURN_IF_ERROR(RequireCast(call, common, y));
  if (members.empty()) members.push_back({list.first_tensor, call.Desc(list.first_tensor)});
  const Dims& first = members[0].desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, members[0], 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), first.rank()));
  Dims want = first;
  want[dim] = 0;
  for (Operand& o : members) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, o, first.rank(), first.rank()));
    Dims other = o.desc.dims;
    want[dim] += other[dim];
    other[dim] = first[dim];
    if (!(other == first)) {
      return InvalidArgument("%s: %s has shape %s; allowed: %s except along dim %d", api,
                             NameOf(call, o).c_str(), ToString(o.desc.dims).c_str(), ToString(first).c_str(),
                             dim);
    }
    o = WithDType(o, common);
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "all tensors one after the other"));
  out.attrs.Set("axis", int64_t{dim});
  return Bind("Concat", std::move(members), WithDType(y, common), &out);
}

Status Adapt_Repeat(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const std::vector<int64_t>& repeats = call.Ints("repeats");
  const int rank = self.desc.dims.rank(), count = static_cast<int>(repeats.size());
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  if (count < rank || count > kMaxRank) {
    return InvalidArgument("%s: repeats has %d values; allowed: %d to %d", call.function().api, count, rank,
                           kMaxRank);
  }
  for (int64_t r : repeats) {
    if (r < 0) return BadValue(call, "repeats", "a list with " + std::to_string(r), "0 or more");
  }
  if (count == 0) return Bind("Identity", {self}, y, &out);
  Dims dims = self.desc.dims, strides = StridesOf(self.desc);
  while (dims.rank() < count) dims.insert(0, 1), strides.insert(0, 0);
  return Bind("Tile", {WithView(self, dims, strides), ConstantInts(repeats)}, y, &out);
}

Status Adapt_ReflectionPad1d(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const std::vector<int64_t>& pads = call.Ints("padding");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 2, 3));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  const Dims& dims = self.desc.dims;
  if (pads.size() != 2) {
    return InvalidArgument("%s: padding has %zu values; allowed: 2", call.function().api, pads.size());
  }
  for (int64_t p : pads) {
    if (p >= dims.back()) {
      return BadValue(call, "padding", "a list with " + std::to_string(p),
                      StrFormat("less than %lld, the size of the last dim", ll{dims.back()}));
    }
  }
  for (int i = dims.rank() == 2 ? 0 : 1; i < dims.rank(); ++i) {
    if (dims[i] == 0) {
      return InvalidArgument("%s: self has shape %s; allowed: only the first of three dims may be empty",
                             call.function().api, ToString(dims).c_str());
    }
  }
  out.attrs.Set("mode", std::string("reflect"));
  return Bind("Pad", {self, ConstantInts(pads), Operand{}, ConstantInt(dims.rank() - 1)}, y, &out);
}

Status Adapt_ConstantPad(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const std::vector<int64_t>& pads = call.Ints("pad");
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  if (pads.size() % 2 != 0 || static_cast<int>(pads.size()) > 2 * rank) {
    return InvalidArgument("%s: pad has %zu values; allowed: an even number up to %d", call.function().api,
                           pads.size(), 2 * rank);
  }
  const bool grows = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p > 0; });
  if (grows && NumElements(y.desc.dims) == 0) {
    return InvalidArgument("%s: out has shape %s; allowed where a pad is above 0: sizes of 1 or more",
                           call.function().api, ToString(y.desc.dims).c_str());
  }
  const int self_format = call.tensors()[self.tensor].object->format;
  if (self_format != ACL_FORMAT_ND && self_format != call.tensors()[y.tensor].object->format) {
    return InvalidArgument("%s: out has format %d; allowed: %d, the format of self", call.function().api,
                           call.tensors()[y.tensor].object->format, self_format);
  }
  OPSNN_ASSIGN_OR_RETURN(const Operand value, ConstantScalar(call, "value", self.desc.dtype));
  if (rank == 0) return Bind("Identity", {self}, y, &out);
  // The list starts with the last dim, two values each.
  std::vector<int64_t> all(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    all[static_cast<size_t>(rank) - 1 - i] = pads[2 * i];
    all[static_cast<size_t>(2 * rank) - 1 - i] = pads[2 * i + 1];
  }
  return Bind("Pad", {self, ConstantInts(all), value}, y, &out);
}

Status Adapt_Triangle(const Call& call, OpCall& out) {
  const Operand self = Arg(call, {"selfRef", "self"}), y = Arg(call, {"out", "selfRef"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  const std::string_view api = call.function().api;
  out.attrs.Set("upper", int64_t{api.find("Triu") != api.npos});
  return Bind("Trilu", {self, ConstantInt(call.Int("diagonal"))}, y, &out);
}

Status Adapt_Fill(const Call& call, OpCall& out) {
  const Operand y = Arg(call, "selfRef");
  const bool zero = call.function().Find("value") < 0;
  Operand value = ConstantFloat(0, y.desc.dtype);
  if (!zero) {
    OPSNN_ASSIGN_OR_RETURN(value, ConstantScalar(call, "value", y.desc.dtype));
  }
  return Bind("Identity", {BroadcastView(value, y.desc.dims)}, y, &out);
}

Status Adapt_Copy(const Call& call, OpCall& out) {
  const Operand y = Arg(call, "selfRef");
  Operand src = Arg(call, "src");
  const auto both = BroadcastDims(src.desc.dims, y.desc.dims);
  if (!both.ok() || !(*both == y.desc.dims)) {
    return InvalidArgument("%s: src has shape %s; allowed: shapes that broadcast to %s, that of selfRef",
                           call.function().api, ToString(src.desc.dims).c_str(),
                           ToString(y.desc.dims).c_str());
  }
  src = BroadcastView(src, y.desc.dims);
  if (src.desc.dtype == y.desc.dtype) return Bind("Identity", {src}, y, &out);
  out.attrs.Set("to", int64_t{Info(y.desc.dtype).onnx});
  return Bind("Cast", {src}, y, &out);
}

Status Adapt_Roll(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "out");
  const std::vector<int64_t>& shifts = call.Ints("shifts");
  const int rank = x.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "x"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  std::vector<int64_t> dims;
  for (int64_t d : call.Ints("dims")) {
    OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dims", d, rank));
    dims.push_back(dim);
  }
  const size_t want = dims.empty() ? 1 : dims.size();
  if (shifts.size() != want) {
    return InvalidArgument("%s: shifts has %zu values; allowed: %zu, %s", call.function().api, shifts.size(),
                           want, dims.empty() ? "as dims is empty" : "one per value of dims");
  }
  if (!dims.empty() || rank <= 1) {
    out.attrs.Set("shifts", shifts);
    out.attrs.Set("dims", dims.empty() ? std::vector<int64_t>{0} : dims);
    return Bind("Roll", {AtLeast1d(x)}, AtLeast1d(y), &out);
  }
  // Without dims the elements move in their row-major order.
  const Dims flat = {NumElements(x.desc.dims)};
  Operand from = x, to = y;
  if (!x.desc.IsContiguous()) {
    from = out.Temp(x.desc.dtype, x.desc.dims);
    OpCall copy;
    OPSNN_RETURN_IF_ERROR(Bind("Identity", {x}, from, &copy));
    out.first.push_back(std::move(copy));
  }
  if (!y.desc.IsContiguous()) to = out.Temp(x.desc.dtype, x.desc.dims);
  OpCall roll;
  roll.attrs.Set("shifts", shifts);
  roll.attrs.Set("dims", std::vector<int64_t>{0});
  OPSNN_RETURN_IF_ERROR(Bind("Roll", {Reshaped(from, flat)}, Reshaped(to, flat), &roll));
  if (to.temp >= 0) {
    out.first.push_back(std::move(roll));
    return Bind("Identity", {to}, y, &out);
  }
  out.attrs = roll.attrs;
  return Bind("Roll", roll.inputs, roll.outputs[0], &out);
}

Status Adapt_Im2col(const Call& call, OpCall& out) {
  Operand x = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 3, 4));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "self"));
  for (const char* param : {"kernelSize", "dilation", "padding", "stride"}) {
    const std::vector<int64_t>& v = call.Ints(param);
    const int64_t lowest = std::string_view(param) == "padding" ? 0 : 1;
    if (v.size() != 2) {
      return InvalidArgument("%s: %s has %zu values; allowed: 2", call.function().api, param, v.size());
    }
    for (int64_t k : v) {
      if (k < lowest || k > INT32_MAX) {
        return BadValue(call, param, "a list with " + std::to_string(k),
                        StrFormat("%lld to 2^31 - 1", ll{lowest}));
      }
    }
    out.attrs.Set(std::string_view(param) == "kernelSize" ? "kernel_size" : param, v);
  }
  if (x.desc.dims.rank() == 3) {  // one image
    auto with_batch = [](Operand o) {
      Dims dims = o.desc.dims, strides = StridesOf(o.desc);
      dims.insert(0, 1), strides.insert(0, 0);
      return WithView(o, dims, strides);
    };
    OPSNN_RETURN_IF_ERROR(RequireRank(call, y, 2, 2));
    x = with_batch(x), y = with_batch(y);
  }
  return Bind("Im2Col", {x}, y, &out);
}

}  // namespace opsnn::capi
