#include "capi/adapters/common.h"

#include <cstring>

#include "runtime/memory.h"
#include "tensor/element.h"

namespace opsnn::capi {
namespace {

using ll = long long;

}  // namespace

Operand Arg(const Call& call, const char* param) {
  const int t = call.TensorIndex(param);
  return t < 0 ? Operand{} : Operand{t, call.Desc(t)};
}

std::vector<Operand> Members(const Call& call, const char* param) {
  const Argument& a = call.arguments()[call.Index(param)];
  std::vector<Operand> members;
  for (int t = a.first_tensor; a.given && t < a.first_tensor + a.num_tensors; ++t)
    members.push_back({t, call.Desc(t)});
  return members;
}

const char* FirstOf(const Call& call, std::initializer_list<const char*> params) {
  for (const char* p : params) {
    if (call.function().Find(p) >= 0) return p;
  }
  return *params.begin();
}

Operand Arg(const Call& call, std::initializer_list<const char*> params) {
  return Arg(call, FirstOf(call, params));
}

Result<std::shared_ptr<HostTensor>> NewConstant(const Call& call, DType dtype, const Dims& dims) {
  const auto elements = CheckedNumElements(dims);
  if (elements && static_cast<size_t>(*elements) <= runtime::MemoryLimit() / SizeOf(dtype)) {
    auto t = std::make_shared<HostTensor>(dtype, dims);
    if (t->ok()) return t;
  }
  return Errorf(Code::kRuntime, "%s: no memory for a constant of shape %s and dtype %s", call.function().api,
                ToString(dims).c_str(), Name(dtype));
}

Status RequireRoom(const Call& call, int64_t values, size_t bytes_each) {
  constexpr size_t kRoom = size_t{256} << 20;
  const auto most = static_cast<int64_t>(kRoom / bytes_each);
  if (values <= most) return OkStatus();
  return Errorf(Code::kNotImplemented,
                "%s: its shapes ask for %lld positions in the plan; supported: at most %lld",
                call.function().api, static_cast<long long>(values), static_cast<long long>(most));
}

Operand Constant(ConstTensor t) {
  Operand o;
  o.desc.dtype = t->dtype();
  o.desc.dims = t->dims();
  o.desc.constant = std::move(t);
  return o;
}

Operand ConstantInts(const std::vector<int64_t>& values) {
  return Constant(HostTensor::From<int64_t>({static_cast<int64_t>(values.size())}, values));
}

Operand ConstantInt(int64_t value) { return ConstantInts({value}); }

Operand ConstantFloat(double value, DType dtype) {
  auto t = std::make_shared<HostTensor>(dtype, Dims());
  WriteElement(t->data(), dtype, value);
  return Constant(std::move(t));
}

namespace {

Result<double> NumberIn(const Call& call, const char* param, const Scalar& s) {
  if (const auto v = s.ToDouble()) return *v;
  return BadValue(call, param, "a scalar of type " + AclTypeName(s.acl_dtype), "a real number");
}

}  // namespace

Result<double> NumberOf(const Call& call, const char* param) {
  return NumberIn(call, param, call.ScalarOf(param));
}

Result<Operand> ConstantFrom(const Call& call, const char* param, const Scalar& s, DType dtype) {
  OPSNN_ASSIGN_OR_RETURN(const double value, NumberIn(call, param, s));
  const auto own = DTypeFromAcl(s.acl_dtype);
  if (IsFloat(dtype) || (own && IsFloat(*own))) return ConstantFloat(value, dtype);
  auto t = std::make_shared<HostTensor>(dtype, Dims());
  const int64_t v = dtype == DType::kBool ? value != 0 : *s.ToInt();
  std::memcpy(t->data(), &v, SizeOf(dtype));  // narrower types take the low bytes, as a C cast does
  return Constant(std::move(t));
}

Result<Operand> ConstantScalar(const Call& call, const char* param, DType dtype) {
  return ConstantFrom(call, param, call.ScalarOf(param), dtype);
}

Dims StridesOf(const op::TensorDesc& d) { return d.strides.empty() ? ContiguousStrides(d.dims) : d.strides; }

Operand WithView(Operand o, const Dims& dims, const Dims& strides) {
  o.desc.dims = dims;
  o.desc.strides = TensorView{nullptr, o.desc.dtype, dims, strides}.IsContiguous() ? Dims() : strides;
  return o;
}

Operand Permuted(const Operand& o, const std::vector<int>& order) {
  const Dims from = StridesOf(o.desc);
  Dims dims, strides;
  for (int i : order) {
    dims.push_back(o.desc.dims[i]);
    strides.push_back(from[i]);
  }
  return WithView(o, dims, strides);
}

Operand Reshaped(Operand o, const Dims& dims) {
  o.desc.dims = dims;
  o.desc.strides = Dims();
  return o;
}

Operand BroadcastView(const Operand& o, const Dims& dims) {
  const TensorView v = BroadcastTo(o.desc.View(nullptr), dims);
  return WithView(o, v.dims, v.strides);
}

Operand WithDType(Operand o, DType t) {
  o.desc.dtype = t;
  return o;
}

Operand AsTuples(const Operand& index) {
  Dims dims = index.desc.dims, strides = StridesOf(index.desc);
  dims.push_back(1), strides.push_back(1);
  return WithView(index, dims, strides);
}

std::vector<int> MoveToFront(int dim, int rank) {
  std::vector<int> order = {dim};
  for (int i = 0; i < rank; ++i) {
    if (i != dim) order.push_back(i);
  }
  return order;
}

Operand AtLeast1d(const Operand& o) { return o.desc.dims.rank() ? o : WithView(o, {1}, {1}); }

Status BadValue(const Call& call, const char* param, const std::string& got, const std::string& allowed) {
  return InvalidArgument("%s: %s is %s; allowed: %s", call.function().api, param, got.c_str(),
                         allowed.c_str());
}

std::string NameOf(const Call& call, const Operand& o) {
  return o.tensor < 0 ? std::string("an operand") : call.NameOf(o.tensor);
}

Result<int> DimOf(const Call& call, const char* param, int64_t dim, int rank) {
  const int64_t r = rank > 0 ? rank : 1;
  if (dim >= -r && dim < r) return static_cast<int>(dim < 0 ? dim + r : dim);
  return BadValue(call, param, std::to_string(dim), StrFormat("%lld to %lld", -ll{r}, ll{r} - 1));
}

Result<std::vector<int64_t>> DimsOf(const Call& call, const char* param, int rank) {
  std::vector<int64_t> dims;
  std::vector<bool> seen(rank > 0 ? rank : 1, false);
  for (int64_t d : call.Ints(param)) {
    OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, param, d, rank));
    if (seen[dim]) {
      return InvalidArgument("%s: %s names dim %d twice; allowed: each dim once", call.function().api, param,
                             dim);
    }
    seen[dim] = true;
    dims.push_back(dim);
  }
  return dims;
}

