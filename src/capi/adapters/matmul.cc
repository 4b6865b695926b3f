// The products: Matmul, Mm, BatchMatMul and Mv, Addmm, Baddbmm. Operands of two dtypes meet in their common
// one; cubeMathType only permits lower precision, which is never taken.
#include <algorithm>

#include "capi/adapters/common.h"
#include "capi/adapters/tiles.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// Columns of a and rows of b must agree.
Status RequireSameK(const Call& call, const Operand& a, const Operand& b) {
  const Dims &x = a.desc.dims, &y = b.desc.dims;
  const int64_t k = x.back(), rows = y.rank() == 1 ? y[0] : y[y.rank() - 2];
  if (k == rows) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %lld rows, the last dim of %s, whose shape is %s",
                         call.function().api, NameOf(call, b).c_str(), ToString(y).c_str(), ll{k},
                         NameOf(call, a).c_str(), ToString(x).c_str());
}

// a x b in the type in which they and, if given, c meet.
Status BindProduct(const Call& call, Operand a, Operand b, const Operand& y, OpCall* out) {
  OPSNN_RETURN_IF_ERROR(RequireSameK(call, a, b));
  const DType common = op::PromoteTypes(a.desc.dtype, b.desc.dtype);
  OPSNN_RETURN_IF_ERROR(RequireCast(call, common, y));
  out->inputs = {WithDType(a, common), WithDType(b, common)};
  out->outputs = {y};
  out->converts_output = true;
  return OkStatus();
}

// beta * c behind alpha * product, c broadcast to the result. beta = 0 leaves c unread, whatever it holds.
Status AddScaled(const Operand& c, double alpha, double beta, OpCall* out) {
  ProgramBuilder b;
  const SlotId product = b.Input();
  SlotId addend = kNoSlot;
  if (beta != 0) {
    addend = b.Input();
    out->inputs.push_back(c);
    out->tail_inputs = 1;
  }
  SlotId y = alpha == 1 ? product : b.Unary(StageOp::kAffine, product, alpha, 0);
  if (beta != 0) {
    y = b.Binary(StageOp::kAdd, y, beta == 1 ? addend : b.Unary(StageOp::kAffine, addend, beta, 0));
  }
  if (y == product) y = b.Unary(StageOp::kCopy, product);
  b.Output(y);
  out->tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(b).Build()});
  return OkStatus();
}

Status BindProduct(const Call& call, const Operand& a, const Factor& b, const Operand& y, OpCall* out) {
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, b.matrix, y, out));
  if (!b.strips.given()) return OkStatus();
  out->op = op::FindOperator("MatMulNz");
  out->attrs.Set("columns", b.matrix.desc.dims.back());
  out->attrs.Set("transB", int64_t{b.transposed});
  out->inputs[1] = b.strips;
  return OkStatus();
}

Status RequireBroadcast(const Call& call, const Operand& c, const Dims& dims) {
  const auto both = BroadcastDims(c.desc.dims, dims);
  if (both.ok() && *both == dims) return OkStatus();
  return InvalidArgument(
      "%s: %s has shape %s; allowed: shapes that broadcast to %s, the shape of the product",
      call.function().api, NameOf(call, c).c_str(), ToString(c.desc.dims).c_str(), ToString(dims).c_str());
}

// self, the two factors and out of Addmm and Baddbmm, in place or not.
Status BindAddedProduct(const Call& call, const char* left, const char* right, int rank, OpCall* out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const Operand c = Arg(call, {"selfRef", "self"}), y = Arg(call, {"out", "selfRef"});
  const Operand a = Arg(call, left);
  OPSNN_ASSIGN_OR_RETURN(const Factor factor, FactorArg(call, a, right, out));
  const Operand& b = factor.matrix;
  for (const Operand* o : {&a, &b}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, rank, rank));
  if (rank == 3 && a.desc.dims[0] != b.desc.dims[0]) {
    return InvalidArgument("%s: %s has shape %s; allowed: %lld matrices, as %s has", call.function().api,
                           right, ToString(b.desc.dims).c_str(), ll{a.desc.dims[0]}, left);
  }
  out->op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, factor, y, out));
  Dims dims = a.desc.dims;
  dims[rank - 1] = b.desc.dims[rank - 1];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireBroadcast(call, c, dims));
  OPSNN_ASSIGN_OR_RETURN(const double alpha, NumberOf(call, "alpha"));
  OPSNN_ASSIGN_OR_RETURN(const double beta, NumberOf(call, "beta"));
  return AddScaled(c, alpha, beta, out);
}

}  // namespace

