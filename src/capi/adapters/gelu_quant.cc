// aclnnGeluQuant to int8: the activation, a scale, and a rounding, in one program. A dynamic scale is that of
// each row: its largest magnitude becomes 127.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

constexpr int kAclInt8 = 2;
constexpr double kMostInt8 = 127;

Result<std::string> Choice(const Call& call, const char* param, const std::vector<std::string>& allowed) {
  const char* text = static_cast<const char*>(call.arguments()[call.Index(param)].raw.p);
  std::string all;
  for (const std::string& a : allowed) {
    if (text && a == text) return a;
    all += (all.empty() ? "\"" : ", \"") + a + "\"";
  }
  return BadValue(call, param, text ? "\"" + std::string(text) + "\"" : "null", all);
}

// scale and offset: one value, or one per column.
Status CheckPerColumn(const Call& call, const Operand& o, int64_t columns) {
  if (!o.given()) return OkStatus();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, o, 1, 1));
  if (o.desc.dims[0] == 1 || o.desc.dims[0] == columns) return OkStatus();
  return BadValue(call, NameOf(call, o).c_str(), "of shape " + ToString(o.desc.dims),
                  StrFormat("1 or %lld elements", static_cast<long long>(columns)));
}

Program StaticProgram(StageOp gelu) {
  ProgramBuilder b;
  const SlotId x = b.Input(), scale = b.Input(), offset = b.Input();
  const SlotId y = b.Binary(StageOp::kMul, b.Unary(gelu, x), scale);
  b.Output(b.Unary(StageOp::kRound, b.Binary(StageOp::kAdd, y, offset)));
  return std::move(b).Build();
}

Program DynamicProgram(StageOp gelu, bool scaled) {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId scale = scaled ? b.Input() : kNoSlot;
  const SlotId most = b.Const(kMostInt8, ComputeType::kF32, true);
  SlotId y = b.Unary(gelu, x);
  if (scaled) y = b.Binary(StageOp::kMul, y, scale);
  const SlotId step = b.Binary(StageOp::kDiv, b.Unary(StageOp::kRowMax, b.Unary(StageOp::kAbs, y)), most);
  b.Output(b.Unary(StageOp::kRound, b.Binary(StageOp::kDiv, y, step)));
  b.Output(step);
  return std::move(b).Build();
}

}  // namespace

Status Adapt_GeluQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), scale = Arg(call, "inputScaleOptional");
  const Operand offset = Arg(call, "inputOffsetOptional"), y = Arg(call, "y");
  Operand step = Arg(call, "outScaleOptional");
  OPSNN_ASSIGN_OR_RETURN(const std::string approximate, Choice(call, "approximate", {"none", "tanh"}));
  OPSNN_ASSIGN_OR_RETURN(const std::string mode, Choice(call, "quantMode", {"static", "dynamic"}));
  OPSNN_RETURN_IF_ERROR(Choice(call, "roundMode", {"rint"}).status());
  if (call.Int("dstType") != kAclInt8)
    return BadValue(call, "dstType", std::to_string(call.Int("dstType")), "2 (int8)");
  const bool dynamic = mode == "dynamic";
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, dynamic ? 2 : 1, 8));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const int64_t columns = x.desc.dims.back();
  OPSNN_RETURN_IF_ERROR(CheckPerColumn(call, scale, columns));
  OPSNN_RETURN_IF_ERROR(CheckPerColumn(call, offset, columns));
  const StageOp gelu = approximate == "tanh" ? StageOp::kGeluTanh : StageOp::kGeluErf;
  if (!dynamic) {
    for (const Operand* o : {&scale, &offset}) {
      if (o->given()) continue;
      return Errorf(Code::kNull, "%s: %s is null; it is required where quantMode is \"static\"",
                    call.function().api, o == &scale ? "inputScaleOptional" : "inputOffsetOptional");
    }
    out = ProgramCall(StaticProgram(gelu), {x, scale, offset}, {y});
    return OkStatus();
  }
  if (!step.given()) {
    return Errorf(Code::kNull, "%s: outScaleOptional is null; it is required where quantMode is \"dynamic\"",
                  call.function().api);
  }
  Dims rows = x.desc.dims;
  rows.erase(rows.rank() - 1);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, step, rows, "that of self without its last dim"));
  Dims strides = StridesOf(step.desc);
  rows.push_back(1);
  strides.push_back(0);
  step = WithView(step, rows, strides);
  std::vector<Operand> inputs = {x};
  if (scale.given()) inputs.push_back(scale);
  out = ProgramCall(DynamicProgram(gelu, scale.given()), std::move(inputs), {y, step}, 1);
  return OkStatus();
}

}  // namespace opsnn::capi