Status RequireRank(const Call& call, const Operand& o, int lowest, int highest) {
  const int rank = o.desc.dims.rank();
  if (rank >= lowest && rank <= highest) return OkStatus();
  const std::string allowed =
      lowest == highest ? std::to_string(lowest) : StrFormat("%d to %d", lowest, highest);
  return InvalidArgument("%s: %s has %d dims; allowed: %s", call.function().api, NameOf(call, o).c_str(),
                         rank, allowed.c_str());
}

Status RequireDType(const Call& call, const Operand& o, DType want, const char* whose) {
  if (!o.given() || o.desc.dtype == want) return OkStatus();
  return InvalidArgument("%s: %s has dtype %s; allowed: %s, the dtype of %s", call.function().api,
                         NameOf(call, o).c_str(), Name(o.desc.dtype), Name(want), whose);
}

Status RequireShape(const Call& call, const Operand& o, const Dims& want, const char* why) {
  if (!o.given() || o.desc.dims == want) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %s, %s", call.function().api, NameOf(call, o).c_str(),
                         ToString(o.desc.dims).c_str(), ToString(want).c_str(), why);
}

Status RequireSameShape(const Call& call, const Operand& o, const Operand& other) {
  const std::string why = "the shape of " + NameOf(call, other);
  return RequireShape(call, o, other.desc.dims, why.c_str());
}

Status RequireLike(const Call& call, const Operand& o, const Operand& like) {
  if (!o.given()) return OkStatus();
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, o, like));
  return RequireDType(call, o, like.desc.dtype, NameOf(call, like).c_str());
}

Result<int> LastDims(const Call& call, const Operand& x, const Dims& part, const char* whose) {
  const int lead = x.desc.dims.rank() - part.rank();
  bool same = lead >= 0 && part.rank() > 0;
  for (int i = 0; same && i < part.rank(); ++i) same = part[i] == x.desc.dims[lead + i];
  if (same) return part.rank();
  return InvalidArgument("%s: %s has shape %s; allowed: the last dims of %s, whose shape is %s",
                         call.function().api, whose, ToString(part).c_str(), NameOf(call, x).c_str(),
                         ToString(x.desc.dims).c_str());
}

