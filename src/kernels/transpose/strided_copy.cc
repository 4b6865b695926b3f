#include "kernels/transpose/strided_copy.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/pool_awake.h"
#include "base/work_range.h"
#include "isa/caches.h"
#include "kernels/transpose/runs.h"
#include "kernels/transpose/tile.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

// Below this a task costs more to hand over than to do (a copy moves some 10 bytes per nanosecond).
constexpr int64_t kTaskBytes = 128 << 10;
// One core moves as much while two get in each other's way (256 x 256 of f32: 6.0 us against 7.5 with two);
// and takes about as long as it takes to wake a thread.
constexpr int64_t kAloneBytes = 512 << 10, kWakeBytes = 2 << 20;
// Shares of a tile unit end on multiples of this many rows, so that every share but the last writes whole
// lines.
constexpr int64_t kRowGrain = 64;
constexpr int64_t kLine = 64;

}  // namespace

CopyPlan::CopyPlan(int elem_bytes, const Dims& dims, const Dims& src_strides, const Dims& dst_strides) {
  assert(dims.rank() == src_strides.rank() && dims.rank() == dst_strides.rank());
  if (NumElements(dims) == 0) return;
  Canonicalise(elem_bytes, dims, src_strides, dst_strides);
  // The innermost axis that is contiguous in the source but not in the destination, and the other way round.
  int col_axis = -1, row_axis = -1;
  for (int i = 0; i < num_outer_; ++i) {
    if (outer_[i].src == run_) col_axis = i;
    if (outer_[i].dst == run_) row_axis = i;
  }
  const auto take = [this](int i) {
    const Axis axis = outer_[i];
    std::copy(outer_ + i + 1, outer_ + num_outer_, outer_ + i);
    --num_outer_;
    return axis;
  };
  const bool element = run_ == 1 || run_ == 2 || run_ == 4 || run_ == 8;
  if (element && col_axis >= 0 && row_axis >= 0 && col_axis != row_axis) {
    kind_ = Kind::kTile;
    cols_ = take(col_axis);
    inner_ = take(row_axis > col_axis ? row_axis - 1 : row_axis);
  } else {
    kind_ = Kind::kRuns;
    if (num_outer_ > 0) inner_ = take(num_outer_ - 1);
  }
  for (int i = 0; i < num_outer_; ++i) outer_count_ *= outer_[i].n;
  const int64_t bytes = outer_count_ * inner_.n * cols_.n * run_;
  stream_ = std::max(bytes, vector::PartOfResult::Bytes()) >= vector::StreamingThreshold();
  if (stream_) TakeInSourceOrder();
}

// Stores past the caches do not mind in which order lines are written, but reads are fastest along the
// source.
void CopyPlan::TakeInSourceOrder() {
  const auto descending = [](const Axis& a, const Axis& b) { return std::abs(a.src) > std::abs(b.src); };
  if (kind_ == Kind::kTile) {
    std::stable_sort(outer_, outer_ + num_outer_, descending);
    return;
  }
  lines_ = run_ % kLine == 0 && inner_.dst % kLine == 0;
  for (int i = 0; i < num_outer_; ++i) lines_ = lines_ && outer_[i].dst % kLine == 0;
  if (!lines_) return;
  outer_[num_outer_] = inner_;
  std::stable_sort(outer_, outer_ + num_outer_ + 1, descending);
  inner_ = outer_[num_outer_];
  outer_count_ = 1;
  for (int i = 0; i < num_outer_; ++i) outer_count_ *= outer_[i].n;
}

