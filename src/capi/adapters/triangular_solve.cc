// aclnnTriangularSolve: A X = b by substitution in blocks of rows. What the blocks before contribute to a
// block is one product; inside a block every row is a product of its own, of at most kBlock terms.
#include <algorithm>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// Rows of a block: long enough that nearly all the work is in the large products.
constexpr int64_t kBlock = 32;

// Rows [row, row + rows) and columns [column, column + columns) of the matrices of an operand.
Operand Part(Operand o, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  Dims dims = o.desc.dims;
  const Dims strides = StridesOf(o.desc);
  const int last = dims.rank() - 1;
  o.offset += row * strides[last - 1] + column * strides[last];
  dims[last - 1] = rows, dims[last] = columns;
  return WithView(o, dims, strides);
}

// (addend - product) / diagonal, as far as there is a product and a diagonal.
Program Substitute(ComputeType type, bool product, bool divide) {
  ProgramBuilder b;
  SlotId in[3];
  int n = 0;
  for (int i = 0; i < 1 + product + divide; ++i) in[i] = b.Input(type);
  const SlotId p = product ? in[n++] : kNoSlot, addend = in[n++];
  SlotId y = product ? b.Binary(StageOp::kSub, addend, p) : addend;
  if (divide) y = b.Binary(StageOp::kDiv, y, in[n]);
  b.Output(y == addend ? b.Unary(StageOp::kCopy, y) : y);
  return std::move(b).Build();
}

class Solver {
 public:
  Solver(const Operand& a, const Operand& b, const Operand& x, bool upper, bool unit)
      : a_(a), b_(b), x_(x), upper_(upper), unit_(unit), type_(ComputeTypeOf(x.desc.dtype)) {
    const Dims& d = x.desc.dims;
    n_ = d[d.rank() - 2], columns_ = d.back();
  }

  std::vector<OpCall> Steps() {
    for (int64_t from = 0; from < n_; from += kBlock) {
      const int64_t size = std::min(kBlock, n_ - from);
      // Rows in the order of solving: from the top, or from the bottom of an upper triangle.
      if (from > 0) Add(from, size, 0, from, b_, false);
      for (int64_t i = 0; i < size; ++i) Add(from + i, 1, from, i, from > 0 ? x_ : b_, !unit_);
    }
    return std::move(steps_);
  }

 private:
  // Rows `row` on (in the order of solving) of X = (addend - A[rows, solved] X[solved]) / diagonal, where
  // `solved` are `terms` rows from `first` on.
  void Add(int64_t row, int64_t rows, int64_t first, int64_t terms, const Operand& addend, bool divide) {
    const int64_t at = Place(row, rows), solved = Place(first, terms);
    std::vector<Operand> inputs;
    const Operand y = Part(x_, at, rows, 0, columns_);
    if (terms > 0) {
      inputs = {Part(a_, at, rows, solved, terms), Part(x_, solved, terms, 0, columns_)};
    }
    std::vector<Operand> others = {Part(addend, at, rows, 0, columns_)};
    if (divide) others.push_back(Part(a_, at, 1, at, 1));
    const bool product = terms > 0;
    OpCall c = ProgramCall(Substitute(type_, product, divide), {}, {y});
    c.inputs = std::move(inputs);
    c.inputs.insert(c.inputs.end(), others.begin(), others.end());
    if (product) {
      c.op = op::FindOperator("MatMul");
      c.tail_inputs = static_cast<int>(others.size());
      c.in_place = true;  // rows of X that are read are not those that are written, but for the addend
    }
    steps_.push_back(std::move(c));
  }
  int64_t Place(int64_t row, int64_t rows) const { return upper_ ? n_ - row - rows : row; }

  const Operand &a_, &b_, &x_;
  const bool upper_, unit_;
  const ComputeType type_;
  int64_t n_ = 0, columns_ = 0;
  std::vector<OpCall> steps_;
};

}  // namespace

Status Adapt_TriangularSolve(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const Operand b = Arg(call, "self"), a = Arg(call, "A"), x = Arg(call, "xOut"), m = Arg(call, "mOut");
  for (const Operand* o : {&b, &a}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, kMaxRank));
  for (const Operand* o : {&a, &x, &m}) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, b.desc.dtype, "self"));
  }
  const Dims &bd = b.desc.dims, &ad = a.desc.dims;
  const int64_t n = ad.back(), columns = bd.back();
  if (ad[ad.rank() - 2] != n || bd[bd.rank() - 2] != n) {
    return InvalidArgument(
        "%s: A has shape %s with self of shape %s; allowed: square matrices of as many rows as "
        "self has",
        api, ToString(ad).c_str(), ToString(bd).c_str());
  }
  Dims lead_a = ad, lead_b = bd;
  lead_a.resize(ad.rank() - 2), lead_b.resize(bd.rank() - 2);
  auto lead = BroadcastDims(lead_a, lead_b);
  if (!lead.ok()) {
    return InvalidArgument("%s: A has shape %s and self %s; allowed: batches that broadcast", api,
                           ToString(ad).c_str(), ToString(bd).c_str());
  }
  Dims x_dims = *lead, m_dims = *lead;
  for (int64_t d : {n, columns}) x_dims.push_back(d);
  for (int64_t d : {n, n}) m_dims.push_back(d);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, x, x_dims, "the shape of the solution"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, m, m_dims, "the shape of A under all batches"));
  bool upper = call.Int("upper") != 0;
  Operand matrix = BroadcastView(a, m_dims);
  if (call.Int("transpose") != 0) {
    std::vector<int> order;
    for (int i = 0; i < m_dims.rank(); ++i) order.push_back(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    matrix = Permuted(matrix, order);
    upper = !upper;
  }
  if (NumElements(x_dims) > 0) {
    const Operand right = BroadcastView(b, x_dims);
    out.first = Solver(matrix, right, x, upper, call.Int("unitriangular") != 0).Steps();
  }
  // The triangle of A that counts, for every batch.
  out.op = op::FindOperator("Trilu");
  out.attrs.Set("upper", int64_t{call.Int("upper") != 0});
  out.inputs = {BroadcastView(a, m_dims), ConstantInt(0)};
  out.outputs = {m};
  return OkStatus();
}

}  // namespace opsnn::capi
