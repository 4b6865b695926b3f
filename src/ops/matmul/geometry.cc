#include "ops/matmul/geometry.h"

#include <algorithm>

namespace opsnn::ops {
namespace {

// Strides of the batch dims of a matrix operand under the broadcast batch dims.
Dims BatchStrides(const TensorView& v, const Dims& batch) {
  Dims strides = Dims::Filled(batch.rank(), 0);
  const int own = std::max(0, v.rank() - 2);
  for (int i = 0; i < own; ++i) {
    if (v.dims[i] != 1) strides[batch.rank() - own + i] = v.strides[i];
  }
  return strides;
}

}  // namespace

LoopNest MakeLoops(const ProductShape& s, const op::TensorDesc& a, const op::TensorDesc& b, bool trans_a,
                   bool trans_b) {
  LoopNest nest;
  nest.lead = s.batch;
  nest.lead.push_back(s.m);
  nest.n = s.n, nest.k = s.k;
  const TensorView av = a.View(nullptr), bv = b.View(nullptr);

  nest.a.dtype = a.dtype;
  nest.a.lead = BatchStrides(av, s.batch);
  nest.a.col_stride = av.strides[av.rank() - 1];
  int64_t row = 0;
  if (!s.drop_m) {
    row = av.strides[av.rank() - 2];
    if (trans_a) std::swap(row, nest.a.col_stride);
  }
  nest.a.lead.push_back(row);

  nest.b.index = 1;
  nest.b.dtype = b.dtype;
  nest.b.lead = BatchStrides(bv, s.batch);
  nest.b.lead.push_back(0);
  nest.b.row_stride = bv.strides[std::max(0, bv.rank() - 2)];
  if (!s.drop_n) {
    nest.b.col_stride = bv.strides[bv.rank() - 1];
    if (trans_b) std::swap(nest.b.row_stride, nest.b.col_stride);
  }
  return nest;
}

LoopOperand LoopsOf(const ProductShape& s, const op::TensorDesc& desc, int index, bool is_output) {
  const TensorView v = BroadcastTo(desc.View(nullptr), s.OutDims());
  LoopOperand x;
  x.is_output = is_output;
  x.index = index;
  x.dtype = desc.dtype;
  int at = 0;
  for (; at < s.batch.rank(); ++at) x.lead.push_back(v.strides[at]);
  x.lead.push_back(s.drop_m ? 0 : v.strides[at++]);
  x.col_stride = s.drop_n ? 0 : v.strides[at];
  if (is_output && s.n == 1) x.col_stride = 1;
  return x;
}

void LoopNest::Merge() {
  std::vector<Dims*> strides = {&a.lead, &b.lead};
  for (LoopOperand& x : args) strides.push_back(&x.lead);
  const auto erase = [&](int i) {
    lead.erase(i);
    for (Dims* s : strides) s->erase(i);
  };
  // A single row leaves its place to a batch that shares B.
  for (int i = lead.rank() - 2; i >= 0; --i) {
    if (lead[i] == 1) erase(i);
  }
  if (lead.rank() > 1 && lead[lead.rank() - 1] == 1 && b.lead[lead.rank() - 2] == 0) erase(lead.rank() - 1);
  for (int i = lead.rank() - 2; i >= 0; --i) {
    const bool merges = std::all_of(strides.begin(), strides.end(),
                                    [&](const Dims* s) { return (*s)[i] == (*s)[i + 1] * lead[i + 1]; });
    if (!merges) continue;
    lead[i + 1] *= lead[i];
    erase(i);
  }
  if (lead.rank() > 1) return;
  lead.insert(0, 1);
  for (Dims* s : strides) s->insert(0, 0);
}

bool IsColumnVector(const LoopOperand& x, int64_t n) {
  const bool flat = std::all_of(x.lead.begin(), x.lead.end(), [](int64_t s) { return s == 0; });
  return flat && x.dtype == DType::kF32 && (n == 1 || x.col_stride == 1);
}

vector::EpilogueArg ToArg(const LoopOperand& x) {
  vector::EpilogueArg arg;
  arg.dtype = x.dtype;
  arg.batch_stride = x.lead[x.lead.rank() - 2];
  arg.row_stride = x.lead[x.lead.rank() - 1];
  arg.col_stride = x.col_stride;
  return arg;
}

int64_t OuterOffset(const LoopOperand& x, const Dims& at) {
  int64_t off = 0;
  for (int i = 0; i < at.rank(); ++i) off += at[i] * x.lead[i];
  return off * static_cast<int64_t>(SizeOf(x.dtype));
}

void ForEachOuter(const LoopNest& nest, FunctionRef<void(const Dims& at)> fn) {
  Dims at = Dims::Filled(nest.lead.rank() - 2, 0);
  for (bool more = NumElements(nest.lead) > 0; more;) {
    fn(at);
    more = false;
    for (int i = at.rank() - 1; i >= 0 && !more; --i) {
      more = ++at[i] < nest.lead[i];
      if (!more) at[i] = 0;
    }
  }
}

}  // namespace opsnn::ops
