// Arena: memory for the activations of a run that grows without losing the pages it already has.
//
// The C library would return a large block to the system and fault in every page of the next, larger one.
// Here the old pages are moved to the front of a new range of addresses, so a larger size pays for what it
// adds.
#ifndef OPSNN_GRAPH_ARENA_H_
#define OPSNN_GRAPH_ARENA_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace opsnn::graph {

class Arena {
 public:
  Arena() = default;
  Arena(Arena&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)),
        bytes_(std::exchange(o.bytes_, 0)),
        pieces_(std::exchange(o.pieces_, {})) {}
  Arena& operator=(Arena&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(pieces_, o.pieces_);
    return *this;
  }
  ~Arena() { Release(); }

  // Makes it at least `bytes` large; addresses and contents change. False when there is no memory, and then
  // it holds nothing.
  bool Grow(size_t bytes);
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void Release();
  char* data_ = nullptr;
  size_t bytes_ = 0;
  std::vector<size_t>
      pieces_;  // sizes of the mappings that lie one behind the other: each can only move alone
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_ARENA_H_
