// GraphMaker: small graphs in a few lines. For tests.
#ifndef OPSNN_GRAPH_GRAPH_TESTER_H_
#define OPSNN_GRAPH_GRAPH_TESTER_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/session.h"
#include "tensor/element.h"
#include "testing/testing.h"

namespace opsnn::graph {

class GraphMaker {
 public:
  // The seed and how many makers the test has had: each has numbers of its own, the same in every run.
  GraphMaker() : rng_(testing::TestSeed() + Turn()) { graph_.name = "test"; }

  ValueId In(const std::string& name, const Dims& dims, DType dtype = DType::kF32) {
    Value v;
    v.name = name;
    v.desc.dtype = dtype;
    v.desc.dims = dims;
    graph_.inputs.push_back(graph_.AddValue(std::move(v)));
    return graph_.inputs.back();
  }
  ValueId Const(ConstTensor t) {
    return graph_.AddConstant("c" + std::to_string(graph_.values.size()), std::move(t));
  }
  ValueId Scalar(float x) { return Const(HostTensor::From<float>({}, {x})); }
  ValueId Ints(const std::vector<int64_t>& v) {
    return Const(HostTensor::From<int64_t>({static_cast<int64_t>(v.size())}, v));
  }
  // Random values in [lo, hi).
  ValueId Random(const Dims& dims, double lo = -1, double hi = 1, DType dtype = DType::kF32) {
    return Const(RandomTensor(dims, lo, hi, dtype));
  }
  ConstTensor RandomTensor(const Dims& dims, double lo = -1, double hi = 1, DType dtype = DType::kF32) {
    auto t = std::make_shared<HostTensor>(dtype, dims);
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    for (int64_t i = 0; i < t->size(); ++i) WriteElement(t->as<char>() + i * size, dtype, rng_.Real(lo, hi));
    return t;
  }
  ValueId Op(const std::string& op, std::vector<ValueId> inputs,
             std::vector<std::pair<std::string, op::AttrValue>> attrs = {}, int outputs = 1) {
    Node n;
    n.op = op::FindOperator(op);
    EXPECT_NE(n.op, nullptr) << op;
    n.name = op + std::to_string(graph_.nodes.size());
    n.num_op_inputs = static_cast<int>(inputs.size());
    n.inputs = std::move(inputs);
    for (auto& [name, value] : attrs) n.attrs.Set(name, value);
    n.origins = {static_cast<NodeId>(graph_.nodes.size())};
    for (int i = 0; i < outputs; ++i) {
      Value v;
      v.name = n.name + "." + std::to_string(i);
      if (n.inputs[0] != kNoValue) v.desc.dtype = graph_.values[n.inputs[0]].desc.dtype;
      v.desc.known_rank = false;  // inferred when prepared
      n.outputs.push_back(graph_.AddValue(std::move(v)));
    }
    const ValueId first = n.outputs[0];
    graph_.AddNode(std::move(n));
    return first;
  }
  void Out(ValueId v) { graph_.outputs.push_back(v); }
  const Graph& graph() const { return graph_; }
  testing::Rng& rng() { return rng_; }

  void SetFeed(const std::string& name, ConstTensor t) { feeds_[name] = std::move(t); }
  // Random feeds of the inputs' shapes, unknown dims as 2; drawn once.
  const Feeds& RandomFeeds() {
    for (ValueId v : graph_.inputs) {
      const Value& value = graph_.values[v];
      Dims d = value.desc.dims;
      for (int64_t& size : d) size = size < 0 ? 2 : size;
      if (!feeds_.count(value.name)) feeds_[value.name] = RandomTensor(d, -4, 4, value.desc.dtype);
    }
    return feeds_;
  }

 private:
  static uint64_t Turn() {
    static const void* test = nullptr;
    static uint64_t turn = 0;
    if (const void* now = ::testing::UnitTest::GetInstance()->current_test_info(); now != test)
      test = now, turn = 0;
    return turn++;
  }

  Graph graph_;
  testing::Rng rng_;
  Feeds feeds_;
};

struct Outcome {
  std::vector<std::vector<double>> outputs;
  std::shared_ptr<const Prepared> prepared;
  std::vector<PassStat> load_stats;
  std::map<std::string, std::vector<double>> captured;
  std::vector<plan::Decision> decisions;

  int Effects(const std::string& pass) const {
    int n = 0;
    for (const auto& list : {load_stats, prepared->pass_stats()})
      for (const PassStat& s : list) n += s.name == pass ? s.effects : 0;
    return n;
  }
  int Count(const std::string& op) const {
    int n = 0;
    for (const Node& node : prepared->graph().nodes) n += node.op->name == op;
    return n;
  }
};

inline Outcome RunGraph(GraphMaker& m, SessionOptions options, bool capture = false) {
  Outcome o;
  auto s = Session::Create(m.graph(), std::move(options));
  EXPECT_TRUE(s.ok()) << s.status().message();
  if (!s.ok()) return o;
  RunOptions run;
  if (capture)
    run.capture = [&](const Node&, const std::string& name, ConstTensor t) {
      o.captured[name] = ToDoubles(*t);
    };
  for (int i = 0; i < 2; ++i) {  // twice: the second run finds the arena used
    auto r = (*s)->Run(m.RandomFeeds(), run);
    EXPECT_TRUE(r.ok()) << r.status().message();
    if (!r.ok()) return o;
    o.outputs.clear();
    for (const ConstTensor& t : r->outputs) o.outputs.push_back(ToDoubles(*t));
    o.prepared = r->prepared;
  }
  o.load_stats = (*s)->load_stats();
  Shapes shapes;
  for (const auto& [name, t] : m.RandomFeeds()) shapes[name] = t->dims();
  if (auto d = (*s)->Decide(shapes, device::HostProfile()); d.ok()) o.decisions = std::move(*d);
  return o;
}

inline SessionOptions Mode(FusionMode fusion, const std::string& off = "") {
  SessionOptions o;
  o.fusion = fusion;
  o.policy = NumericsPolicy::kExcess;
  o.passes_off = off;
  return o;
}

// Runs with nothing fused, as the judge decides, and with everything fused; the three must agree within the
// rounding of f32 (rewrites change its order), `scale` being the size of the values on the way. Returns the
// last.
inline Outcome ExpectFusionKeepsResults(GraphMaker& m, double scale = 1) {
  const Outcome plain = RunGraph(m, Mode(FusionMode::kOff));
  RunGraph(m, Mode(FusionMode::kAuto));
  Outcome fused = RunGraph(m, Mode(FusionMode::kForce));
  const double tolerance = 64 * testing::Epsilon(DType::kF32) * scale;
  EXPECT_EQ(plain.outputs.size(), fused.outputs.size());
  for (size_t i = 0; i < std::min(plain.outputs.size(), fused.outputs.size()); ++i)
    EXPECT_EQ("", testing::Compare(fused.outputs[i], plain.outputs[i], tolerance,
                                   64 * testing::Epsilon(DType::kF32)));
  return fused;
}

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_GRAPH_TESTER_H_
