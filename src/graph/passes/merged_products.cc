// Products of one tensor with several constant matrices become one product with the matrices side by side:
// the projections to queries, keys and values of attention. A Split then names the parts, which are read
// where they lie (parts.cc); where a reader could not, the parts would be copied, and nothing is merged. Each
// column is the same sum as before.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// One of the products, with its bias where it has one.
struct Product {
  NodeId matmul = -1, add = -1;
  ValueId weight = kNoValue, bias = kNoValue, result = kNoValue;
  int64_t columns = 0;
};

// Matrices of `rows` rows side by side; null where there is no memory.
ConstTensor SideBySide(const std::vector<const HostTensor*>& parts, int64_t rows, bool vectors) {
  int64_t columns = 0;
  for (const HostTensor* t : parts) columns += t->size() / rows;
  auto all = std::make_shared<HostTensor>(DType::kF32, vectors ? Dims{columns} : Dims{rows, columns});
  if (!all->ok()) return nullptr;
  for (int64_t r = 0; r < rows; ++r) {
    float* to = all->as<float>() + r * columns;
    for (const HostTensor* t : parts) {
      const int64_t n = t->size() / rows;
      std::memcpy(to, t->as<float>() + r * n, static_cast<size_t>(n) * sizeof(float));
      to += n;
    }
  }
  return all;
}

class Merger {
 public:
  Merger(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  Status Run() {
    if (!Known().MatMul || !Known().Split || !Known().Add) return OkStatus();
    // What is saved is joining the threads and packing A: one thread gains nothing that could be measured.
    if (c_.fusion != FusionMode::kForce && ThreadsAvailable() < 2) return OkStatus();
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) {
      const std::vector<Product> group = GroupOf(n);
      if (group.size() < 2) continue;
      ++c_.matches, ++c_.effects;
      OPSNN_RETURN_IF_ERROR(Merge(group));
    }
    return OkStatus();
  }

 private:
  const HostTensor* Constant(ValueId v) const {
    const op::TensorDesc& d = r_.desc(v);
    return g_.values[v].IsConstant() && d.constant && d.dtype == DType::kF32 ? d.constant.get() : nullptr;
  }

  // A product with a constant matrix and what is added to each of its rows.
  Product AsProduct(NodeId n) const {
    Product p;
    if (!r_.Is(n, Known().MatMul)) return p;
    const Node& node = g_.nodes[n];
    if (node.attrs.Int("transA", 0) || node.attrs.Int("transB", 0)) return p;
    const HostTensor* w = Constant(node.inputs[1]);
    const ValueId y = node.outputs[0];
    if (!w || w->dims().rank() != 2 || w->dims()[0] == 0 || r_.desc(node.inputs[0]).dtype != DType::kF32)
      return p;
    p.matmul = n;
    p.weight = node.inputs[1];
    p.columns = w->dims()[1];
    p.result = y;
    if (!r_.SingleUse(y) || !r_.Is(r_.Users(y)[0], Known().Add)) return p;
    const NodeId add = r_.Users(y)[0];
    const ValueId other = r_.Other(add, y);
    const HostTensor* bias = other == kNoValue || other == y ? nullptr : Constant(other);
    if (!bias || bias->dims() != Dims{p.columns}) return p;
    p.add = add;
    p.bias = other;
    p.result = g_.nodes[add].outputs[0];
    return p;
  }

  // Views and transposes that end in products: these take any part without a copy.
  bool ReadInPlace(ValueId v) const {
    const auto& users = r_.Users(v);
    return !users.empty() && !r_.IsOutput(v) && std::all_of(users.begin(), users.end(), [&](NodeId u) {
      const Node& n = g_.nodes[u];
      if (n.dead || n.tail) return false;
      if (n.op == Known().MatMul) return n.inputs[0] != n.inputs[1];
      const bool passes_on = n.op == Known().Transpose || (n.op->is_view && n.outputs.size() == 1);
      return passes_on && n.inputs[0] == v && ReadInPlace(n.outputs[0]);
    });
  }

  // n and the products after it that can join it.
  std::vector<Product> GroupOf(NodeId n) const {
    std::vector<Product> group;
    const Product first = AsProduct(n);
    if (first.matmul < 0 || !ReadInPlace(first.result)) return group;
    const ValueId x = g_.nodes[n].inputs[0];
    const int64_t depth = Constant(first.weight)->dims()[0];
    for (NodeId user : r_.Users(x)) {
      if (user < n || g_.nodes[user].inputs[0] != x) continue;
      const Product p = AsProduct(user);
      if (p.matmul < 0 || (p.add >= 0) != (first.add >= 0) || Constant(p.weight)->dims()[0] != depth)
        continue;
      const bool known =
          std::any_of(group.begin(), group.end(), [&](const Product& o) { return o.matmul == p.matmul; });
      if (!known && ReadInPlace(p.result)) group.push_back(p);
    }
    return group;
  }

  ValueId Joined(const std::vector<Product>& group, bool bias) {
    std::vector<const HostTensor*> parts;
    for (const Product& p : group) parts.push_back(Constant(bias ? p.bias : p.weight));
    const int64_t rows = bias ? 1 : parts[0]->dims()[0];
    const ConstTensor all = SideBySide(parts, rows, bias);
    const ValueId like = bias ? group[0].bias : group[0].weight;
    return all ? r_.AddConstant(g_.values[like].name + ":merged", all) : kNoValue;
  }

  Status Merge(const std::vector<Product>& group) {
    const Product& first = group[0];
    const bool bias = first.add >= 0;
    const ValueId weights = Joined(group, false), biases = bias ? Joined(group, true) : kNoValue;
    if (weights == kNoValue || (bias && biases == kNoValue))
      return Errorf(Code::kRuntime, "no memory for merged weights.");
    const std::string name = g_.nodes[first.matmul].name;
    const ValueId x = g_.nodes[first.matmul].inputs[0];
    // The Split answers for the whole group: the values before it are none of the model's.
    std::vector<NodeId> origins;
    std::vector<ValueId> results;
    std::vector<int64_t> columns;
    for (const Product& p : group) {
      for (NodeId n : {p.matmul, p.add}) {
        if (n < 0) continue;
        origins.insert(origins.end(), g_.nodes[n].origins.begin(), g_.nodes[n].origins.end());
      }
      results.push_back(p.result);
      columns.push_back(p.columns);
    }
    for (const Product& p : group) {
      if (p.add >= 0) r_.Kill(p.add);
      r_.Kill(p.matmul);
    }
    ValueId whole = r_.AddUnsized(first.result, ":product", DType::kF32);
    r_.AddNode(Known().MatMul, name, {x, weights}, {whole});
    if (bias) {
      const ValueId sum = r_.AddUnsized(first.result, ":merged", DType::kF32);
      r_.AddNode(Known().Add, name + "/bias", {whole, biases}, {sum});
      whole = sum;
    }
    const ValueId sizes = r_.AddConstant(
        name + ":columns", HostTensor::From<int64_t>({static_cast<int64_t>(columns.size())}, columns));
    const NodeId split = r_.AddNode(Known().Split, name + "/parts", {whole, sizes}, results);
    g_.nodes[split].attrs.Set("axis", int64_t{-1});
    g_.nodes[split].origins = std::move(origins);
    return OkStatus();
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status MergedProducts(Graph& g, PassContext& c) { return Merger(g, c).Run(); }

}  // namespace opsnn::graph
