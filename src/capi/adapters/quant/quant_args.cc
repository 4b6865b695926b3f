#include "capi/adapters/quant/quant_args.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace opsnn::capi {

using ll = long long;

Status RequireInt8(const Call& call) {
  const int64_t type = call.Int("dstType");
  constexpr int64_t kInt8 = 2, kPacked = 3, kInt4 = 29;
  if (type == kInt8) return OkStatus();
  if (type != kPacked && type != kInt4) return BadValue(call, "dstType", std::to_string(type), "2 (int8)");
  return Errorf(Code::kNotImplemented, "%s: dstType is %lld; supported: 2 (int8)", call.function().api,
                ll{type});
}

Result<Operand> AlongAxis(const Call& call, const Operand& o, const Operand& x, int axis) {
  const Dims &d = o.desc.dims, &whole = x.desc.dims;
  const int64_t size = whole[axis];
  if (NumElements(d) == 1) return WithView(o, {1}, {0});
  const bool list = d.rank() == 1 && d[0] == size;
  bool full = d.rank() == whole.rank();
  for (int i = 0; full && i < d.rank(); ++i) full = d[i] == (i == axis ? size : 1);
  if (!list && !full) {
    return InvalidArgument("%s: %s has shape %s; allowed: one value, or [%lld] for dim %d of x",
                           call.function().api, NameOf(call, o).c_str(), ToString(d).c_str(), ll{size}, axis);
  }
  Dims dims = Dims::Filled(whole.rank(), 1), strides = Dims::Filled(whole.rank(), 0);
  dims[axis] = size, strides[axis] = StridesOf(o.desc)[list ? 0 : axis];
  return WithView(o, dims, strides);
}

Result<Operand> RowsOfGroups(const Call& call, const Operand& table, const Operand& ends, const Operand& x,
                             int64_t columns, OpCall* out) {
  Dims dims = x.desc.dims;
  dims.resize(dims.rank() - 1);
  const int64_t rows = NumElements(dims);
  OPSNN_RETURN_IF_ERROR(RequireRank(call, ends, 1, 1));
  const int64_t groups = ends.desc.dims[0];
  const bool one = table.desc.dims.rank() == 1;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, table, one ? Dims{groups} : Dims{groups, columns},
                                     one ? "one value per group" : "one row per group"));
  if (groups < 1) return BadValue(call, NameOf(call, ends).c_str(), "empty", "one group or more");
  OPSNN_RETURN_IF_ERROR(RequireRoom(call, rows, sizeof(int32_t)));
  OPSNN_ASSIGN_OR_RETURN(const auto row, NewConstant(call, DType::kS32, {rows, 1}));
  std::iota(row->as<int32_t>(), row->as<int32_t>() + rows, 0);
  ProgramBuilder b;
  SlotId at = b.Input(ComputeType::kS32);
  const SlotId end = b.Input(ComputeTypeOf(ends.desc.dtype));
  if (ends.desc.dtype == DType::kS64) at = b.Convert(at, ComputeType::kS64);
  const SlotId passed = b.Convert(b.Binary(StageOp::kLessEqual, end, at), ComputeType::kS32);
  b.Output(b.Binary(StageOp::kMin, b.Unary(StageOp::kRowSum, passed),
                    b.Const(static_cast<double>(groups - 1), ComputeType::kS32, true)));
  const Operand group = out->Temp(DType::kS32, {rows, 1});
  const Operand picked = out->Temp(table.desc.dtype, one ? Dims{rows} : Dims{rows, columns});
  out->first.push_back(ProgramCall(std::move(b).Build(), {Constant(row), ends}, {group}, 1));
  out->first.push_back(Along("Gather", 0, {table, WithDType(Reshaped(group, {rows}), DType::kS64)}, picked));
  dims.push_back(one ? 1 : columns);
  return Reshaped(picked, dims);
}

Operand EndsOf(const Operand& sizes, OpCall* out) {
  const Operand ends = out->Temp(DType::kS64, sizes.desc.dims);
  out->first.push_back(CallOf("CumSum", {WithDType(sizes, DType::kS64), ConstantInt(0)}, {ends}));
  return ends;
}

}  // namespace opsnn::capi
