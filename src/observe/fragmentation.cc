#include "observe/fragmentation.h"

#include <algorithm>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"

namespace opsnn::observe {
namespace {

struct Piece {
  size_t begin, end;  // of the arena
  int first, last;    // steps
};

// `live`: pieces that hold something in this step, in the order of their places.
Holes HolesBetween(const std::vector<Piece>& live, size_t arena, int step) {
  Holes h;
  h.step = step;
  size_t at = 0;
  const auto gap = [&](size_t end) {
    if (end > at) ++h.count, h.bytes += end - at, h.largest = std::max(h.largest, end - at);
  };
  for (const Piece& p : live) {
    gap(p.begin);
    at = std::max(at, p.end);
  }
  gap(arena);
  return h;
}

}  // namespace

Fragmentation FragmentationOf(const graph::Prepared& prepared) {
  Fragmentation f;
  const graph::MemoryPlan& plan = prepared.memory();
  std::vector<Piece> pieces;
  const auto add = [&](size_t offset, size_t bytes, int first, int last) {
    if (bytes == 0) return;
    const size_t taken = RoundUp(bytes, kAlignment);
    f.padding += taken - bytes;
    pieces.push_back({offset, offset + taken, first, last});
  };
  for (const graph::Buffer& b : plan.buffers)
    if (b.kind == graph::BufferKind::kArena) add(b.offset, b.bytes, b.first, b.last);
  const int steps = static_cast<int>(prepared.steps().size());
  for (int i = 0; i < steps; ++i) {
    const op::KernelPtr& kernel = prepared.steps()[static_cast<size_t>(i)].kernel;
    if (kernel) add(plan.workspace_offset[static_cast<size_t>(i)], kernel->workspace_bytes(), i, i);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<Piece> live;
  for (int i = 0; i < steps; ++i) {
    live.clear();
    for (const Piece& p : pieces)
      if (p.first <= i && i <= p.last) live.push_back(p);
    const Holes h = HolesBetween(live, plan.arena_bytes, i);
    if (f.at_peak.step < 0 || h.bytes < f.at_peak.bytes) f.at_peak = h;
    if (f.most_scattered.step < 0 || h.Scattered() > f.most_scattered.Scattered()) f.most_scattered = h;
  }
  return f;
}

}  // namespace opsnn::observe