Status Adapt_Matmul(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const Operand a = Arg(call, "self");
  OPSNN_ASSIGN_OR_RETURN(const Factor b, FactorArg(call, a, "mat2", &out));
  const std::string_view api = call.function().api;
  const int lowest = api == "aclnnMm" || api == "aclnnMatmulWeightNz"                 ? 2
                     : api == "aclnnBatchMatMul" || api == "aclnnBatchMatMulWeightNz" ? 3
                                                                                      : 1;
  for (const Operand* o : {&a, &b.matrix}) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, lowest, lowest > 1 ? lowest : 6));
  }
  return BindProduct(call, a, b, Arg(call, "out"), &out);
}

Status Adapt_Mv(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const Operand a = Arg(call, "self"), b = Arg(call, "vec"), y = Arg(call, "out");
  // One dtype; that of an empty matrix does not count.
  const bool empty = NumElements(a.desc.dims) == 0;
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, empty ? b.desc.dtype : a.desc.dtype, empty ? "vec" : "self"));
  if (!empty) OPSNN_RETURN_IF_ERROR(RequireDType(call, b, a.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, a, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, b, 1, 1));
  return BindProduct(call, a, b, y, &out);
}

Status Adapt_Addmm(const Call& call, OpCall& out) { return BindAddedProduct(call, "mat1", "mat2", 2, &out); }

// alpha * op(A) op(B) + beta * C, where op may transpose.
Status Adapt_Gemm(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  Operand a = Arg(call, "A"), b = Arg(call, "B");
  const Operand c = Arg(call, "C"), y = Arg(call, "out");
  for (const Operand* o : std::initializer_list<const Operand*>{&a, &b, &c, &y})
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  if (call.Int("transA") != 0) a = Permuted(a, {1, 0});
  if (call.Int("transB") != 0) b = Permuted(b, {1, 0});
  out.op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, b, y, &out));
  const Dims dims = {a.desc.dims[0], b.desc.dims[1]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireBroadcast(call, c, dims));
  return AddScaled(c, call.Double("alpha"), call.Double("beta"), &out);
}

Status Adapt_Addmv(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const Operand c = Arg(call, "self"), a = Arg(call, "mat"), b = Arg(call, "vec"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, a, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, b, 1, 1));
  out.op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, b, y, &out));
  const Dims dims = {a.desc.dims[0]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireBroadcast(call, c, dims));
  OPSNN_ASSIGN_OR_RETURN(const double alpha, NumberOf(call, "alpha"));
  OPSNN_ASSIGN_OR_RETURN(const double beta, NumberOf(call, "beta"));
  return AddScaled(c, alpha, beta, &out);
}

