// NodeAttrs: the attributes of a node. Copies of a graph share them until one of them changes.
#ifndef OPSNN_GRAPH_IR_NODE_ATTRS_H_
#define OPSNN_GRAPH_IR_NODE_ATTRS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "op/attrs.h"

namespace opsnn::graph {

class NodeAttrs {
 public:
  NodeAttrs() = default;
  NodeAttrs(op::Attrs attrs) : shared_(std::make_shared<op::Attrs>(std::move(attrs))) {}

  const op::Attrs& get() const {
    static const op::Attrs none;
    return shared_ ? *shared_ : none;
  }
  operator const op::Attrs&() const { return get(); }
  bool Has(std::string_view name) const { return get().Has(name); }
  int64_t Int(std::string_view name, int64_t fallback) const { return get().Int(name, fallback); }
  double Float(std::string_view name, double fallback) const { return get().Float(name, fallback); }
  std::string String(std::string_view name, std::string fallback) const {
    return get().String(name, std::move(fallback));
  }
  std::vector<int64_t> Ints(std::string_view name) const { return get().Ints(name); }
  std::vector<double> Floats(std::string_view name) const { return get().Floats(name); }
  ConstTensor Tensor(std::string_view name) const { return get().Tensor(name); }
  const auto& all() const { return get().all(); }
  bool SameObject(const NodeAttrs& o) const { return shared_ == o.shared_; }

  void Set(std::string name, op::AttrValue v) { Own().Set(std::move(name), std::move(v)); }
  void Erase(std::string_view name) { Own().Erase(name); }

 private:
  op::Attrs& Own() {
    if (!shared_ || shared_.use_count() > 1) shared_ = std::make_shared<op::Attrs>(get());
    return *shared_;
  }
  std::shared_ptr<op::Attrs> shared_;  // null: there are none
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_IR_NODE_ATTRS_H_
