#include "ops/einsum/contraction.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/int_math.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/plain.h"
#include "op/pointwise.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

bool Has(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

// Labels of `from` for which pred(label) holds, in order.
template <typename Pred>
Labels Select(const Labels& from, Pred pred) {
  Labels out;
  std::copy_if(from.begin(), from.end(), std::back_inserter(out), pred);
  return out;
}

Labels operator+(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Dims [begin, end) as one: its size and stride, or nothing where they do not lie in a row.
struct Group {
  int64_t size = 1, stride = 0;
};
std::optional<Group> Merge(const TensorView& v, size_t begin, size_t end) {
  Group g;
  for (size_t k = end; k-- > begin;) {
    const int i = static_cast<int>(k);
    if (v.dims[i] == 1) continue;
    if (g.size == 1) {
      g = {v.dims[i], v.strides[i]};
    } else if (v.strides[i] == g.size * g.stride) {
      g.size *= v.dims[i];
    } else {
      return std::nullopt;
    }
  }
  return g;
}

struct Product {
  gemm::Params f32;
  gemm::PlainParams plain;
};

}  // namespace

EinsumTensor Contraction::NewTensor(const Labels& labels) {
  EinsumTensor t;
  Dims dims;
  for (const Label l : labels) dims.push_back(equation_.size.at(l));
  t.view = TensorView::Contiguous(nullptr, compute_, dims);
  t.labels = labels;
  t.offset = bytes_;
  bytes_ += RoundUp(t.view.bytes(), kAlignment);
  return t;
}

// Dims of 1 go; a label that appears twice names the diagonal.
EinsumTensor Contraction::Load(const TensorView& view, const Labels& labels, int input) {
  EinsumTensor t;
  t.view = view;
  t.view.dims = t.view.strides = {};
  t.input = input;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int d = static_cast<int>(i);
    if (view.dims[d] == 1) continue;
    const auto seen = std::find(t.labels.begin(), t.labels.end(), labels[i]);
    if (seen != t.labels.end()) {
      t.view.strides[static_cast<int>(seen - t.labels.begin())] += view.strides[d];
      continue;
    }
    t.labels.push_back(labels[i]);
    t.view.dims.push_back(view.dims[d]);
    t.view.strides.push_back(view.strides[d]);
  }
  return t;
}

EinsumTensor Contraction::Ordered(const EinsumTensor& x, const Labels& labels) const {
  EinsumTensor t = x;
  t.labels = labels;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int from =
        static_cast<int>(std::find(x.labels.begin(), x.labels.end(), labels[i]) - x.labels.begin());
    t.view.dims[static_cast<int>(i)] = x.view.dims[from];
    t.view.strides[static_cast<int>(i)] = x.view.strides[from];
  }
  return t;
}

EinsumTensor Contraction::Materialise(const EinsumTensor& x) {
  const EinsumTensor y = NewTensor(x.labels);
  steps_.push_back([x, y](const op::RunArgs& args) {
    TensorView from = x.view, to = y.view;
    from.data = x.Address(args);
    to.data = y.Address(args);
    vector::CopyConvert(from, to);
    return OkStatus();
  });
  return y;
}

Result<EinsumTensor> Contraction::SumOut(const EinsumTensor& x, const Labels& keep) {
  const Labels kept = Select(x.labels, [&](Label l) { return Has(keep, l); });
  const Labels summed = Select(x.labels, [&](Label l) { return !Has(keep, l); });
  if (summed.empty()) return x;
  const EinsumTensor from = Ordered(x, kept + summed);
  const EinsumTensor y = NewTensor(kept);
  TensorView out = y.view;
  for (size_t i = 0; i < summed.size(); ++i) {
    out.dims.push_back(1);
    out.strides.push_back(0);
  }
  ProgramBuilder b;
  b.Output(b.Convert(
      b.Unary(StageOp::kRowSum, b.Convert(b.Input(ComputeTypeOf(from.view.dtype)), ComputeTypeOf(compute_))),
      ComputeTypeOf(compute_)));
  OPSNN_ASSIGN_OR_RETURN(const op::KernelPtr kernel,
                         op::MakeProgramKernel(std::move(b).Build(), from.view.dims, {{0, from.view}},
                                               {{0, out}}, static_cast<int>(summed.size()), "row sums"));
  steps_.push_back([from, y, kernel](const op::RunArgs& args) {
    void* const in[] = {from.Address(args)};
    void* const to[] = {y.Address(args)};
    return kernel->Run({in, to, nullptr});
  });
  return y;
}

