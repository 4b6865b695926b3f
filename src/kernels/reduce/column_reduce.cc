#include "kernels/reduce/column_reduce.h"

#include <algorithm>
#include <array>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/work_range.h"
#include "isa/caches.h"

namespace opsnn::kernels {
namespace {

// Converted rows, eight of f64, take 32 KiB: L1. Rows that are read in place need no such copies, and runs of
// a strip as long as 16 KiB are read like a stream.
constexpr int64_t kStripCols = 512;
constexpr int64_t kWideBytes = 16 << 10;
constexpr int kGroup = 8;
// Below this many elements per task a thread costs more than it brings.
constexpr int64_t kMinTaskElements = 1 << 14;

DType StorageOf(ComputeType t) {
  static constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kS32, DType::kS64};
  return kTypes[static_cast<int>(t)];
}

// Rows are read where they lie.
bool IsDirect(const ColumnReduce& r) {
  return r.prologue == nullptr && r.x_dtype == StorageOf(r.type) && r.x_col_stride == 1;
}

// One strip of columns, all its rows. Scratch is per thread: a group of converted rows and two accumulators.
class Strip {
 public:
  Strip(const ColumnReduce& r, const void* x, int64_t x_offset, int64_t cols)
      : r_(r),
        x_(static_cast<const char*>(x)),
        x_offset_(x_offset),
        cols_(cols),
        x_size_(SizeOf(r.x_dtype)),
        acc_size_(SizeOf(StorageOf(r.type))) {
    // In L2, which holds as much again beside it.
    near_ = IsDirect(r) && r.rows.rank() == 1 &&
            2 * NumElements(r.outer) * NumElements(r.rows) * r.cols * x_size_ <= isa::HostCaches().l2;
    direct_ = IsDirect(r) || (cols == 1 && r.prologue == nullptr && r.x_dtype == StorageOf(r.type));
  }

  // Combines rows [first, last) into acc, which holds the strip's values.
  void Reduce(int64_t first, int64_t last, void* acc) {
    FillNeutral(r_.op, r_.type, acc, cols_);
    if (last - first <= kRowsPerPartial) return ReduceGroups(first, last, acc);
    for (int64_t row = first; row < last; row += kRowsPerPartial) {
      FillNeutral(r_.op, r_.type, partial_, cols_);
      ReduceGroups(row, std::min(row + kRowsPerPartial, last), partial_);
      const void* p = partial_;
      CombineRows(r_.op, r_.type, &p, 1, acc, cols_);
    }
  }

 private:
  void ReduceGroups(int64_t first, int64_t last, void* acc) {
    if (near_) {
      const char* const from = x_ + (x_offset_ + first * r_.x_row_strides[0]) * x_size_;
      return CombineNearRows(r_.op, r_.type, from, r_.x_row_strides[0], last - first, acc, cols_);
    }
    for (int64_t row = first; row < last; row += kGroup) {
      const int count = static_cast<int>(std::min<int64_t>(kGroup, last - row));
      std::array<const void*, kGroup> rows;
      if (r_.prologue != nullptr && r_.rows.rank() == 1) {
        ConvertGroup(row, count);
        for (int i = 0; i < count; ++i) rows[i] = rows_ + i * kStripCols * acc_size_;
      } else {
        for (int i = 0; i < count; ++i) rows[i] = Row(row + i, i);
      }
      CombineRows(r_.op, r_.type, rows.data(), count, acc, cols_);
    }
  }

  // Rows of equal distance go through the prologue as one block.
  void ConvertGroup(int64_t row, int count) {
    const char* from = x_ + (x_offset_ + row * r_.x_row_strides[0]) * x_size_;
    const vector::BlockArg args[] = {
        {const_cast<char*>(from), r_.x_dtype, r_.x_row_strides[0], r_.x_col_stride},
        {rows_, StorageOf(r_.type), kStripCols, 1}};
    vector::RunBlock(*r_.prologue, count, cols_, args);
  }

  // Row `row` in the accumulator's type: in place, or converted into the i-th row of the scratch.
  const void* Row(int64_t row, int i) {
    const char* from = x_ + (x_offset_ + OffsetOf(row, r_.rows, r_.x_row_strides)) * x_size_;
    if (direct_) return from;
    char* to = rows_ + i * kStripCols * acc_size_;
    const vector::BlockArg in = {const_cast<char*>(from), r_.x_dtype, 0, r_.x_col_stride};
    const vector::BlockArg out = {to, StorageOf(r_.type), 0, 1};
    if (r_.prologue != nullptr) {
      const vector::BlockArg args[] = {in, out};
      vector::RunBlock(*r_.prologue, 1, cols_, args);
    } else {
      vector::CopyConvert({in.data, in.dtype, {cols_}, {r_.x_col_stride}}, {to, out.dtype, {cols_}, {1}});
    }
    return to;
  }

