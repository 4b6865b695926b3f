// aclnnDynamicBlockQuant and V2 to 8 bits: blocks of rows and columns by their largest magnitude. Blocks of
// one size are one program over rows of a block each; those at the right and lower border are further ones.
#include <algorithm>
#include <string>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/quant/quant_args.h"

namespace opsnn::capi {
namespace {

// Blocks of one size along a dim.
struct Run {
  int64_t first, count, size;  // first: the number of the block
};
// The whole ones, and what is left behind them.
std::vector<Run> RunsOf(int64_t extent, int64_t size) {
  std::vector<Run> runs;
  if (extent >= size) runs.push_back({0, extent / size, size});
  if (extent % size != 0) runs.push_back({extent / size, 1, extent % size});
  return runs;
}

// [.., blocks of rows, blocks of columns, rows, columns] of the last two dims of o.
Operand Blocks(const Operand& o, const Run& rows, const Run& columns, int64_t row_size, int64_t column_size) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  const int rank = dims.rank();
  const int64_t row = strides[rank - 2], column = strides[rank - 1];
  dims[rank - 2] = rows.count, dims[rank - 1] = columns.count;
  strides[rank - 2] = row_size * row, strides[rank - 1] = column_size * column;
  dims.push_back(rows.size), dims.push_back(columns.size);
  strides.push_back(row), strides.push_back(column);
  Operand blocks = WithView(o, dims, strides);
  blocks.offset += rows.first * row_size * row + columns.first * column_size * column;
  return blocks;
}

// One value of o for each of those blocks.
Operand Steps(const Operand& o, const Run& rows, const Run& columns) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  const int rank = dims.rank();
  const int64_t at = rows.first * strides[rank - 2] + columns.first * strides[rank - 1];
  dims[rank - 2] = rows.count, dims[rank - 1] = columns.count;
  for (int i = 0; i < 2; ++i) dims.push_back(1), strides.push_back(0);
  Operand steps = WithView(o, dims, strides);
  steps.offset += at;
  return steps;
}

Result<int64_t> BlockSize(const Call& call, const char* param, std::initializer_list<int64_t> allowed) {
  const int64_t size = call.Int(param);
  std::string all;
  for (const int64_t a : allowed) {
    if (a == size) return size;
    all += (all.empty() ? "" : ", ") + std::to_string(a);
  }
  return BadValue(call, param, std::to_string(size), all);
}

}  // namespace

Status Adapt_DynamicBlockQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "yOut"), step = Arg(call, "scaleOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 3));
  OPSNN_RETURN_IF_ERROR(RequireInt8(call));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const std::string rounding = TextOf(call, "roundModeOptional", "rint");
  if (rounding != "rint")
    return BadValue(call, "roundModeOptional", "\"" + rounding + "\"", "\"rint\" to int8");
  const double least = call.Double("minScale");
  if (!(least >= 0)) return BadValue(call, "minScale", StrFormat("%g", least), "0 or more");
  OPSNN_ASSIGN_OR_RETURN(const int64_t row_size, BlockSize(call, "rowBlockSize", {1, 64, 128, 256, 512}));
  OPSNN_ASSIGN_OR_RETURN(const int64_t column_size, BlockSize(call, "colBlockSize", {64, 128, 192, 256}));
  if (NumElements(x.desc.dims) == 0)
    return BadValue(call, "x", "of shape " + ToString(x.desc.dims), "elements in every dim");
  const int rank = x.desc.dims.rank();
  Dims blocks = x.desc.dims;
  blocks[rank - 2] = (blocks[rank - 2] - 1) / row_size + 1;
  blocks[rank - 1] = (blocks[rank - 1] - 1) / column_size + 1;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, step, blocks, "one value per block"));
  std::vector<OpCall> calls;
  for (const Run& rows : RunsOf(x.desc.dims[rank - 2], row_size)) {
    for (const Run& columns : RunsOf(x.desc.dims[rank - 1], column_size)) {
      calls.push_back(
          FormulaCall({Blocks(x, rows, columns, row_size, column_size)},
                      {Blocks(y, rows, columns, row_size, column_size), Steps(step, rows, columns)}, 2,
                      [&](ProgramBuilder& b, Formula& f) {
                        const auto constant = [&](double v) { return Term{&f, b.Const(v, f.type(), true)}; };
                        Term s = f.Unary(StageOp::kRowMax, Abs(f.In(0))) / constant(kMostInt8);
                        if (least > 0) s = f.Binary(StageOp::kMin, s, constant(1 / least));
                        return std::vector<Term>{Round(f.In(0) / s), s};
                      }));
    }
  }
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
