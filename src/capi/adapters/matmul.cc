// The products: Matmul, Mm, BatchMatMul and Mv, Addmm, Baddbmm. Operands of two dtypes meet in their common
// one; cubeMathType only permits lower precision, which is never taken.
#include "capi/adapters/common.h"
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
  const Operand a = Arg(call, left), b = Arg(call, right);
  for (const Operand* o : {&a, &b}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, rank, rank));
  if (rank == 3 && a.desc.dims[0] != b.desc.dims[0]) {
    return InvalidArgument("%s: %s has shape %s; allowed: %lld matrices, as %s has", call.function().api,
                           right, ToString(b.desc.dims).c_str(), ll{a.desc.dims[0]}, left);
  }
  out->op = op::FindOperator("MatMul");
  OPSNN_RETURN_IF_ERROR(BindProduct(call, a, b, y, out));
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
  const Operand a = Arg(call, "self"), b = Arg(call, "mat2");
  const std::string_view api = call.function().api;
  const int lowest = api == "aclnnMm" ? 2 : api == "aclnnBatchMatMul" ? 3 : 1;
  for (const Operand* o : {&a, &b}) {
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

Status Adapt_Baddbmm(const Call& call, OpCall& out) {
  return BindAddedProduct(call, "batch1", "batch2", 3, &out);
}

}  // namespace opsnn::capi
