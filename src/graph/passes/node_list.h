// NodeList: node ids in order of arrival. Most values have one or two readers, and every pass makes such a
// list for every value, so two fit without memory of their own.
#ifndef OPSNN_GRAPH_PASSES_NODE_LIST_H_
#define OPSNN_GRAPH_PASSES_NODE_LIST_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/ir/graph.h"

namespace opsnn::graph {

class NodeList {
 public:
  NodeList() = default;
  NodeList(NodeList&&) noexcept = default;
  NodeList& operator=(NodeList&&) noexcept = default;

  const NodeId* begin() const { return more_ ? more_.get() : few_; }
  const NodeId* end() const { return begin() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  NodeId operator[](size_t i) const { return begin()[i]; }
  NodeId back() const { return begin()[size_ - 1]; }
  bool Has(NodeId n) const { return std::find(begin(), end(), n) != end(); }

  void Add(NodeId n) {
    if (size_ == capacity_) Grow();
    Data()[size_++] = n;
  }
  void Remove(NodeId n) { size_ = static_cast<uint32_t>(std::remove(Data(), Data() + size_, n) - Data()); }
  void Clear() { size_ = 0; }

 private:
  static constexpr uint32_t kFew = 2;
  NodeId* Data() { return more_ ? more_.get() : few_; }
  void Grow() {
    auto larger = std::make_unique<NodeId[]>(2 * capacity_);
    std::copy(begin(), end(), larger.get());
    more_ = std::move(larger);
    capacity_ *= 2;
  }

  std::unique_ptr<NodeId[]> more_;
  uint32_t size_ = 0, capacity_ = kFew;
  NodeId few_[kFew] = {};
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PASSES_NODE_LIST_H_
