#include "graph/placement.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

namespace opsnn::graph {
namespace {

enum class Gap : uint8_t { kSmallest, kLowest };

bool Together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// Places blocks in the given order, each at the start of a gap that fits among the blocks placed before that
// live at the same time, or behind them. Returns the arena's size.
size_t Place(std::vector<Block>& blocks, const std::vector<int>& order, Gap gap) {
  std::vector<const Block*> placed;  // sorted by offset
  placed.reserve(blocks.size());
  size_t total = 0;
  for (int i : order) {
    Block& b = blocks[static_cast<size_t>(i)];
    size_t end = 0, best_gap = SIZE_MAX, best = SIZE_MAX;
    for (const Block* p : placed) {
      if (!Together(*p, b)) continue;
      if (p->offset >= end + b.bytes && p->offset - end < best_gap) {
        best_gap = gap == Gap::kLowest ? 0 : p->offset - end;
        best = end;
      }
      end = std::max(end, p->offset + p->bytes);
    }
    b.offset = best != SIZE_MAX ? best : end;
    total = std::max(total, b.offset + b.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &b,
                                   [](const Block* x, const Block* y) { return x->offset < y->offset; }),
                  &b);
  }
  return total;
}

// What lives in each step.
std::vector<size_t> Curve(const std::vector<Block>& blocks) {
  int steps = 0;
  for (const Block& b : blocks) steps = std::max(steps, b.last + 1);
  std::vector<size_t> live(static_cast<size_t>(steps), 0);
  for (const Block& b : blocks)
    for (int s = b.first; s <= b.last; ++s) live[static_cast<size_t>(s)] += b.bytes;
  return live;
}

using Key = std::function<std::pair<size_t, size_t>(const Block&)>;

std::vector<int> Order(const std::vector<Block>& blocks, const Key& key) {
  std::vector<std::pair<size_t, size_t>> keys;
  for (const Block& b : blocks) keys.push_back(key(b));
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
  return order;
}

}  // namespace

size_t LivePeak(const std::vector<Block>& blocks) {
  const std::vector<size_t> live = Curve(blocks);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

Placement PlaceBlocks(std::vector<Block>& blocks) {
  const std::vector<size_t> live = Curve(blocks);
  const size_t least = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  // A new input size waits for this: where little is at stake a sixteenth more is good enough.
  constexpr size_t kLarge = size_t{64} << 20;
  const size_t enough = least + least / (least < kLarge ? 16 : 64);
  const auto steps = [](const Block& b) { return static_cast<size_t>(b.last - b.first) + 1; };
  // The fullest step that the block lives in.
  const auto fullest = [&](const Block& b) {
    return *std::max_element(live.begin() + b.first, live.begin() + b.last + 1);
  };
  const std::pair<const char*, Key> orders[] = {
      {"size", [](const Block& b) { return std::pair(SIZE_MAX - b.bytes, size_t{0}); }},
      {"time", [](const Block& b) { return std::pair(static_cast<size_t>(b.first), size_t{0}); }},
      {"size x lifetime",
       [&](const Block& b) { return std::pair(SIZE_MAX - b.bytes * steps(b), size_t{0}); }},
      {"lifetime", [&](const Block& b) { return std::pair(SIZE_MAX - steps(b), SIZE_MAX - b.bytes); }},
      {"fullest step", [&](const Block& b) { return std::pair(SIZE_MAX - fullest(b), SIZE_MAX - b.bytes); }},
  };
  Placement best;
  best.bytes = SIZE_MAX;
  std::vector<Block> placed;
  for (const auto& [name, key] : orders) {
    const std::vector<int> order = Order(blocks, key);
    for (const auto& [gap, text] :
         {std::pair(Gap::kSmallest, ", smallest gap"), std::pair(Gap::kLowest, ", lowest gap")}) {
      const size_t bytes = Place(blocks, order, gap);
      best.tried.emplace_back(name + std::string(text), bytes);
      if (bytes < best.bytes) {
        best.bytes = bytes;
        best.strategy = best.tried.back().first;
        placed = blocks;
      }
      if (best.bytes <= enough) break;
    }
    if (best.bytes <= enough) break;
  }
  blocks = std::move(placed);
  return best;
}

}  // namespace opsnn::graph
