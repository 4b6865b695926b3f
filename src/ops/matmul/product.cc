#include "ops/matmul/product.h"

#include <algorithm>

#include "op/pointwise.h"
#include "ops/matmul/product_kernel.h"

namespace opsnn::ops {

using ll = long long;

Dims ProductShape::OutDims() const {
  Dims d = batch;
  if (!drop_m) d.push_back(m);
  if (!drop_n) d.push_back(n);
  return d;
}

Result<ProductShape> ResolveProduct(const char* name, const Dims& a, const Dims& b, bool trans_a,
                                    bool trans_b) {
  if (a.rank() == 0 || b.rank() == 0) {
    return InvalidArgument("%s: %s is a scalar; allowed: rank 1 to %d", name, a.rank() == 0 ? "A" : "B",
                           kMaxRank);
  }
  ProductShape s;
  s.drop_m = a.rank() == 1;
  s.drop_n = b.rank() == 1;
  const int ar = a.rank(), br = b.rank();
  int64_t ak = a[ar - 1], bk = b[br == 1 ? 0 : br - 2];
  if (!s.drop_m) {
    s.m = a[ar - 2];
    if (trans_a) std::swap(s.m, ak);
  }
  if (!s.drop_n) {
    s.n = b[br - 1];
    if (trans_b) std::swap(s.n, bk);
  }
  if (ak >= 0 && bk >= 0 && ak != bk) {
    return InvalidArgument(
        "%s: A has shape %s%s and B %s%s; the inner dimensions %lld and %lld must be equal", name,
        ToString(a).c_str(), trans_a ? " (transposed)" : "", ToString(b).c_str(),
        trans_b ? " (transposed)" : "", ll{ak}, ll{bk});
  }
  s.k = ak >= 0 ? ak : bk;
  const Dims a_batch(std::span<const int64_t>(a.data(), static_cast<size_t>(std::max(0, ar - 2))));
  const Dims b_batch(std::span<const int64_t>(b.data(), static_cast<size_t>(std::max(0, br - 2))));
  Result<Dims> batch = BroadcastDims(a_batch, b_batch);
  if (!batch.ok()) {
    return InvalidArgument("%s: A has shape %s and B %s; their batch dimensions do not broadcast", name,
                           ToString(a).c_str(), ToString(b).c_str());
  }
  s.batch = *batch;
  return s;
}

namespace {

// The operator's own post program, then the fused tail.
Result<PostProgram> JoinTail(const op::PlanContext& c, Post post) {
  PostProgram p;
  p.any = post.any || c.tail;
  if (!p.any) return p;
  p.program = std::move(post.program);
  for (int i : post.inputs) {
    p.indices.push_back(i);
    p.descs.push_back(c.inputs[static_cast<size_t>(i)]);
  }
  if (!c.tail) return p;
  if (!post.any) {
    p.program = c.tail->program;
  } else {
    OPSNN_ASSIGN_OR_RETURN(p.program, Join(p.program, 0, c.tail->program, 0));
  }
  for (size_t i = 0; i < c.tail_inputs.size(); ++i) {
    p.indices.push_back(static_cast<int>(c.inputs.size() + i));
    p.descs.push_back(c.tail_inputs[i]);
  }
  return p;
}

}  // namespace

Result<op::KernelPtr> PlanProduct(const char* name, const op::PlanContext& c, Post post,
                                  const StripWeight* strips) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  ProductCall call;
  call.name = name;
  call.context = &c;
  call.strips = strips;
  call.trans_a = attrs.Int("transA", 0) != 0;
  call.trans_b = !strips && attrs.Int("transB", 0) != 0;
  const Dims& b = strips ? strips->matrix.dims : c.inputs[1]->dims;
  OPSNN_ASSIGN_OR_RETURN(call.shape, ResolveProduct(name, c.inputs[0]->dims, b, call.trans_a, call.trans_b));
  OPSNN_ASSIGN_OR_RETURN(call.post, JoinTail(c, std::move(post)));
  const DType t = c.inputs[0]->dtype;
  return t == DType::kF64 || t == DType::kS32 ? PlanPlainProduct(call) : PlanF32Product(call);
}

}  // namespace opsnn::ops