// op(x1 x2 + bias, x3), op being the program behind the product.
Status Adapt_FusedMatmul(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const auto* text = static_cast<const char*>(call.arguments()[call.Index("fusedOpType")].raw.p);
  const std::string_view fused = text ? text : "";
  static constexpr const char* kTypes[] = {"", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu"};
  if (std::find(std::begin(kTypes), std::end(kTypes), fused) == std::end(kTypes)) {
    return BadValue(call, "fusedOpType", "\"" + std::string(fused) + "\"",
                    "\"\", 16cast32, add, mul, gelu_erf, gelu_tanh, relu");
  }
  const Operand a = Arg(call, "x1"), b = Arg(call, "x2"), bias = Arg(call, "bias"), x3 = Arg(call, "x3");
  const Operand y = Arg(call, "y");
  const bool pair = fused == "add" || fused == "mul", gelu = fused.substr(0, 4) == "gelu";
  const int most = fused.empty() || fused == "relu" ? 6 : pair ? 3 : 2;
  for (const Operand* o : {&a, &b}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, most));
  if (pair != x3.given()) {
    return Errorf(pair ? Code::kNull : Code::kInvalid, "%s: x3 is %s; fusedOpType \"%s\" %s",
                  call.function().api, pair ? "null" : "given", std::string(fused).c_str(),
                  pair ? "needs it" : "has no place for it");
  }
  if (gelu && bias.given()) return BadValue(call, "bias", "given", "null, as fusedOpType is gelu");
  if (fused == "16cast32") OPSNN_RETURN_IF_ERROR(RequireDType(call, y, DType::kF32, "16cast32"));
  out.op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, b, y, &out));
  ProgramBuilder p;
  const SlotId product = p.Input();
  SlotId slots[2] = {kNoSlot, kNoSlot};
  int i = 0;
  for (const Operand* o : {&bias, &x3}) {
    if (o->given()) {
      OPSNN_RETURN_IF_ERROR(RequireBroadcast(call, *o, y.desc.dims));
      slots[i] = p.Input();
      out.inputs.push_back(*o);
      ++out.tail_inputs;
    }
    ++i;
  }
  SlotId z = product;
  if (slots[0] != kNoSlot) z = p.Binary(StageOp::kAdd, z, slots[0]);
  if (pair) z = p.Binary(fused == "add" ? StageOp::kAdd : StageOp::kMul, z, slots[1]);
  if (gelu) z = p.Unary(fused == "gelu_erf" ? StageOp::kGeluErf : StageOp::kGeluTanh, z);
  if (fused == "relu") z = p.Unary(StageOp::kRelu, z);
  p.Output(z == product ? p.Unary(StageOp::kCopy, z) : z);
  out.tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(p).Build()});
  return OkStatus();
}

// x wHigh + wLowScale * (x wLow): weights of f32 in two parts of bf16. The sums stay f32 throughout.
Status Adapt_MatmulEmuSplitWeight(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), high = Arg(call, "wHigh"), low = Arg(call, "wLow"), y = Arg(call, "y");
  for (const Operand* o : {&x, &high, &low}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, low, high));
  OPSNN_RETURN_IF_ERROR(RequireSameK(call, x, high));
  for (const Operand* o : {&x, &high}) {
    if (NumElements(o->desc.dims) > 0) continue;
    return InvalidArgument("%s: %s is empty; allowed: one element or more", call.function().api,
                           NameOf(call, *o).c_str());
  }
  constexpr double kScale = 1.0 / 256;
  if (call.Double("wLowScale") != kScale)
    return BadValue(call, "wLowScale", StrFormat("%g", call.Double("wLowScale")), "1 / 256");
  if (call.Int("yDtype") != 0) return BadValue(call, "yDtype", std::to_string(call.Int("yDtype")), "0 (f32)");
  const Dims dims = {x.desc.dims[0], high.desc.dims[1]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the product"));
  const Operand main = out.Temp(DType::kF32, dims);
  out.first.push_back(FloatProduct(x, high, main));
  out.op = op::FindOperator("MatMul");
  out.inputs = {x, low};
  out.outputs = {y};
  return AddScaled(main, kScale, 1, &out);
}

