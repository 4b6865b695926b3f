// Operators whose results are as large as their values say, and what else picks elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

using Index = std::vector<int64_t>;

Status NonZero(Call& c) {
  const Tensor& x = c.in(0);
  const int64_t rank = std::max(1, x.dims.rank());
  std::vector<Index> found;
  Index at(static_cast<size_t>(x.dims.rank()), 0);
  for (int64_t i = 0; i < x.size(); ++i, Next(at, x.dims))
    if (x.v[static_cast<size_t>(i)] != 0) found.push_back(at.empty() ? Index{0} : at);
  Tensor y = Tensor::Make(DType::kS64, {rank, static_cast<int64_t>(found.size())});
  for (size_t k = 0; k < found.size(); ++k)
    for (size_t d = 0; d < found[k].size(); ++d) y.v[d * found.size() + k] = static_cast<double>(found[k][d]);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// x as `axis` slices: rows of elements, after the axis was moved to the front; one element each without an
// axis.
struct Slices {
  int64_t outer = 1, n = 0, inner = 1;
  std::vector<double> Row(const Tensor& x, int64_t k) const {
    std::vector<double> row;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) row.push_back(x.v[static_cast<size_t>((o * n + k) * inner + i)]);
    return row;
  }
};

Slices Cut(const Call& c) {
  const Tensor& x = c.in(0);
  Slices s;
  s.n = x.size();
  if (!c.attrs->Has("axis")) return s;
  const int axis = NormAxis(c.attrs->Int("axis", 0), x.dims.rank());
  s.n = x.dims[axis];
  for (int i = 0; i < axis; ++i) s.outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) s.inner *= x.dims[i];
  return s;
}

// The slices `chosen` of input 0, in that order.
Tensor Take(const Call& c, const Slices& s, const Index& chosen) {
  const Tensor& x = c.in(0);
  const int64_t count = static_cast<int64_t>(chosen.size());
  Dims dims{count};
  if (c.attrs->Has("axis")) {
    dims = x.dims;
    dims[NormAxis(c.attrs->Int("axis", 0), x.dims.rank())] = count;
  }
  Tensor y = Tensor::Make(x.dtype, dims);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < s.inner; ++i)
        y.v[static_cast<size_t>((o * count + k) * s.inner + i)] =
            x.v[static_cast<size_t>((o * s.n + chosen[static_cast<size_t>(k)]) * s.inner + i)];
  return y;
}

Status Compress(Call& c) {
  const Slices s = Cut(c);
  Index chosen;
  for (int64_t k = 0; k < std::min(s.n, c.in(1).size()); ++k)
    if (c.in(1).v[static_cast<size_t>(k)] != 0) chosen.push_back(k);
  c.outputs.push_back(Take(c, s, chosen));
  return OkStatus();
}

// NaN is equal to itself and last.
bool Before(const std::vector<double>& a, const std::vector<double>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::isnan(y) ? !std::isnan(x) : x < y;
  });
}

Tensor FromIndex(const Index& v) {
  Tensor t = Tensor::Make(DType::kS64, {static_cast<int64_t>(v.size())});
  for (size_t i = 0; i < v.size(); ++i) t.v[i] = static_cast<double>(v[i]);
  return t;
}

Status Unique(Call& c) {
  const Slices s = Cut(c);
  std::vector<std::vector<double>> rows;
  for (int64_t k = 0; k < s.n; ++k) rows.push_back(s.Row(c.in(0), k));
  Index first, inverse(rows.size()), counts;
  for (size_t k = 0; k < rows.size(); ++k) {  // in order of appearance
    size_t at = 0;
    while (at < first.size() && (Before(rows[static_cast<size_t>(first[at])], rows[k]) ||
                                 Before(rows[k], rows[static_cast<size_t>(first[at])])))
      ++at;
    if (at == first.size()) first.push_back(static_cast<int64_t>(k)), counts.push_back(0);
    ++counts[at];
    inverse[k] = static_cast<int64_t>(at);
  }
  Index order(first.size());
  std::iota(order.begin(), order.end(), 0);
  if (c.attrs->Int("sorted", 1))
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return Before(rows[static_cast<size_t>(first[static_cast<size_t>(a)])],
                    rows[static_cast<size_t>(first[static_cast<size_t>(b)])]);
    });
  Index place(order.size()), chosen, sorted_counts;
  for (size_t i = 0; i < order.size(); ++i) {
    place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    chosen.push_back(first[static_cast<size_t>(order[i])]);
    sorted_counts.push_back(counts[static_cast<size_t>(order[i])]);
  }
  for (int64_t& i : inverse) i = place[static_cast<size_t>(i)];
  c.outputs.push_back(Take(c, s, chosen));
  c.outputs.push_back(FromIndex(chosen));
  c.outputs.push_back(FromIndex(inverse));
  c.outputs.push_back(FromIndex(sorted_counts));
  return OkStatus();
}

struct Box {
  double y1, x1, y2, x2;
};

