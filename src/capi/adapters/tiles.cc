#include "capi/adapters/tiles.h"

#include "acl/acl_base.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

// A tensor in FRACTAL_NZ.
struct Tiles {
  Operand stored;    // [.., blocks, row blocks, rows of a block, columns of a block]
  Dims matrix;       // [.., rows, columns] of the stored matrix
  bool exchanged;    // the tensor stands for its transposed
  int64_t columns0;  // of a block
  int64_t block;     // elements of a column of blocks
  int64_t width;     // columns with those that fill up the last block
};

const Tensor& TensorOf(const Call& call, const char* param) {
  return *call.tensors()[static_cast<size_t>(call.TensorIndex(param))].object;
}

// Does a tensor describe blocks? Its storage dims then are its logical dims, and whether they are exchanged.
bool IsTiled(const Call& call, const char* param) {
  return call.TensorIndex(param) >= 0 && TensorOf(call, param).format == ACL_FORMAT_FRACTAL_NZ;
}

Dims LogicalDims(const Call& call, const char* param) {
  const Tensor& t = TensorOf(call, param);
  const std::span<const int64_t> own(IsTiled(call, param) ? t.storage_dims : t.dims);
  return Dims(IsTiled(call, param) ? own.first(own.size() - 1) : own);
}

Result<Tiles> TilesOf(const Call& call, const char* param) {
  const bool exchanged = TensorOf(call, param).storage_dims.back() != 0;
  Tiles tiles{Arg(call, param), LogicalDims(call, param), exchanged, 0, 0, 0};
  const int rank = tiles.matrix.rank();
  if (exchanged) std::swap(tiles.matrix[rank - 2], tiles.matrix[rank - 1]);
  const Dims& s = tiles.stored.desc.dims;
  const int64_t rows0 = s[rank], columns0 = s[rank + 1];
  Dims want = tiles.matrix;
  want.push_back(rows0), want.push_back(columns0);
  const int64_t rows = tiles.matrix[rank - 2], columns = tiles.matrix[rank - 1];
  if (rows0 > 0 && columns0 > 0) {
    want[rank - 2] = (columns + columns0 - 1) / columns0, want[rank - 1] = (rows + rows0 - 1) / rows0;
  }
  if (rows0 != kTileRows || columns0 < 1 || !(want == s)) {
    return InvalidArgument(
        "%s: %s has storage shape %s in FRACTAL_NZ with shape %s; allowed: blocks of 16 rows that hold that "
        "shape",
        call.function().api, param, ToString(s).c_str(), ToString(LogicalDims(call, param)).c_str());
  }
  tiles.columns0 = columns0;
  tiles.block = s[rank - 1] * rows0 * columns0;
  tiles.width = s[rank - 2] * columns0;
  return tiles;
}

// The blocks as [.., rows, blocks, columns of a block], the first `rows` of each.
Operand RowsOfTiles(const Tiles& t, int64_t rows) {
  const int rank = t.matrix.rank();
  const Dims own = StridesOf(t.stored.desc);
  Dims dims, strides;
  for (int i = 0; i < rank - 2; ++i) dims.push_back(t.matrix[i]), strides.push_back(own[i]);
  for (int64_t d : {rows, t.width / t.columns0, t.columns0}) dims.push_back(d);
  for (int64_t d : {t.columns0, t.block, int64_t{1}}) strides.push_back(d);
  return WithView(t.stored, dims, strides);
}

Dims WithLast(Dims dims, int64_t last) {
  dims[dims.rank() - 1] = last;
  return dims;
}

// Row-major with rows of t.width, and the matrix that it holds.
Operand Unpacked(const Tiles& t, OpCall* out) {
  const Operand wide = out->Temp(t.stored.desc.dtype, WithLast(t.matrix, t.width));
  const Operand from = RowsOfTiles(t, t.matrix[t.matrix.rank() - 2]);
  out->first.push_back(CallOf("Identity", {from}, {Reshaped(wide, from.desc.dims)}));
  return WithView(wide, t.matrix, StridesOf(wide.desc));
}

}  // namespace