void CopyPlan::Canonicalise(int elem_bytes, const Dims& dims, const Dims& src_strides,
                            const Dims& dst_strides) {
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == 1) continue;
    assert(dst_strides[i] != 0);
    outer_[num_outer_++] = {dims[i], src_strides[i] * elem_bytes, dst_strides[i] * elem_bytes};
  }
  std::stable_sort(outer_, outer_ + num_outer_, [](const Axis& a, const Axis& b) {
    return std::abs(a.dst) != std::abs(b.dst) ? std::abs(a.dst) > std::abs(b.dst)
                                              : std::abs(a.src) > std::abs(b.src);
  });
  int kept = 0;  // merge each axis into the one before it where that one steps over exactly all of it
  for (int i = 0; i < num_outer_; ++i) {
    const Axis a = outer_[i];
    if (kept > 0 && outer_[kept - 1].src == a.src * a.n && outer_[kept - 1].dst == a.dst * a.n) {
      outer_[kept - 1] = {outer_[kept - 1].n * a.n, a.src, a.dst};
    } else {
      outer_[kept++] = a;
    }
  }
  num_outer_ = kept;
  run_ = elem_bytes;
  if (kept > 0 && outer_[kept - 1].src == elem_bytes && outer_[kept - 1].dst == elem_bytes) {
    run_ = outer_[kept - 1].n * elem_bytes;
    --num_outer_;
  }
}

void CopyPlan::RunUnit(const char* src, char* dst, int64_t lo, int64_t hi, const char* next) const {
  if (kind_ == Kind::kTile) {
    Transpose2D({.elem_bytes = static_cast<int>(run_),
                 .rows = hi - lo,
                 .cols = cols_.n,
                 .src = src + lo * inner_.src,
                 .src_stride = inner_.src,
                 .dst = dst + lo * run_,
                 .dst_stride = cols_.dst,
                 .stream = stream_,
                 .next = next,
                 .flush = false});
  } else {
    const bool stream = lines_ && reinterpret_cast<uintptr_t>(dst) % kLine == 0;
    CopyRuns({src + lo * inner_.src, inner_.src, dst + lo * inner_.dst, inner_.dst, hi - lo, run_, stream});
  }
}

void CopyPlan::RunUnits(const char* src, char* dst, int64_t begin, int64_t end) const {
  int64_t index[kMaxRank] = {}, rest = begin;
  for (int k = num_outer_ - 1; k >= 0; --k) {
    index[k] = rest % outer_[k].n;
    rest /= outer_[k].n;
    src += index[k] * outer_[k].src;
    dst += index[k] * outer_[k].dst;
  }
  for (int64_t u = begin; u < end; ++u) {
    const char* const from = src;
    char* const to = dst;
    for (int k = num_outer_ - 1; k >= 0; --k) {
      src += outer_[k].src;
      dst += outer_[k].dst;
      if (++index[k] < outer_[k].n) break;
      index[k] = 0;
      src -= outer_[k].n * outer_[k].src;
      dst -= outer_[k].n * outer_[k].dst;
    }
    RunUnit(from, to, 0, inner_.n, u + 1 < end ? src : nullptr);
  }
  if (stream_) vector::FlushStreams();
}

// Whole rows of the destination: where threads write pieces of the same rows, the prefetchers of one ask for
// lines that the other is writing.
void CopyPlan::RunColumnShares(const char* src, char* dst, int64_t threads) const {
  const int64_t share = RoundUp(CeilDiv(cols_.n, threads), 64 / run_);
  ParallelOwned(CeilDiv(cols_.n, share), [&](int64_t t) {
    const int64_t at = t * share;
    Transpose2D({.elem_bytes = static_cast<int>(run_),
                 .rows = inner_.n,
                 .cols = std::min(share, cols_.n - at),
                 .src = src + at * run_,
                 .src_stride = inner_.src,
                 .dst = dst + at * cols_.dst,
                 .dst_stride = cols_.dst,
                 .stream = stream_});
  });
}