// Corners in any order, or (x centre, y centre, width, height).
Box BoxAt(const double* p, bool centre) {
  if (centre) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

double Overlap(const Box& a, const Box& b) {
  const double h = std::max(0.0, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const double w = std::max(0.0, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const double both = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - h * w;
  return both > 0 ? h * w / both : 0;
}

Status NonMaxSuppression(Call& c) {
  const Tensor &boxes = c.in(0), &scores = c.in(1);
  const auto scalar = [&](int i, double fallback) {
    return c.has(i) && c.in(i).size() ? c.in(i).v[0] : fallback;
  };
  const int64_t most = static_cast<int64_t>(scalar(2, 0)), n = boxes.dims[1];
  const double iou = scalar(3, 0), least = scalar(4, -HUGE_VAL);
  const bool centre = c.attrs->Int("center_point_box", 0) != 0;
  std::vector<double> found;
  for (int64_t image = 0; image < scores.dims[0]; ++image) {
    for (int64_t cls = 0; cls < scores.dims[1]; ++cls) {
      const double* s = scores.v.data() + (image * scores.dims[1] + cls) * n;
      const double* b = boxes.v.data() + image * n * 4;
      Index order(static_cast<size_t>(n)), kept;
      std::iota(order.begin(), order.end(), 0);
      std::erase_if(order, [&](int64_t i) { return c.has(4) ? !(s[i] > least) : std::isnan(s[i]); });
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return s[x] > s[y]; });
      for (int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        if (std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
              return Overlap(BoxAt(b + 4 * k, centre), BoxAt(b + 4 * i, centre)) > iou;
            }))
          continue;
        kept.push_back(i);
        for (int64_t v : {image, cls, i}) found.push_back(static_cast<double>(v));
      }
    }
  }
  Tensor y = Tensor::Make(DType::kS64, {static_cast<int64_t>(found.size() / 3), 3});
  y.v = std::move(found);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status EyeLike(Call& c) {
  Tensor y = Tensor::Make(c.output_dtype, c.in(0).dims);
  const int64_t k = c.attrs->Int("k", 0), cols = y.dims[1];
  for (int64_t i = 0; i < y.size(); ++i) y.v[static_cast<size_t>(i)] = i % cols - i / cols == k;
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status CenterCropPad(Call& c) {
  const Tensor& x = c.in(0);
  const std::vector<int64_t> sizes = Ints(c.in(1));
  std::vector<int64_t> axes = c.attrs->Ints("axes");
  if (axes.empty())
    for (int i = 0; i < x.dims.rank(); ++i) axes.push_back(i);
  Dims dims = x.dims;
  Index shift(static_cast<size_t>(dims.rank()), 0);  // position in x less that in y
  for (size_t i = 0; i < axes.size(); ++i) {
    const int a = NormAxis(axes[i], dims.rank());
    const int64_t more = x.dims[a] - sizes[i];
    shift[static_cast<size_t>(a)] = more >= 0 ? more / 2 : -(-more / 2);
    dims[a] = sizes[i];
  }
  Tensor y = Tensor::Make(x.dtype, dims);
  Index at(static_cast<size_t>(dims.rank()), 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(at, dims)) {
    Index from = at;
    bool inside = true;
    for (size_t d = 0; d < from.size(); ++d) {
      from[d] += shift[d];
      inside &= from[d] >= 0 && from[d] < x.dims[static_cast<int>(d)];
    }
    if (inside) y.v[static_cast<size_t>(i)] = x.v[static_cast<size_t>(Offset(from, x.dims))];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// Positions count in the image that MaxPool had, all axes of it; the result may be larger.
Status MaxUnpool(Call& c) {
  const Tensor& x = c.in(0);
  const auto kernel = c.attrs->Ints("kernel_shape"), strides = c.attrs->Ints("strides"),
             pads = c.attrs->Ints("pads");
  Dims image = x.dims;
  const int spatial = x.dims.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    const size_t k = static_cast<size_t>(i);
    image[2 + i] = (x.dims[2 + i] - 1) * (strides.empty() ? 1 : strides[k]) + kernel[k] -
                   (pads.empty() ? 0 : pads[k] + pads[k + static_cast<size_t>(spatial)]);
  }
  Tensor y = Tensor::Make(x.dtype, c.output_dims[0]);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t flat = static_cast<int64_t>(c.in(1).v[static_cast<size_t>(i)]);
    Index at(static_cast<size_t>(image.rank()));
    for (int d = image.rank(); d-- > 0; flat /= image[d]) at[static_cast<size_t>(d)] = flat % image[d];
    y.v[static_cast<size_t>(Offset(at, y.dims))] = x.v[static_cast<size_t>(i)];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"NonZero", NonZero},    {"Compress", Compress},
                            {"Unique", Unique},      {"NonMaxSuppression", NonMaxSuppression},
                            {"EyeLike", EyeLike},    {"CenterCropPad", CenterCropPad},
                            {"MaxUnpool", MaxUnpool}};

}  // namespace

std::span<const Entry> SelectTable() { return kTable; }

}  // namespace opsnn::ref