// Labels that both have and that are needed later are the batch; those of both that are not are summed over.
Result<EinsumTensor> Contraction::Multiply(EinsumTensor a, EinsumTensor b, const Labels& needed) {
  OPSNN_ASSIGN_OR_RETURN(a, SumOut(a, needed + b.labels));
  OPSNN_ASSIGN_OR_RETURN(b, SumOut(b, needed + a.labels));
  const Labels batch = Select(a.labels, [&](Label l) { return Has(b.labels, l) && Has(needed, l); });
  const Labels k = Select(a.labels, [&](Label l) { return Has(b.labels, l) && !Has(needed, l); });
  const Labels m = Select(a.labels, [&](Label l) { return !Has(b.labels, l); });
  const Labels n = Select(b.labels, [&](Label l) { return !Has(a.labels, l); });
  const size_t nb = batch.size(), nm = m.size(), nk = k.size(), nn = n.size();
  if (nb + nm + nn > kMaxRank) {
    return InvalidArgument(
        "Einsum: the inputs are multiplied from left to right, and a product before the last has rank %zu; "
        "allowed: at most %d dims other than 1 that the output or later inputs use",
        nb + nm + nn, kMaxRank);
  }
  a = Ordered(a, batch + m + k);
  b = Ordered(b, batch + k + n);
  const bool halves = compute_ == DType::kF32;  // which gemm widens itself
  const auto fits = [&](const EinsumTensor& x, size_t first, size_t second) {
    return (x.view.dtype == compute_ || (halves && IsHalf(x.view.dtype))) && Merge(x.view, 0, nb) &&
           Merge(x.view, nb, nb + first) && Merge(x.view, nb + first, nb + first + second);
  };
  if (!fits(a, nm, nk)) a = Materialise(a);
  if (!fits(b, nk, nn)) b = Materialise(b);
  EinsumTensor c = NewTensor(batch + m + n);

  const Group ab = *Merge(a.view, 0, nb), am = *Merge(a.view, nb, nb + nm),
              ak = *Merge(a.view, nb + nm, nb + nm + nk);
  const Group bb = *Merge(b.view, 0, nb), bk = *Merge(b.view, nb, nb + nk),
              bn = *Merge(b.view, nb + nk, nb + nk + nn);
  const gemm::Operand x = {nullptr, a.view.dtype, am.stride, ak.stride, ab.stride};
  const gemm::Operand y = {nullptr, b.view.dtype, bk.stride, bn.stride, bb.stride};
  gemm::Params p;
  p.m = am.size, p.n = bn.size, p.k = ak.size, p.batch = ab.size;
  p.a = x, p.b = y;
  p.c_row_stride = p.n;
  p.c_batch_stride = p.m * p.n;
  steps_.push_back([a, b, c, p, compute = compute_](const op::RunArgs& args) {
    void* out = c.Address(args);
    if (c.view.size() == 0) return OkStatus();
    if (p.k == 0) {
      std::memset(out, 0, c.view.bytes());
      return OkStatus();
    }
    const vector::ScratchCheck scratch;
    if (compute == DType::kF32) {
      gemm::Params q = p;
      q.a.data = a.Address(args);
      q.b.data = b.Address(args);
      q.c = static_cast<float*>(out);
      gemm::Run(q);
    } else {
      gemm::PlainParams q = {p.m, p.n, p.k, p.batch, p.a, p.b, out, p.c_row_stride, p.c_batch_stride};
      q.a.data = a.Address(args);
      q.b.data = b.Address(args);
      gemm::RunPlain(q);
    }
    return scratch.Check("Einsum");
  });
  return c;
}

Status Contraction::Plan(const std::vector<TensorView>& inputs, const TensorView& output) {
  std::vector<EinsumTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(Load(inputs[i], equation_.operands[i], static_cast<int>(i)));
  EinsumTensor x = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) {
    Labels needed = equation_.output;
    for (size_t j = i + 1; j < tensors.size(); ++j) needed = needed + tensors[j].labels;
    OPSNN_ASSIGN_OR_RETURN(x, Multiply(x, tensors[i], needed));
  }
  OPSNN_ASSIGN_OR_RETURN(x, SumOut(x, equation_.output));
  // Into the output, in its order; what has size 1 there may be gone here.
  x = Ordered(x, Select(equation_.output, [&](Label l) { return Has(x.labels, l); }));
  TensorView to = output;
  to.dims = to.strides = {};
  for (size_t i = 0; i < equation_.output.size(); ++i) {
    if (!Has(x.labels, equation_.output[i])) continue;
    to.dims.push_back(output.dims[static_cast<int>(i)]);
    to.strides.push_back(output.strides[static_cast<int>(i)]);
  }
  steps_.push_back([x, to](const op::RunArgs& args) {
    TensorView from = x.view, out = to;
    from.data = x.Address(args);
    out.data = args.outputs[0];
    vector::CopyConvert(from, out);
    return OkStatus();
  });
  return OkStatus();
}

Status Contraction::Run(const op::RunArgs& args) const {
  for (const Step& step : steps_) OPSNN_RETURN_IF_ERROR(step(args));
  return OkStatus();
}

}  // namespace opsnn::ops