// Batches of products between transposed views; the batch dim may be split in front of the result.
Status Adapt_TransposeBatchMatMul(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  if (call.Given("scale")) {
    return Errorf(Code::kNotImplemented, "%s: quantised results (scale) are not here", call.function().api);
  }
  if (call.Given("bias")) return BadValue(call, "bias", "given", "null");
  const Operand x1 = Arg(call, "x1"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const Operand x2, MatrixArg(call, "x2", &out));
  for (const Operand* o : {&x1, &x2, &y}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  auto permuted = [&](const char* param, const Operand& o, std::vector<int> other) -> Result<Operand> {
    const std::vector<int> same = {0, 1, 2};
    const std::vector<int64_t>& v = call.Ints(param);
    const std::vector<int> order(v.begin(), v.end());
    if (order == same || order == other) return Permuted(o, order);
    return BadValue(call, param,
                    ToString(Dims(std::span<const int64_t>(v.data(), std::min<size_t>(v.size(), kMaxRank)))),
                    "[0,1,2] or " + ToString(Dims{other[0], other[1], other[2]}));
  };
  OPSNN_ASSIGN_OR_RETURN(const Operand a, permuted("permX1", x1, {1, 0, 2}));
  OPSNN_ASSIGN_OR_RETURN(const Operand b, permuted("permX2", x2, {0, 2, 1}));
  if (call.Ints("permY") != std::vector<int64_t>{1, 0, 2})
    return BadValue(call, "permY", "another", "[1,0,2]");
  const int64_t batch = a.desc.dims[0], m = a.desc.dims[1], n = b.desc.dims[2],
                split = call.Int("batchSplitFactor");
  if (b.desc.dims[0] != batch) {
    return InvalidArgument("%s: x2 has %lld matrices; allowed: %lld, as x1 has", call.function().api,
                           ll{b.desc.dims[0]}, ll{batch});
  }
  if (split < 1 || batch % split != 0) {
    return BadValue(call, "batchSplitFactor", std::to_string(split),
                    StrFormat("divisors of %lld, the batch", ll{batch}));
  }
  out.op = op::FindOperator("MatMul");
  const int64_t each = batch / split;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, split == 1 ? Dims{m, batch, n} : Dims{split, m, each * n},
                                     "the shape of the result"));
  auto parts = [&](const Operand& o) {  // the batch as [split, each]
    Dims dims = o.desc.dims, strides = StridesOf(o.desc);
    dims.erase(0), strides.insert(0, strides[0] * each);
    dims.insert(0, each), dims.insert(0, split);
    return WithView(o, dims, strides);
  };
  const Dims st = StridesOf(y.desc);
  const Operand to = split == 1 ? WithView(y, {1, batch, m, n}, {0, st[1], st[0], st[2]})
                                : WithView(y, {split, each, m, n}, {st[0], n * st[2], st[1], st[2]});
  return BindProduct(call, parts(a), parts(b), to, &out);
}

// The products of all matrices summed up: one product of the matrices side by side.
Status Adapt_Addbmm(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 4));
  const Operand c = Arg(call, {"selfRef", "self"}), y = Arg(call, {"out", "selfRef"});
  const Operand a = Arg(call, "batch1"), b = Arg(call, "batch2");
  for (const Operand* o : {&a, &b}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  if (a.desc.dims[0] != b.desc.dims[0]) {
    return InvalidArgument("%s: batch2 has shape %s; allowed: %lld matrices, as batch1 has",
                           call.function().api, ToString(b.desc.dims).c_str(), ll{a.desc.dims[0]});
  }
  OPSNN_RETURN_IF_ERROR(RequireSameK(call, a, b));
  const int64_t batch = a.desc.dims[0], m = a.desc.dims[1], k = a.desc.dims[2], n = b.desc.dims[2];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireBroadcast(call, c, {m, n}));
  // [m, batch * k] needs a copy; [batch * k, n] is batch2 as it lies.
  const Operand wide = out.Temp(a.desc.dtype, {m, batch, k});
  out.first.push_back(CallOf("Identity", {Permuted(a, {1, 0, 2})}, {wide}));
  const Operand tall = Contiguously(b, &out);
  out.op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(
      BindProduct(call, Reshaped(wide, {m, batch * k}), Reshaped(tall, {batch * k, n}), y, &out));
  OPSNN_ASSIGN_OR_RETURN(const double alpha, NumberOf(call, "alpha"));
  OPSNN_ASSIGN_OR_RETURN(const double beta, NumberOf(call, "beta"));
  return AddScaled(c, alpha, beta, &out);
}

Status Adapt_Einsum(const Call& call, OpCall& out) {
  const int list = call.Index("tensors");
  const Argument& a = call.arguments()[list];
  if (a.num_tensors < 1) return BadValue(call, "tensors", "an empty list", "one tensor or more");
  out.op = op::FindOperator("Einsum");
  for (int t = a.first_tensor; t < a.first_tensor + a.num_tensors; ++t)
    out.inputs.push_back({t, call.Desc(t)});
  const auto* text = static_cast<const char*>(call.arguments()[call.Index("equation")].raw.p);
  out.attrs.Set("equation", std::string(text ? text : ""));
  out.outputs = {Arg(call, "output")};
  return OkStatus();
}

Status Adapt_Baddbmm(const Call& call, OpCall& out) {
  return BindAddedProduct(call, "batch1", "batch2", 3, &out);
}

}  // namespace opsnn::capi