Result<std::vector<int64_t>> PerAxis(const Call& call, const char* param, size_t axes, int64_t lowest,
                                     const std::vector<int64_t>* fallback) {
  std::vector<int64_t> v = call.Ints(param);
  if (v.empty() && fallback) return *fallback;
  if (v.size() != 1 && v.size() != axes) {
    return InvalidArgument("%s: %s has %zu values; allowed: %s1 or %zu", call.function().api, param, v.size(),
                           fallback ? "0, " : "", axes);
  }
  for (int64_t k : v) {
    constexpr int64_t kMost = int64_t{1} << 30;  // what the windows of the operators take
    if (k >= lowest && k <= kMost) continue;
    return BadValue(call, param, "a list with " + std::to_string(k),
                    StrFormat("%lld to %lld", ll{lowest}, ll{kMost}));
  }
  v.resize(axes, v[0]);
  return v;
}

Status RequireIndex(const Call& call, const Operand& index) {
  if (index.desc.dtype == DType::kS64 || index.desc.dtype == DType::kS32) return OkStatus();
  return InvalidArgument("%s: %s has dtype %s; allowed: s64, s32", call.function().api,
                         NameOf(call, index).c_str(), Name(index.desc.dtype));
}

Status RequireCast(const Call& call, DType from, const Operand& out) {
  if (CanCast(from, out.desc.dtype)) return OkStatus();
  return InvalidArgument("%s: %s has dtype %s; allowed: types that %s, the dtype of the result, casts to",
                         call.function().api, NameOf(call, out).c_str(), Name(out.desc.dtype), Name(from));
}

Result<DType> DTypeParam(const Call& call, const char* param) {
  const int acl = static_cast<int>(call.Int(param));
  if (const auto t = DTypeFromAcl(acl)) return *t;
  return BadValue(call, param, AclTypeName(acl), op::ToString(op::DTypeMask{(1 << kNumDTypes) - 1}));
}

std::string TextOf(const Call& call, const char* param, const char* fallback) {
  const auto* text = static_cast<const char*>(call.arguments()[call.Index(param)].raw.p);
  return text ? text : fallback;
}

Status RequireCubeMathType(const Call& call, int64_t highest) {
  const int64_t math = call.Int("cubeMathType");
  if (math >= 0 && math <= highest) return OkStatus();
  return BadValue(call, "cubeMathType", std::to_string(math), StrFormat("0 to %lld", ll{highest}));
}

OpCall ProgramCall(Program program, std::vector<Operand> inputs, std::vector<Operand> outputs, int row_rank) {
  OpCall c;
  c.op = op::FindOperator("Program");
  c.inputs = std::move(inputs);
  c.outputs = std::move(outputs);
  if (row_rank > 0) c.attrs.Set("row_rank", int64_t{row_rank});
  c.tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(program)});
  return c;
}

OpCall CallOf(const char* op, std::vector<Operand> inputs, std::vector<Operand> outputs) {
  OpCall c;
  c.op = op::FindOperator(op);
  c.inputs = std::move(inputs);
  c.outputs = std::move(outputs);
  return c;
}

OpCall Along(const char* op, int axis, std::vector<Operand> inputs, const Operand& y) {
  OpCall call = CallOf(op, std::move(inputs), {y});
  call.attrs.Set("axis", int64_t{axis});
  return call;
}

Operand Contiguously(const Operand& o, OpCall* out) {
  if (o.desc.IsContiguous()) return o;
  const Operand t = out->Temp(o.desc.dtype, o.desc.dims);
  out->first.push_back(CallOf("Identity", {o}, {t}));
  return t;
}

Status TakeAll(std::vector<OpCall> calls, OpCall* out) {
  OpCall last = std::move(calls.back());
  calls.pop_back();
  for (OpCall& c : calls) out->first.push_back(std::move(c));
  Take(std::move(last), out);
  return OkStatus();
}

void Take(OpCall call, OpCall* out) {
  out->op = call.op;
  out->attrs = std::move(call.attrs);
  out->inputs = std::move(call.inputs);
  out->outputs = std::move(call.outputs);
  out->tail = std::move(call.tail);
  out->converts_output = call.converts_output;
  out->in_place = call.in_place;
}

}  // namespace opsnn::capi
