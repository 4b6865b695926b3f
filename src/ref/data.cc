// Operators that only move elements: one output element at a time, by index arithmetic.
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// y[index] = x[f(index)]; f fills the source index and returns false for `fill`.
template <typename F>
Tensor Map(const Tensor& x, const Dims& dims, double fill, F f) {
  Tensor y = Tensor::Make(x.dtype, dims, fill);
  std::vector<int64_t> index(dims.rank(), 0), from(x.dims.rank(), 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(index, dims)) {
    if (f(index, from)) y.v[i] = x.v[Offset(from, x.dims)];
  }
  return y;
}

Status Transpose(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  std::vector<int64_t> perm = c.attrs->Ints("perm");
  if (perm.empty())
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(x.dims[static_cast<int>(perm[i])]);
  c.outputs.push_back(Map(x, dims, 0, [&](const auto& index, auto& from) {
    for (int i = 0; i < rank; ++i) from[perm[i]] = index[i];
    return true;
  }));
  return OkStatus();
}

// Same elements in the same order under the inferred dims.
Status Reshape(Call& c) {
  Tensor y = c.in(0);
  y.dims = c.output_dims[0];
  if (NumElements(y.dims) != y.size())
    return InvalidArgument("%s: element counts differ", std::string(c.op).c_str());
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Concat(Call& c) {
  Dims dims = c.in(0).dims;
  const int axis = NormAxis(c.attrs->Int("axis", 0), dims.rank());
  dims[axis] = 0;
  for (const Tensor* t : c.inputs) dims[axis] += t->dims[axis];
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  int64_t start = 0;
  for (const Tensor* t : c.inputs) {
    std::vector<int64_t> index(dims.rank(), 0);
    for (int64_t i = 0; i < t->size(); ++i, Next(index, t->dims)) {
      std::vector<int64_t> to = index;
      to[axis] += start;
      y.v[Offset(to, dims)] = t->v[i];
    }
    start += t->dims[axis];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Split(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", 0), x.dims.rank());
  std::vector<int64_t> sizes = c.has(1) ? Ints(c.in(1)) : std::vector<int64_t>();
  if (sizes.empty()) {
    const int64_t n = c.num_outputs, chunk = (x.dims[axis] + n - 1) / n;
    for (int64_t i = 0; i < n; ++i)
      sizes.push_back(std::max<int64_t>(0, std::min(chunk, x.dims[axis] - i * chunk)));
  }
  int64_t start = 0;
  for (int64_t s : sizes) {
    Dims dims = x.dims;
    dims[axis] = s;
    c.outputs.push_back(Map(x, dims, 0, [&](const auto& index, auto& from) {
      from = index;
      from[axis] += start;
      return true;
    }));
    start += s;
  }
  return OkStatus();
}

Status Slice(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  const auto starts = Ints(c.in(1)), ends = Ints(c.in(2));
  std::vector<int64_t> axes = c.has(3) ? Ints(c.in(3)) : std::vector<int64_t>();
  const std::vector<int64_t> steps = c.has(4) ? Ints(c.in(4)) : std::vector<int64_t>(starts.size(), 1);
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  Dims dims = x.dims;
  std::vector<int64_t> first(rank, 0), step(rank, 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int a = NormAxis(axes[i], rank);
    const int64_t n = x.dims[a], lo = steps[i] > 0 ? 0 : -1, hi = steps[i] > 0 ? n : n - 1;
    int64_t s = starts[i] < 0 ? starts[i] + n : starts[i], e = ends[i] < 0 ? ends[i] + n : ends[i];
    if (ends[i] < -n) e = lo;
    s = std::min(std::max(s, steps[i] > 0 ? 0 : int64_t{0}), hi);
    e = std::min(std::max(e, lo), steps[i] > 0 ? n : n - 1);
    first[a] = s;
    step[a] = steps[i];
    dims[a] = std::max<int64_t>(0, (e - s + steps[i] - (steps[i] > 0 ? 1 : -1)) / steps[i]);
  }
  c.outputs.push_back(Map(x, dims, 0, [&](const auto& index, auto& from) {
    for (int i = 0; i < rank; ++i) from[i] = first[i] + index[i] * step[i];
    return true;
  }));
  return OkStatus();
}

Status Expand(Call& c) {
  OPSNN_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(c.in(0).dims, Dims(Ints(c.in(1)))));
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  std::vector<int64_t> index(dims.rank(), 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(index, dims))
    y.v[i] = c.in(0).v[BroadcastOffset(index, c.in(0).dims)];
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Tile(Call& c) {
  const Tensor& x = c.in(0);
  const auto repeats = Ints(c.in(1));
  Dims dims = x.dims;
  for (int i = 0; i < dims.rank(); ++i) dims[i] *= repeats[i];
  c.outputs.push_back(Map(x, dims, 0, [&](const auto& index, auto& from) {
    for (int i = 0; i < dims.rank(); ++i) from[i] = index[i] % x.dims[i];
    return true;
  }));
  return OkStatus();
}

Status Pad(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  const auto pads = Ints(c.in(1));
  std::vector<int64_t> axes = c.has(3) ? Ints(c.in(3)) : std::vector<int64_t>();
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  const std::string mode = c.attrs->String("mode", "constant");
  std::vector<int64_t> before(rank, 0);
  Dims dims = x.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int a = NormAxis(axes[i], rank);
    before[a] = pads[i];
    dims[a] += pads[i] + pads[axes.size() + i];
  }
  const double fill = c.has(2) && c.in(2).size() ? c.in(2).v[0] : 0;
  c.outputs.push_back(Map(x, dims, fill, [&](const auto& index, auto& from) {
    for (int i = 0; i < rank; ++i) {
      int64_t p = index[i] - before[i];
      const int64_t n = x.dims[i];
      if (p < 0 || p >= n) {
        if (mode == "constant") return false;
        if (mode == "edge")
          p = p < 0 ? 0 : n - 1;
        else if (mode == "wrap")
          p = ((p % n) + n) % n;
        else
          p = n == 1 ? 0 : [&] {
            const int64_t m = 2 * (n - 1), q = ((p % m) + m) % m;
            return q < n ? q : m - q;
          }();
      }
      from[i] = p;
    }
    return true;
  }));
  return OkStatus();
}

Status Shape(Call& c) {
  const int rank = c.in(0).dims.rank();
  auto clamp = [&](int64_t v) { return std::min<int64_t>(std::max<int64_t>(v < 0 ? v + rank : v, 0), rank); };
  const int64_t start = clamp(c.attrs->Int("start", 0)), end = clamp(c.attrs->Int("end", rank));
  Tensor y = Tensor::Make(DType::kS64, {std::max<int64_t>(0, end - start)});
  for (int64_t i = start; i < end; ++i)
    y.v[i - start] = static_cast<double>(c.in(0).dims[static_cast<int>(i)]);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Size(Call& c) {
  c.outputs.push_back(Tensor::Make(DType::kS64, {}, static_cast<double>(c.in(0).size())));
  return OkStatus();
}

Status ConstantOfShape(Call& c) {
  const ConstTensor value = c.attrs->Tensor("value");
  c.outputs.push_back(Tensor::Make(value ? value->dtype() : DType::kF32, Dims(Ints(c.in(0))),
                                   value ? ToDoubles(*value)[0] : 0));
  return OkStatus();
}

Status Range(Call& c) {
  const double start = c.in(0).v[0], limit = c.in(1).v[0], delta = c.in(2).v[0];
  const int64_t n = std::max<int64_t>(0, static_cast<int64_t>(std::ceil((limit - start) / delta)));
  Tensor y = Tensor::Make(c.in(0).dtype, {n});
  for (int64_t i = 0; i < n; ++i) y.v[i] = start + static_cast<double>(i) * delta;
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// channel = (by, bx, c) in DCR mode, (c, by, bx) in CRD mode.
Status DepthToSpace(Call& c) {
  const Tensor& x = c.in(0);
  const int64_t b = c.attrs->Int("blocksize", 1), channels = x.dims[1] / (b * b);
  const bool crd = c.attrs->String("mode", "DCR") == "CRD";
  c.outputs.push_back(
      Map(x, {x.dims[0], channels, x.dims[2] * b, x.dims[3] * b}, 0, [&](const auto& i, auto& from) {
        const int64_t by = i[2] % b, bx = i[3] % b;
        from = {i[0], crd ? (i[1] * b + by) * b + bx : (by * b + bx) * channels + i[1], i[2] / b, i[3] / b};
        return true;
      }));
  return OkStatus();
}

Status SpaceToDepth(Call& c) {
  const Tensor& x = c.in(0);
  const int64_t b = c.attrs->Int("blocksize", 1), channels = x.dims[1];
  c.outputs.push_back(
      Map(x, {x.dims[0], channels * b * b, x.dims[2] / b, x.dims[3] / b}, 0, [&](const auto& i, auto& from) {
        const int64_t block = i[1] / channels;
        from = {i[0], i[1] % channels, i[2] * b + block / b, i[3] * b + block % b};
        return true;
      }));
  return OkStatus();
}

Status Trilu(Call& c) {
  Tensor y = c.in(0);
  const int rank = y.dims.rank();
  const int64_t k = c.has(1) ? static_cast<int64_t>(c.in(1).v[0]) : 0;
  const bool upper = c.attrs->Int("upper", 1);
  const int64_t rows = y.dims[rank - 2], cols = y.dims[rank - 1];
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t diagonal = i % cols - i / cols % rows;
    if (upper ? diagonal < k : diagonal > k) y.v[i] = 0;
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status ReverseSequence(Call& c) {
  const Tensor& x = c.in(0);
  const int64_t time = c.attrs->Int("time_axis", 0), batch = c.attrs->Int("batch_axis", 1);
  const std::vector<int64_t> lengths = Ints(c.in(1));
  c.outputs.push_back(Map(x, x.dims, 0, [&](const auto& index, auto& from) {
    from = index;
    const int64_t n = lengths[static_cast<size_t>(index[batch])];
    if (index[time] < n) from[time] = n - 1 - index[time];
    return true;
  }));
  return OkStatus();
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n); symmetric windows have n - 1 for n.
Status Window(Call& c, double a0, double a1, double a2) {
  const int64_t n = static_cast<int64_t>(c.in(0).v[0]);
  const double span = static_cast<double>(c.attrs->Int("periodic", 1) ? n : std::max<int64_t>(1, n - 1));
  Tensor y = Tensor::Make(c.output_dtype, {n});
  c.abs_sum.assign(y.v.size(), 1);
  for (int64_t i = 0; i < n; ++i) {
    const double w = 2 * M_PI * static_cast<double>(i) / span;
    y.v[i] = a0 - a1 * std::cos(w) + a2 * std::cos(2 * w);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"HannWindow", [](Call& c) { return Window(c, 0.5, 0.5, 0); }},
                            {"HammingWindow", [](Call& c) { return Window(c, 25.0 / 46, 21.0 / 46, 0); }},
                            {"BlackmanWindow", [](Call& c) { return Window(c, 0.42, 0.5, 0.08); }},
                            {"Transpose", Transpose},
                            {"Reshape", Reshape},
                            {"Flatten", Reshape},
                            {"Squeeze", Reshape},
                            {"Unsqueeze", Reshape},
                            {"Concat", Concat},
                            {"Split", Split},
                            {"Slice", Slice},
                            {"Expand", Expand},
                            {"Tile", Tile},
                            {"Pad", Pad},
                            {"Shape", Shape},
                            {"Size", Size},
                            {"ConstantOfShape", ConstantOfShape},
                            {"Range", Range},
                            {"DepthToSpace", DepthToSpace},
                            {"SpaceToDepth", SpaceToDepth},
                            {"Trilu", Trilu},
                            {"ReverseSequence", ReverseSequence}};

}  // namespace

std::span<const Entry> DataTable() { return kTable; }

}  // namespace opsnn::ref
