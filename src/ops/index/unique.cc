#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Unique";

// What there is once: computed when the values are known, which is before running.
struct Found {
  std::vector<int64_t> first, inverse, counts;
};

// Slices of x along an axis (outer, n, inner); flattened, an element is a slice.
struct Slices {
  const char* data;
  DType dtype;
  int64_t outer = 1, n = 1, inner = 1;

  const char* At(int64_t slice, int64_t o, int64_t i) const {
    return data + ((o * n + slice) * inner + i) * static_cast<int64_t>(SizeOf(dtype));
  }
  // Below, equal to or above 0; NaN equals NaN and comes last.
  int Compare(const char* a, const char* b) const {
    if (dtype == DType::kS64) {  // a double holds 53 bits only
      int64_t x, y;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      return x < y ? -1 : x > y;
    }
    const double x = ReadElement(a, dtype), y = ReadElement(b, dtype);
    if (x != x || y != y) return (x != x) - (y != y);
    return x < y ? -1 : x > y;
  }
  int Compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        if (const int r = Compare(At(a, o, i), At(b, o, i)); r != 0) return r;
      }
    }
    return 0;
  }
};

bool Flat(const op::Attrs* attrs) { return !op::AttrsOf(attrs).Has("axis"); }

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), rank);
}

Result<Slices> SlicesOf(const op::Attrs* attrs, const HostTensor& x) {
  Slices s{static_cast<const char*>(x.data()), x.dtype(), 1, x.size(), 1};
  if (Flat(attrs)) return s;
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(attrs, x.dims().rank()));
  s.n = x.dims()[axis];
  for (int i = 0; i < axis; ++i) s.outer *= x.dims()[i];
  for (int i = axis + 1; i < x.dims().rank(); ++i) s.inner *= x.dims()[i];
  return s;
}

Result<Found> Find(const op::Attrs* attrs, const HostTensor& x) {
  OPSNN_ASSIGN_OR_RETURN(const Slices s, SlicesOf(attrs, x));
  std::vector<int64_t> order(static_cast<size_t>(s.n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&s](int64_t a, int64_t b) { return s.Compare(a, b) < 0; });
  Found f;
  std::vector<int64_t> group(order.size());  // of every slice, in sorted order
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || s.Compare(order[i - 1], order[i]) != 0) {
      f.first.push_back(order[i]);
      f.counts.push_back(0);
    }
    group[static_cast<size_t>(order[i])] = static_cast<int64_t>(f.first.size()) - 1;
    ++f.counts.back();
  }
  if (op::AttrsOf(attrs).Int("sorted", 1) == 0) {  // by first appearance
    std::vector<int64_t> rank(f.first.size()), place(f.first.size());
    std::iota(rank.begin(), rank.end(), int64_t{0});
    std::sort(rank.begin(), rank.end(), [&f](int64_t a, int64_t b) {
      return f.first[static_cast<size_t>(a)] < f.first[static_cast<size_t>(b)];
    });
    Found sorted;
    for (size_t i = 0; i < rank.size(); ++i) {
      place[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
      sorted.first.push_back(f.first[static_cast<size_t>(rank[i])]);
      sorted.counts.push_back(f.counts[static_cast<size_t>(rank[i])]);
    }
    for (int64_t& g : group) g = place[static_cast<size_t>(g)];
    f.first = std::move(sorted.first);
    f.counts = std::move(sorted.counts);
  }
  f.inverse = std::move(group);
  return f;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const size_t outputs = static_cast<size_t>(std::max(c.num_outputs, 1));
  int64_t n = kUnknownDim, unique = kUnknownDim;
  Dims dims = {kUnknownDim};
  int axis = 0;
  if (x.known_rank) {
    if (!Flat(c.attrs)) {
      OPSNN_ASSIGN_OR_RETURN(axis, Axis(c.attrs, x.dims.rank()));
      dims = x.dims;
    }
    n = Flat(c.attrs) ? NumElements(x.dims) : dims[axis];
  }
  if (x.constant != nullptr) {
    OPSNN_ASSIGN_OR_RETURN(const Found f, Find(c.attrs, *x.constant));
    unique = static_cast<int64_t>(f.first.size());
  }
  dims[axis] = unique;
  c.outputs.assign(outputs, Desc(DType::kS64, {unique}));
  c.outputs[0] = x.known_rank || Flat(c.attrs) ? Desc(x.dtype, dims) : UnknownRank(x.dtype);
  if (outputs > 2) c.outputs[2].dims = {n};
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (x.constant == nullptr) {
    return InvalidArgument("%s: X depends on the data; it must be known before running", kOp);
  }
  OPSNN_ASSIGN_OR_RETURN(Found found, Find(c.attrs, *x.constant));
  OPSNN_ASSIGN_OR_RETURN(const Slices slices, SlicesOf(c.attrs, *x.constant));
  const auto run = [f = std::make_shared<const Found>(std::move(found)), slices,
                    outputs = c.outputs.size()](const op::RunArgs& args) {
    Slices s = slices;
    s.data = static_cast<const char*>(args.inputs[0]);
    const auto bytes = static_cast<size_t>(s.inner) * SizeOf(s.dtype);
    char* to = static_cast<char*>(args.outputs[0]);
    for (int64_t o = 0; o < s.outer; ++o) {
      for (const int64_t slice : f->first) {
        std::memcpy(to, s.At(slice, o, 0), bytes);
        to += bytes;
      }
    }
    const std::vector<int64_t>* lists[] = {&f->first, &f->inverse, &f->counts};
    for (size_t i = 1; i < outputs; ++i) {
      if (args.outputs[i] == nullptr || lists[i - 1]->empty()) continue;
      std::memcpy(args.outputs[i], lists[i - 1]->data(), lists[i - 1]->size() * sizeof(int64_t));
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("sorted before running", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Unique) {
  def.infer = Infer;
  def.plan = Plan;
}