Operand SwappedLast(const Operand& o) {
  std::vector<int> order;
  for (int i = 0; i < o.desc.dims.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return Permuted(o, order);
}

OpCall FloatProduct(const Operand& a, const Operand& b, const Operand& y) {
  OpCall c = CallOf("MatMul", {a, b}, {y});
  ProgramBuilder p;
  p.Output(p.Unary(StageOp::kCopy, p.Input()));  // a tail reads the sums before they are rounded
  c.tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(p).Build()});
  return c;
}

Result<Operand> MatrixArg(const Call& call, const char* param, OpCall* out) {
  if (!IsTiled(call, param)) return Arg(call, param);
  OPSNN_ASSIGN_OR_RETURN(const Tiles t, TilesOf(call, param));
  const Operand matrix = Unpacked(t, out);
  return t.exchanged ? SwappedLast(matrix) : matrix;
}

Result<Factor> FactorArg(const Call& call, const Operand& left, const char* param, OpCall* out) {
  Factor f;
  if (IsTiled(call, param)) {
    OPSNN_ASSIGN_OR_RETURN(const Tiles t, TilesOf(call, param));
    const DType type = t.stored.desc.dtype;
    const bool floats = type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
    if (floats && left.desc.dims.rank() >= 2 && op::PromoteTypes(left.desc.dtype, type) == type &&
        t.columns0 * static_cast<int64_t>(SizeOf(type)) == kTileBytes) {
      f.strips = RowsOfTiles(t, t.block / t.columns0);
      // [.., rows, columns of blocks, ..], the other way round
      const int rank = f.strips.desc.dims.rank();
      std::vector<int> order;
      for (int i = 0; i < rank; ++i) order.push_back(i);
      std::swap(order[static_cast<size_t>(rank - 3)], order[static_cast<size_t>(rank - 2)]);
      f.strips = Permuted(f.strips, order);
      f.matrix = t.stored;
      f.matrix.desc.dims = LogicalDims(call, param), f.matrix.desc.strides = Dims();
      f.transposed = t.exchanged;
      return f;
    }
  }
  OPSNN_ASSIGN_OR_RETURN(f.matrix, MatrixArg(call, param, out));
  return f;
}

