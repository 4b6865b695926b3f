// Gathers, scatters and one-hot. Negative indices count from the end.
#include "ref/internal.h"

namespace opsnn::ref {
namespace {

Result<int64_t> At(double index, int64_t n) {
  int64_t i = static_cast<int64_t>(index);
  if (i < 0) i += n;
  if (i < 0 || i >= n)
    return InvalidArgument("index %lld out of [%lld, %lld)", static_cast<long long>(index),
                           static_cast<long long>(-n), static_cast<long long>(n));
  return i;
}

Status Gather(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor& ind = c.in(1);
  const int axis = NormAxis(c.attrs->Int("axis", 0), x.dims.rank());
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(x.dims[i]);
  for (int64_t d : ind.dims) dims.push_back(d);
  for (int i = axis + 1; i < x.dims.rank(); ++i) dims.push_back(x.dims[i]);
  Tensor y = Tensor::Make(x.dtype, dims);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) inner *= x.dims[i];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < ind.size(); ++k) {
      OPSNN_ASSIGN_OR_RETURN(const int64_t at, At(ind.v[k], x.dims[axis]));
      for (int64_t i = 0; i < inner; ++i)
        y.v[(o * ind.size() + k) * inner + i] = x.v[(o * x.dims[axis] + at) * inner + i];
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status GatherElements(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor& ind = c.in(1);
  const int axis = NormAxis(c.attrs->Int("axis", 0), x.dims.rank());
  Tensor y = Tensor::Make(x.dtype, ind.dims);
  std::vector<int64_t> index(ind.dims.rank(), 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(index, ind.dims)) {
    std::vector<int64_t> from = index;
    OPSNN_ASSIGN_OR_RETURN(from[axis], At(ind.v[i], x.dims[axis]));
    y.v[i] = x.v[Offset(from, x.dims)];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// Offset of the slice that row r of `ind` (last dim = q leading indices after `batch` dims) names in x.
Result<int64_t> SliceOffset(const Tensor& x, const Tensor& ind, int64_t r, int64_t batch,
                            int64_t batch_rows) {
  const int64_t q = ind.dims.back();
  int64_t off = batch ? r / batch_rows : 0;
  for (int64_t j = 0; j < q; ++j) {
    const int64_t n = x.dims[static_cast<int>(batch + j)];
    OPSNN_ASSIGN_OR_RETURN(const int64_t at, At(ind.v[r * q + j], n));
    off = off * n + at;
  }
  return off;
}

Status GatherND(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor& ind = c.in(1);
  const int64_t b = c.attrs->Int("batch_dims", 0), q = ind.dims.back();
  Dims dims = ind.dims;
  dims.erase(dims.rank() - 1);
  int64_t inner = 1, batches = 1;
  for (int i = static_cast<int>(b + q); i < x.dims.rank(); ++i) {
    dims.push_back(x.dims[i]);
    inner *= x.dims[i];
  }
  for (int i = 0; i < b; ++i) batches *= x.dims[i];
  const int64_t rows = q ? ind.size() / q : 0;
  Tensor y = Tensor::Make(x.dtype, dims);
  for (int64_t r = 0; r < rows; ++r) {
    OPSNN_ASSIGN_OR_RETURN(const int64_t off,
                           SliceOffset(x, ind, r, b, rows / std::max<int64_t>(1, batches)));
    for (int64_t i = 0; i < inner; ++i) y.v[r * inner + i] = x.v[off * inner + i];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

double Merge(const std::string& how, double old, double update) {
  if (how == "add") return old + update;
  if (how == "mul") return old * update;
  if (how == "max") return std::max(old, update);
  if (how == "min") return std::min(old, update);
  return update;
}

Status ScatterND(Call& c) {
  Tensor y = c.in(0);
  const Tensor& ind = c.in(1);
  const int64_t q = ind.dims.back(), rows = q ? ind.size() / q : 0;
  int64_t inner = 1;
  for (int i = static_cast<int>(q); i < y.dims.rank(); ++i) inner *= y.dims[i];
  for (int64_t r = 0; r < rows; ++r) {
    OPSNN_ASSIGN_OR_RETURN(const int64_t off, SliceOffset(y, ind, r, 0, 1));
    for (int64_t i = 0; i < inner; ++i) {
      double& v = y.v[off * inner + i];
      v = Merge(c.attrs->String("reduction", "none"), v, c.in(2).v[r * inner + i]);
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status ScatterElements(Call& c) {
  Tensor y = c.in(0);
  const Tensor& ind = c.in(1);
  const int axis = NormAxis(c.attrs->Int("axis", 0), y.dims.rank());
  std::vector<int64_t> index(ind.dims.rank(), 0);
  for (int64_t i = 0; i < ind.size(); ++i, Next(index, ind.dims)) {
    std::vector<int64_t> to = index;
    OPSNN_ASSIGN_OR_RETURN(to[axis], At(ind.v[i], y.dims[axis]));
    double& v = y.v[Offset(to, y.dims)];
    v = Merge(c.attrs->String("reduction", "none"), v, c.in(2).v[i]);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status OneHot(Call& c) {
  const Tensor& ind = c.in(0);
  const int64_t depth = static_cast<int64_t>(c.in(1).v[0]);
  const int axis = NormAxis(c.attrs->Int("axis", -1), ind.dims.rank() + 1);
  Dims dims = ind.dims;
  dims.insert(axis, depth);
  Tensor y = Tensor::Make(c.in(2).dtype, dims, c.in(2).v[0]);
  std::vector<int64_t> index(ind.dims.rank(), 0);
  for (int64_t i = 0; i < ind.size(); ++i, Next(index, ind.dims)) {
    int64_t at = static_cast<int64_t>(ind.v[i]);
    if (at < 0) at += depth;
    if (at < 0 || at >= depth) continue;  // out of range: the row stays "off"
    std::vector<int64_t> to = index;
    to.insert(to.begin() + axis, at);
    y.v[Offset(to, dims)] = c.in(2).v[1];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"Gather", Gather},     {"GatherElements", GatherElements},
                            {"GatherND", GatherND}, {"ScatterND", ScatterND},
                            {"OneHot", OneHot},     {"ScatterElements", ScatterElements}};

}  // namespace

std::span<const Entry> IndexTable() { return kTable; }

}  // namespace opsnn::ref
