// What a session plans or proves before anybody runs it.
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "graph/session.h"
#include "tensor/limits.h"

namespace opsnn::graph {

Result<std::vector<BucketAxis>> Session::OwnRows(const Shapes& shapes, const std::vector<int>& axes,
                                                 int64_t size) const {
  OPSNN_ASSIGN_OR_RETURN(Key key, MakeKey(shapes, {}));
  std::vector<PassStat> stats;
  OPSNN_ASSIGN_OR_RETURN(const Graph a, Concrete(key, &stats, nullptr));
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] >= 0) key.dims[i][axes[i]] *= 2;
  OPSNN_ASSIGN_OR_RETURN(const Graph b, Concrete(key, &stats, nullptr));
  return graph::OwnRows(a, size, b, 2 * size, axes);
}

namespace {

// Has the system give an arena its pages: where memory is in pieces, making huge ones takes milliseconds
// each, which the first run would wait for.
void MapPages(size_t bytes, ArenaPool* arenas) {
  constexpr size_t kMost = size_t{64} << 20;  // more is left to whoever runs such sizes
  constexpr size_t kPage = size_t{4} << 10, kPiece = size_t{2} << 20;
  Arena arena = arenas->Take(std::min(bytes, kMost));
  if (!arena.data()) return;
  ParallelFor(static_cast<int64_t>((arena.bytes() + kPiece - 1) / kPiece), [&](int64_t i, int) {
    const size_t first = static_cast<size_t>(i) * kPiece, end = std::min(first + kPiece, arena.bytes());
    for (size_t at = first; at < end; at += kPage) arena.data()[at] = 0;
  });
  arenas->Give(std::move(arena));
}

}  // namespace

std::optional<Session::Key> Session::LikelyKey() const {
  constexpr int64_t kBatch = 1, kPixels = 320, kTokens = 128;
  constexpr int64_t kMostElements = int64_t{1}
                                    << 26;  // planning for more than that waits until somebody asks
  Key key;
  std::map<std::string, int64_t> named;
  for (ValueId v : imported_.inputs) {
    const Value& input = imported_.values[v];
    if (!input.desc.known_rank) return std::nullopt;
    Dims dims = input.desc.dims;
    for (int i = 0; i < dims.rank(); ++i) {
      if (dims[i] != kUnknownDim) continue;
      const int64_t size = i == 0 ? kBatch : dims.rank() == 4 && i >= 2 ? kPixels : kTokens;
      const std::string name =
          i < static_cast<int>(input.dim_names.size()) ? input.dim_names[static_cast<size_t>(i)] : "";
      dims[i] = name.empty() ? size : named.emplace(name, size).first->second;
    }
    const auto count = CheckedNumElements(dims);
    if (!count || *count > kMostElements) return std::nullopt;
    key.dims.push_back(dims);
  }
  return key;
}

void Session::PrepareAhead() {
  const std::optional<Key> key = LikelyKey();
  if (!key) return;
  // Warnings of what the model declares are about sizes that somebody asked for.
  std::vector<ValueId> declared = std::exchange(declared_, {});
  auto prepared = Plan(*key, nullptr);
  declared_ = std::move(declared);
  if (!prepared.ok()) return;
  MapPages((*prepared)->peak_bytes(), arenas_.get());
  if (template_) scratch_ = loaded_;  // the next size will want it
  Form form;
  form.prepared = *std::move(prepared);
  Keep(*key, std::move(form));
  const std::lock_guard lock(mutex_);
  ahead_ = *key;
}

}  // namespace opsnn::graph