// Between row-major and blocks, either way.
Status Adapt_NpuFormatCast(const Call& call, OpCall& out) {
  const Operand src = Arg(call, "srcTensor"), dst = Arg(call, "dstTensor");
  OPSNN_RETURN_IF_ERROR(RequireDType(call, dst, src.desc.dtype, "srcTensor"));
  const Dims dims = LogicalDims(call, "srcTensor"), want = LogicalDims(call, "dstTensor");
  if (!(dims == want)) {
    return InvalidArgument("%s: dstTensor has shape %s; allowed: %s, the shape of srcTensor",
                           call.function().api, ToString(want).c_str(), ToString(dims).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(const Operand plain, MatrixArg(call, "srcTensor", &out));
  return StoreMatrix(call, plain, "dstTensor", &out);
}

Status StoreMatrix(const Call& call, Operand plain, const char* param, OpCall* out) {
  if (!IsTiled(call, param)) {
    Take(CallOf("Identity", {plain}, {Arg(call, param)}), out);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const Tiles t, TilesOf(call, param));
  if (t.exchanged) plain = SwappedLast(plain);
  // Filled up with zeros first, then block by block.
  const int rank = t.matrix.rank();
  const int64_t rows = t.matrix[rank - 2], tall = t.block / t.columns0;
  Dims padded = WithLast(t.matrix, t.width);
  padded[rank - 2] = tall;
  const Operand wide = out->Temp(plain.desc.dtype, padded);
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  pads[static_cast<size_t>(2 * rank - 2)] = tall - rows;
  pads[static_cast<size_t>(2 * rank - 1)] = t.width - t.matrix[rank - 1];
  out->first.push_back(CallOf("Pad", {plain, ConstantInts(pads)}, {wide}));
  const Operand to = RowsOfTiles(t, tall);
  Take(CallOf("Identity", {Reshaped(wide, to.desc.dims)}, {to}), out);
  return OkStatus();
}

namespace {

constexpr int kNibbles = 8, kNibbleBits = 4;  // of an s32

// 0, 4, 8, ..: where the integers of 4 bits lie.
Operand NibbleShifts() {
  auto t = std::make_shared<HostTensor>(DType::kS32, Dims{kNibbles});
  for (int i = 0; i < kNibbles; ++i) t->as<int32_t>()[i] = kNibbleBits * i;
  return Constant(std::move(t));
}

}  // namespace

Operand UnpackedInt4(const Operand& packed, OpCall* out) {
  Dims dims = packed.desc.dims, strides = StridesOf(packed.desc), eight = dims;
  eight.push_back(kNibbles), strides.push_back(0);
  const Operand each = WithView(packed, eight, strides);
  dims[dims.rank() - 1] *= kNibbles;
  const Operand values = out->Temp(DType::kS8, dims);
  ProgramBuilder b;
  const SlotId word = b.Input(ComputeType::kS32), shift = b.Input(ComputeType::kS32);
  const SlotId nibble =
      b.Binary(StageOp::kBitAnd, b.Binary(StageOp::kShiftRight, word, shift), b.Const(15, ComputeType::kS32));
  // 8 and above stand for negative numbers.
  const SlotId high = b.Binary(StageOp::kBitAnd, nibble, b.Const(8, ComputeType::kS32));
  b.Output(b.Binary(StageOp::kSub, nibble, b.Binary(StageOp::kAdd, high, high)));
  out->first.push_back(ProgramCall(std::move(b).Build(), {each, NibbleShifts()}, {Reshaped(values, eight)}));
  return values;
}

Status Adapt_ConvertWeightToInt4Pack(const Call& call, OpCall& out) {
  const Operand weight = Arg(call, "weight");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, weight, 2, 3));
  Dims packed = weight.desc.dims, eight = packed, strides = StridesOf(weight.desc);
  const int last = packed.rank() - 1;
  if (NumElements(packed) == 0 || packed[last] % kNibbles != 0) {
    return BadValue(call, "weight", "of shape " + ToString(packed),
                    "shapes without a 0, the last dim a multiple of 8");
  }
  packed[last] /= kNibbles;
  if (const Dims got = LogicalDims(call, "weightInt4Pack"); !(got == packed)) {
    return InvalidArgument("%s: weightInt4Pack has shape %s; allowed: %s, eight values in one",
                           call.function().api, ToString(got).c_str(), ToString(packed).c_str());
  }
  eight[last] = packed[last], eight.push_back(kNibbles);
  strides.push_back(strides[last]), strides[last] *= kNibbles;
  const Operand words = out.Temp(DType::kS32, packed);
  Dims kept = packed, own = StridesOf(words.desc);
  kept.push_back(1), own.push_back(0);
  ProgramBuilder b;
  const SlotId value = b.Input(ComputeType::kS32), shift = b.Input(ComputeType::kS32);
  const SlotId nibble = b.Binary(StageOp::kBitAnd, value, b.Const(15, ComputeType::kS32));
  b.Output(b.Unary(StageOp::kRowSum, b.Binary(StageOp::kShiftLeft, nibble, shift)));
  out.first.push_back(ProgramCall(std::move(b).Build(), {WithView(weight, eight, strides), NibbleShifts()},
                                  {WithView(words, kept, own)}, 1));
  return StoreMatrix(call, words, "weightInt4Pack", &out);
}

}  // namespace opsnn::capi