void CopyPlan::Run(const void* src_data, void* dst_data) const {
  if (kind_ == Kind::kEmpty) return;
  const char* src = static_cast<const char*>(src_data);
  char* dst = static_cast<char*>(dst_data);
  const int64_t unit_bytes = inner_.n * cols_.n * run_;
  const int64_t total = outer_count_ * unit_bytes, threads = ThreadsAvailable();
  if (total < kAloneBytes || threads == 1 || (total < kWakeBytes && !PoolAtHand()))
    return RunUnits(src, dst, 0, outer_count_);
  // Shares that stay in a thread's own cache are one task each: others that help would take their lines away.
  const int64_t share_bytes = (total + threads - 1) / threads;
  const bool stays = 4 * share_bytes <= isa::HostCaches().l2;
  const int64_t task_bytes = stays ? std::max(kTaskBytes, share_bytes) : kTaskBytes;
  if (stays && kind_ == Kind::kTile && outer_count_ == 1) return RunColumnShares(src, dst, threads);
  if (unit_bytes < task_bytes || outer_count_ >= 4 * threads) {  // several units make a task
    const int64_t group = std::max<int64_t>(1, task_bytes / unit_bytes);
    const int64_t tasks = (outer_count_ + group - 1) / group;
    return ParallelOwned(
        tasks, [&](int64_t t) { RunUnits(src, dst, t * group, std::min(outer_count_, (t + 1) * group)); });
  }
  if (kind_ == Kind::kRuns && num_outer_ == 0 && run_ >= kTaskBytes && inner_.n < 4 * threads) {
    const int64_t pieces = (run_ + kTaskBytes - 1) / kTaskBytes;  // few long runs: cut the runs themselves
    return ParallelOwned(inner_.n * pieces, [&](int64_t t) {
      const int64_t r = t / pieces, at = t % pieces * kTaskBytes;
      std::memcpy(dst + r * inner_.dst + at, src + r * inner_.src + at, std::min(kTaskBytes, run_ - at));
    });
  }
  // A task is a share of one unit. A short rest is added to the last share: tiles want at least a vector of
  // rows.
  const int64_t bytes_per_step = std::max<int64_t>(1, cols_.n * run_);
  int64_t share = std::max<int64_t>(1, task_bytes / bytes_per_step);
  if (kind_ == Kind::kTile) share = (share + kRowGrain - 1) / kRowGrain * kRowGrain;
  const int64_t shares = std::max<int64_t>(1, inner_.n / share);
  ParallelOwned(outer_count_ * shares, [&](int64_t t) {
    int64_t rest = t / shares, src_at = 0, dst_at = 0;
    for (int k = num_outer_ - 1; k >= 0; --k) {
      src_at += rest % outer_[k].n * outer_[k].src;
      dst_at += rest % outer_[k].n * outer_[k].dst;
      rest /= outer_[k].n;
    }
    const int64_t s = t % shares;
    RunUnit(src + src_at, dst + dst_at, s * share, s + 1 == shares ? inner_.n : (s + 1) * share);
    if (stream_) vector::FlushStreams();
  });
}

const char* CopyPlan::variant() const {
  if (kind_ == Kind::kEmpty) return "empty";
  if (kind_ == Kind::kTile) return "tile";
  return run_ <= 8 ? "walk" : "runs";
}

CopyPlan TransposePlan(int elem_bytes, const Dims& dims, const Dims& perm) {
  const Dims strides = ContiguousStrides(dims);
  Dims out_dims = dims, src_strides = strides;
  for (int i = 0; i < dims.rank(); ++i) {
    out_dims[i] = dims[static_cast<int>(perm[i])];
    src_strides[i] = strides[static_cast<int>(perm[i])];
  }
  return CopyPlan(elem_bytes, out_dims, src_strides, ContiguousStrides(out_dims));
}

void Transpose(int elem_bytes, const Dims& dims, const Dims& perm, const void* src, void* dst) {
  TransposePlan(elem_bytes, dims, perm).Run(src, dst);
}

void CopyView(const TensorView& from, const TensorView& to) {
  assert(SizeOf(from.dtype) == SizeOf(to.dtype) && from.dims == to.dims);
  CopyPlan(static_cast<int>(SizeOf(from.dtype)), from.dims, from.strides, to.strides).Run(from.data, to.data);
}

}  // namespace opsnn::kernels
