#include "capi/adapters/quant_matmul_groups.h"

#include <algorithm>
#include <string>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

using ll = long long;

constexpr int64_t kGroup = 128;

int64_t GroupsOf(int64_t n) { return n / kGroup + (n % kGroup != 0); }

// groupSize holds those along m, n and k in 16 bits each; 0 leaves one to the shapes of the scales.
Status CheckGroupSize(const Call& call) {
  const int64_t size = call.Int("groupSize");
  const int64_t m = size >> 32 & 0xFFFF, n = size >> 16 & 0xFFFF, k = size & 0xFFFF;
  if ((m == 0 || m == 1) && (n == 0 || n == kGroup) && (k == 0 || k == kGroup)) return OkStatus();
  return Errorf(Code::kNotImplemented,
                "%s: groupSize is %lld, groups of %lld, %lld and %lld along m, n and k; supported: 1, 128 "
                "and 128",
                call.function().api, ll{size}, ll{m}, ll{n}, ll{k});
}

// Column `at` of a matrix, as one value per row or per column of the product.
Operand Column(const Operand& o, int64_t at, bool per_row) {
  const Dims strides = StridesOf(o.desc);
  const int64_t size = o.desc.dims[0];
  Operand column = per_row ? WithView(o, {size, 1}, {strides[0], 0}) : WithView(o, {size}, {strides[0]});
  column.offset += at * strides[1];
  return column;
}

// Columns [at, at + size) of a matrix.
Operand Columns(const Operand& o, int64_t at, int64_t size, bool transposed) {
  const Dims strides = StridesOf(o.desc);
  const int64_t rows = o.desc.dims[0];
  Operand part =
      transposed ? WithView(o, {size, rows}, {strides[1], strides[0]}) : WithView(o, {rows, size}, strides);
  part.offset += at * strides[1];
  return part;
}

}  // namespace

Status BindGroupedMatmul(const Call& call, const Operand& x2, OpCall* out) {
  const Operand x1 = Arg(call, "x1"), by_row = Arg(call, "x1Scale"), by_block = Arg(call, "x2Scale"),
                bias = Arg(call, "bias"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(CheckGroupSize(call));
  for (const Operand* o : {&x1, &x2}) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, DType::kS8, "products with a groupSize"));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  }
  if (call.Int("transposeX1") != 0 || call.Int("transposeX2") == 0) {
    const char* wrong = call.Int("transposeX1") != 0 ? "transposeX1" : "transposeX2";
    return BadValue(call, wrong, call.Int("transposeX1") != 0 ? "true" : "false",
                    "x1 as it is and x2 transposed with a groupSize");
  }
  const int64_t m = x1.desc.dims[0], k = x1.desc.dims[1], n = x2.desc.dims[0], groups = GroupsOf(k);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, x2, {n, k}, "as many columns as x1"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, by_row, {m, groups}, "one value per row and group of 128"));
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, by_block, {GroupsOf(n), groups}, "one value per block of 128 x 128"));
  for (const Operand* o : {&by_row, &by_block, &bias})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, DType::kF32, "products with a groupSize"));
  if (call.Given("x2Offset")) return BadValue(call, "x2Offset", "given", "null with a groupSize");
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {n}, "one value per column"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  if (k == 0) return BadValue(call, "x1", "of shape " + ToString(x1.desc.dims), "a k of 1 or more");

  OPSNN_RETURN_IF_ERROR(RequireRoom(call, n, sizeof(int64_t)));
  OPSNN_ASSIGN_OR_RETURN(const auto block, NewConstant(call, DType::kS64, {n}));
  for (int64_t i = 0; i < n; ++i) block->as<int64_t>()[i] = i / kGroup;
  const Operand by_column = out->Temp(DType::kF32, {n, groups});
  out->first.push_back(Along("Gather", 0, {by_block, Constant(block)}, by_column));
  const Operand product = out->Temp(DType::kS32, {m, n}), sum = out->Temp(DType::kF32, {m, n});
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t at = g * kGroup, size = std::min(kGroup, k - at);
    const bool first = g == 0, last = g + 1 == groups, biased = last && bias.given();
    out->first.push_back(
        CallOf("MatMulInteger", {Columns(x1, at, size, false), Columns(x2, at, size, true)}, {product}));
    std::vector<Operand> inputs = {product, Column(by_row, g, true), Column(by_column, g, false)};
    if (!first) inputs.push_back(sum);
    if (biased) inputs.push_back(bias);
    OpCall add = FormulaCall(std::move(inputs), {last ? y : sum}, 0, [&](ProgramBuilder&, Formula& f) {
      Term z = f.In(0) * (f.In(1) * f.In(2));
      if (!first) z = f.In(3) + z;
      return std::vector<Term>{biased ? z + f.In(first ? 3 : 4) : z};
    });
    if (last) {
      Take(std::move(add), out);
    } else {
      out->first.push_back(std::move(add));
    }
  }
  return OkStatus();
}

}  // namespace opsnn::capi
