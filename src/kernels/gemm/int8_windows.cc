#include "kernels/gemm/int8_windows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

constexpr int64_t kVector = 16;  // bytes that are moved at a time

// Exactly n bytes: planes of images are short and many, so that calls of memcpy would show.
inline void CopyExactly(uint8_t* to, const uint8_t* from, int64_t n) {
  if (n >= kVector) {
    for (int64_t i = 0; i + kVector <= n; i += kVector) std::memcpy(to + i, from + i, kVector);
    std::memcpy(to + n - kVector, from + n - kVector, kVector);
  } else if (n >= 8) {
    uint64_t a, b;
    std::memcpy(&a, from, 8), std::memcpy(&b, from + n - 8, 8);
    std::memcpy(to, &a, 8), std::memcpy(to + n - 8, &b, 8);
  } else if (n >= 4) {
    uint32_t a, b;
    std::memcpy(&a, from, 4), std::memcpy(&b, from + n - 4, 4);
    std::memcpy(to, &a, 4), std::memcpy(to + n - 4, &b, 4);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// n bytes that are `step` apart. Every other byte is the low half of a word, but for the last, behind which
// nothing need lie.
inline void Gather(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  int64_t i = 0;
  if (step == 2) {
    for (; i + 1 < n; ++i) {
      uint16_t two;
      std::memcpy(&two, from + 2 * i, sizeof(two));
      to[i] = static_cast<uint8_t>(two);
    }
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

// At least n bytes, and up to a vector more where n is small; `vector` holds the value.
inline void Fill(uint8_t* to, const std::array<uint8_t, kVector>& vector, int64_t n) {
  if (n > kVector) {
    std::memset(to, vector[0], static_cast<size_t>(n));
  } else if (n > 0) {
    std::memcpy(to, vector.data(), kVector);
  }
}

}  // namespace

CutImage::CutImage(const ByteWindows& w) {
  for (int a = 0; a < 3; ++a) {
    Axis& x = axis_[a];
    int64_t last = 0;
    for (int64_t t = 0; t < w.kernel[a]; ++t) {
      const int64_t at = t * w.dilation[a], remainder = at % w.stride[a];
      const auto found = std::find(x.remainder.begin(), x.remainder.end(), remainder);
      x.plane_of.push_back(found - x.remainder.begin());
      if (found == x.remainder.end()) x.remainder.push_back(remainder);
      x.at.push_back(at / w.stride[a]);
      last = std::max(last, x.at.back());
    }
    x.size = w.out[a] + last;
  }
  const int64_t plane = PlaneBytes();
  const auto planes = [&](int a) { return static_cast<int64_t>(axis_[a].remainder.size()); };
  // What fills a line's end may go on behind the last one.
  channel_bytes_ = planes(0) * planes(1) * planes(2) * plane + kVector;
  for (size_t z = 0; z < axis_[2].at.size(); ++z)
    for (size_t y = 0; y < axis_[0].at.size(); ++y)
      for (size_t x = 0; x < axis_[1].at.size(); ++x) {
        const int64_t which =
            (axis_[2].plane_of[z] * planes(0) + axis_[0].plane_of[y]) * planes(1) + axis_[1].plane_of[x];
        taps_.push_back(which * plane + (axis_[2].at[z] * axis_[0].size + axis_[0].at[y]) * axis_[1].size +
                        axis_[1].at[x]);
      }
}

// Positions [lo, hi) of an axis lie in the image, those of this remainder.
CutImage::Inside CutImage::InsideOf(const ByteWindows& w, int axis, int64_t remainder) const {
  const int64_t size = axis_[axis].size, stride = w.stride[axis], first = remainder - w.pad[axis];
  Inside x;  // position i is first + i * stride of the image
  x.lo = std::clamp<int64_t>(first < 0 ? CeilDiv(-first, stride) : 0, 0, size);
  x.hi = std::clamp<int64_t>(w.in[axis] > first ? CeilDiv(w.in[axis] - first, stride) : 0, x.lo, size);
  x.first = (first + x.lo * stride) * w.in_stride[axis];
  x.step = stride * w.in_stride[axis];
  return x;
}

// One slice of a plane, `from` being its first line in the image. What fills a line's end is written over by
// the next line.
void CutImage::CopySlice(const Inside& rows, const Inside& cols, const uint8_t* from, uint8_t fill,
                         uint8_t* to) const {
  std::array<uint8_t, kVector> filled;
  filled.fill(fill);
  const int64_t size = axis_[1].size, n = cols.hi - cols.lo, right = size - cols.hi;
  const int64_t height = axis_[0].size;
  Fill(to, filled, rows.lo * size);
  to += rows.lo * size;
  from += cols.first;
  for (int64_t y = rows.lo; y < rows.hi; ++y, from += rows.step, to += size) {
    Fill(to, filled, cols.lo);
    if (cols.step == 1) {
      CopyExactly(to + cols.lo, from, n);
    } else {
      Gather(from, cols.step, to + cols.lo, n);
    }
    Fill(to + cols.hi, filled, right);
  }
  Fill(to, filled, (height - rows.hi) * size);
}

void CutImage::CopyChannel(const ByteWindows& w, const uint8_t* plane, uint8_t* to) const {
  const int64_t slice = axis_[0].size * axis_[1].size;
  for (const int64_t rz : axis_[2].remainder)
    for (const int64_t ry : axis_[0].remainder)
      for (const int64_t rx : axis_[1].remainder) {
        const Inside slices = InsideOf(w, 2, rz), cols = InsideOf(w, 1, rx);
        Inside rows = InsideOf(w, 0, ry);
        if (cols.lo == cols.hi) rows.hi = rows.lo;
        for (int64_t z = 0; z < axis_[2].size; ++z, to += slice) {
          Inside mine = rows;
          if (z < slices.lo || z >= slices.hi) mine.lo = mine.hi = 0;
          const int64_t at = slices.first + (z - slices.lo) * slices.step + rows.first;
          CopySlice(mine, cols, mine.lo < mine.hi ? plane + at : plane, w.fill, to);
        }
      }
}

// Rows of a group each through memory: each a few runs of neighbouring bytes.
void CutImage::PackRows(const Panel& p, int64_t groups, const int32_t* columns, uint8_t* dst) const {
  struct Run {
    int32_t from, to, n;
  };
  std::array<Run, kInt8Cols> runs;
  int64_t num_runs = 0;
  for (int32_t j = 0; j < p.count; ++j) {
    if (j > 0 && columns[j] == columns[j - 1] + 1) {
      ++runs[static_cast<size_t>(num_runs - 1)].n;
    } else {
      runs[static_cast<size_t>(num_runs++)] = {columns[j], j, 1};
    }
  }
  constexpr int64_t kGroups = 16;
  uint8_t rows[kGroups * kInt8Group * kInt8Cols + 2 * kVector] = {};
  const auto taps = static_cast<int64_t>(taps_.size());
  WindowRows source{p.image + p.k0 / taps * channel_bytes_, taps_.data(), taps, p.k0 % taps, channel_bytes_};
  for (int64_t g = 0; g < groups; g += kGroups) {
    const int64_t some = std::min(kGroups, groups - g);
    for (int64_t r = 0; r < some * kInt8Group; ++r) {
      const uint8_t* from = source.Next();
      uint8_t* to = rows + r * kInt8Cols;
      for (int64_t i = 0; i < num_runs; ++i) {
        const Run& run = runs[static_cast<size_t>(i)];
        std::memcpy(to + run.to, from + run.from, kVector);
        if (run.n > kVector) std::memcpy(to + run.to + kVector, from + run.from + kVector, kVector);
      }
    }
    PackInt8Rows(rows, kInt8Cols, some, p.flip, dst + g * kInt8Cols * kInt8Group);
  }
}

// The group at k, where the last windows end.
void CutImage::PackLast(const ByteWindows& w, const Panel& p, int64_t k, const int32_t* columns,
                        uint8_t* dst) const {
  const auto taps = static_cast<int64_t>(taps_.size());
  for (int64_t u = 0; u < kInt8Group; ++u, ++k) {
    const uint8_t* row = p.image + k / taps * channel_bytes_ + taps_[static_cast<size_t>(k % taps)];
    for (int64_t j = 0; j < kInt8Cols; ++j)
      dst[j * kInt8Group + u] = static_cast<uint8_t>((k < w.depth() ? row[columns[j]] : w.fill) ^ p.flip);
  }
}

void CutImage::Pack(const ByteWindows& w, const Panel& p, uint8_t* dst) const {
  std::array<int32_t, kInt8Cols> columns;
  int64_t x = p.first % w.out[1], line = p.first / w.out[1], y = line % w.out[0], z = line / w.out[0];
  const int64_t start = (z * axis_[0].size + y) * axis_[1].size + x;
  for (int64_t j = 0; j < kInt8Cols; ++j) {
    if (j < p.count) {
      const int64_t at = (z * axis_[0].size + y) * axis_[1].size + x - start;
      columns[static_cast<size_t>(j)] = static_cast<int32_t>(at);
      if (++x == w.out[1]) x = 0, ++y;
      if (y == w.out[0]) y = 0, ++z;
    } else {
      columns[static_cast<size_t>(j)] = columns[static_cast<size_t>(j - 1)];
    }
  }
  Panel q = p;
  q.image += start;
  const int64_t end = std::min(p.k0 + p.depth, w.depth()), groups = (end - p.k0) / kInt8Group;
  constexpr int64_t kHalf = kInt8Cols / 2, kReach = 64;
  const bool near = columns[kHalf - 1] < kReach && columns[kInt8Cols - 1] - columns[kHalf] < kReach;
  if (const PackWindowsFn pack = near ? PackWindowsVbmi() : nullptr) {
    const auto taps = static_cast<int64_t>(taps_.size());
    pack({q.image + p.k0 / taps * channel_bytes_, taps_.data(), taps, p.k0 % taps, channel_bytes_}, groups,
         columns.data(), p.flip, dst);
  } else {
    PackRows(q, groups, columns.data(), dst);
  }
  if (groups * kInt8Group < p.depth)
    PackLast(w, q, p.k0 + groups * kInt8Group, columns.data(), dst + groups * kInt8Cols * kInt8Group);
}

}  // namespace opsnn::gemm