  const ColumnReduce& r_;
  const char* x_;
  int64_t x_offset_, cols_;
  int64_t x_size_, acc_size_;
  bool direct_, near_;
  alignas(64) char rows_[kGroup * kStripCols * sizeof(double)];
  alignas(64) char partial_[kWideBytes];
};

void StoreStrip(const ColumnReduce& r, void* acc, void* y, int64_t offset, int64_t cols) {
  void* to = static_cast<char*>(y) + offset * static_cast<int64_t>(SizeOf(r.y_dtype));
  if (r.epilogue == nullptr) {
    vector::CopyConvert({acc, StorageOf(r.type), {cols}, {1}}, {to, r.y_dtype, {cols}, {r.y_col_stride}});
    return;
  }
  const vector::BlockArg args[] = {{acc, StorageOf(r.type), 0, 1}, {to, r.y_dtype, 0, r.y_col_stride}};
  vector::RunBlock(*r.epilogue, 1, cols, args);
}

}  // namespace

void ReduceColumns(const ColumnReduce& r, const void* x, void* y) {
  const int64_t outer = NumElements(r.outer), rows = NumElements(r.rows);
  if (outer == 0 || r.cols == 0) return;
  // Few strips and many rows: rows are split too. The split depends on the shape only; each part covers whole
  // partials, so that the order of additions is that of one part up to the merging of parts.
  const int64_t partials = std::max<int64_t>(1, (rows + kRowsPerPartial - 1) / kRowsPerPartial);
  constexpr int64_t kTasks = 16;
  int64_t width = kStripCols;
  if (IsDirect(r)) {
    const int64_t widest = kWideBytes / static_cast<int64_t>(SizeOf(r.x_dtype));
    while (width < widest && outer * CeilDiv(r.cols, 2 * width) * partials >= kTasks) width *= 2;
  }
  const int64_t strips = CeilDiv(r.cols, width);
  const int64_t parts = outer * strips >= kTasks ? 1 : std::min(partials, kTasks);
  const int64_t part_rows = (partials + parts - 1) / parts * kRowsPerPartial;
  const int64_t acc_bytes = width * static_cast<int64_t>(SizeOf(StorageOf(r.type)));
  AlignedBuffer accs(static_cast<size_t>(outer * strips * (parts > 1 ? parts : 0) * acc_bytes));

  const auto strip_cols = [&](int64_t s) { return std::min(width, r.cols - s * width); };
  const auto finish = [&](int64_t task, void* acc) {
    const int64_t s = task % strips;
    const int64_t y_offset = OffsetOf(task / strips, r.outer, r.y_outer_strides) + s * width * r.y_col_stride;
    StoreStrip(r, acc, y, y_offset, strip_cols(s));
  };
  const int64_t tasks = outer * strips * parts;
  const auto reduce_part = [&](int64_t task, int64_t part, void* acc) {
    const int64_t s = task % strips;
    const int64_t x_offset = OffsetOf(task / strips, r.outer, r.x_outer_strides) + s * width * r.x_col_stride;
    Strip strip(r, x, x_offset, strip_cols(s));
    strip.Reduce(std::min(part * part_rows, rows), std::min((part + 1) * part_rows, rows), acc);
  };
  if (parts > 1 && !accs) {  // no memory to split: the same parts one after the other
    for (int64_t task = 0; task < outer * strips; ++task) {
      alignas(64) char acc[kWideBytes];
      alignas(64) char next[kWideBytes];
      reduce_part(task, 0, acc);
      for (int64_t part = 1; part < parts; ++part) {
        reduce_part(task, part, next);
        const void* other = next;
        CombineRows(r.op, r.type, &other, 1, acc, strip_cols(task % strips));
      }
      finish(task, acc);
    }
    return;
  }
  const auto run = [&](int64_t t) {
    const int64_t task = t / parts;
    alignas(64) char local[kWideBytes];
    void* acc = parts == 1 ? local : accs.as<char>() + t * acc_bytes;
    reduce_part(task, t % parts, acc);
    if (parts == 1) finish(task, acc);
  };
  if (outer * rows * r.cols < 2 * kMinTaskElements) {
    for (int64_t t = 0; t < tasks; ++t) run(t);
  } else {
    ParallelOwned(tasks, run);
  }
  if (parts == 1) return;
  for (int64_t task = 0; task < outer * strips; ++task) {
    char* first = accs.as<char>() + task * parts * acc_bytes;
    for (int64_t part = 1; part < parts; ++part) {
      const void* other = first + part * acc_bytes;
      CombineRows(r.op, r.type, &other, 1, first, strip_cols(task % strips));
    }
    finish(task, first);
  }
}

}  // namespace opsnn::kernels
