// verify on integers that doubles do not hold: every operator on edge values, fed and folded.
#include "graph/graph_tester.h"
#include "graph/infer.h"
#include "observe/check.h"
#include "observe/verify.h"

namespace opsnn::observe {
namespace {

using graph::GraphMaker;
using graph::ValueId;

constexpr int64_t k53 = int64_t{1} << 53;

// Edges, then values of the whole range.
std::vector<int64_t> Edges(testing::Rng& rng, size_t n) {
  std::vector<int64_t> v = {INT64_MIN, INT64_MAX, k53, k53 + 1, -k53 - 1, -1, 0, 1, INT64_MIN, 2, 3, -7};
  while (v.size() < n) v.push_back(static_cast<int64_t>(rng.Int(INT64_MIN / 2, INT64_MAX / 2)) * 2 + 1);
  v.resize(n);
  return v;
}

VerifyReport Check(const graph::Graph& given, const graph::Feeds& feeds) {
  graph::Graph g = given;
  graph::SessionOptions options;
  options.passes_off = "";
  options.policy = NumericsPolicy::kExact;
  EXPECT_TRUE(graph::InferGraph(g, {.fold = false, .concrete = false}).ok());
  auto fused = graph::Session::Create(g, options);
  options.fusion = FusionMode::kOff;
  auto unfused = graph::Session::Create(g, options);
  EXPECT_TRUE(fused.ok() && unfused.ok());
  auto report = Verify(**fused, **unfused, feeds, nullptr);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : VerifyReport();
}

std::string Text(const VerifyReport& r) {
  std::string s = r.first_bad + " " + r.first_difference + " " + r.guilty_pass;
  for (const NodeCheck& c : r.checks)
    if (!c.ok || !c.checked) s += " | " + c.node + ": " + c.note;
  return s;
}

using Attrs = std::vector<std::pair<std::string, op::AttrValue>>;

// The operator on x (and y, rotated x), as inputs and as constants.
void Expect(const std::string& op, int operands, const Attrs& attrs = {},
            const std::vector<int64_t>& more = {}) {
  testing::Rng rng;
  const std::vector<int64_t> x = Edges(rng, 24);
  std::vector<int64_t> y(x.begin() + 5, x.end());
  y.insert(y.end(), x.begin(), x.begin() + 5);
  if (op == "BitShift")
    for (int64_t& n : y) n &= 63;
  if (op == "Pow")
    for (int64_t& n : y) n &= 7;
  const ConstTensor tx = HostTensor::From<int64_t>({4, 6}, x), ty = HostTensor::From<int64_t>({4, 6}, y);
  for (const bool folded : {false, true}) {
    GraphMaker m;
    graph::Feeds feeds;
    std::vector<ValueId> in = {folded ? m.Const(tx) : m.In("x", {4, 6}, DType::kS64)};
    if (operands > 1) in.push_back(folded ? m.Const(ty) : m.In("y", {4, 6}, DType::kS64));
    if (!folded) feeds["x"] = tx;
    if (!folded && operands > 1) feeds["y"] = ty;
    if (!more.empty()) in.push_back(m.Ints(more));
    const ValueId r = m.Op(op, in, attrs);
    m.Out(r);
    m.Out(m.Op("Identity", {r}));
    const VerifyReport report = Check(m.graph(), feeds);
    EXPECT_TRUE(report.ok) << op << (folded ? " folded: " : ": ") << Text(report);
    EXPECT_EQ(report.unchecked, 0) << op << Text(report);
  }
}

TEST(VerifyIntegers, Arithmetic) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater",
                         "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Sum", "Pow"})
    Expect(op, 2);
  for (const int64_t fmod : {0, 1}) Expect("Mod", 2, {{"fmod", fmod}});
  for (const char* direction : {"LEFT", "RIGHT"})
    Expect("BitShift", 2, {{"direction", std::string(direction)}});
  for (const char* op : {"Neg", "Abs", "Sign", "Relu", "BitwiseNot"}) Expect(op, 1);
}

TEST(VerifyIntegers, Reductions) {
  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare"})
    Expect(op, 1, {}, {1});
  for (const char* op : {"ArgMax", "ArgMin"}) Expect(op, 1, {{"axis", int64_t{1}}});
  Expect("CumSum", 1, {}, {1});
  Expect("TopK", 1, {{"axis", int64_t{1}}}, {3});
}

TEST(VerifyIntegers, Movement) {
  Expect("Transpose", 1);
  Expect("Reshape", 1, {}, {3, 8});
  Expect("Concat", 2, {{"axis", int64_t{1}}});
  Expect("Gather", 1, {{"axis", int64_t{1}}}, {5, -1, 0});
  Expect("Tile", 1, {}, {2, 1});
  Expect("Expand", 1, {}, {2, 4, 6});
  Expect("Pad", 1, {}, {1, 0, 0, 2});
  Expect("Trilu", 1);
}

// DType numbers of ONNX: bool, s8, u8, s32, s64, f32, f64.
TEST(VerifyIntegers, Conversions) {
  for (const int64_t to : {9, 3, 2, 6, 7, 1, 11}) Expect("Cast", 1, {{"to", to}});
  GraphMaker m;
  m.Out(m.Op("Cast", {m.In("x", {7})}, {{"to", int64_t{7}}}));
  const float inf = std::numeric_limits<float>::infinity();
  const graph::Feeds feeds = {
      {"x", HostTensor::From<float>({7}, {inf, -inf, 9.3e18f, -9.3e18f, 0x1p62f, -0x1p63f,
                                          std::numeric_limits<float>::quiet_NaN()})}};
  const VerifyReport report = Check(m.graph(), feeds);
  EXPECT_TRUE(report.ok) << Text(report);
}

// 32-bit products leave the range of doubles before they wrap.
TEST(VerifyIntegers, NarrowOnesWrap) {
  for (const char* op : {"Mul", "Add", "Sub", "Div", "Mod"}) {
    GraphMaker m;
    const std::vector<int32_t> x = {INT32_MIN, INT32_MAX, INT32_MIN, 2147483629, -1, 7, INT32_MIN};
    const std::vector<int32_t> y = {-1, INT32_MAX, INT32_MIN, 2147483587, 0, -2, 3};
    m.Out(m.Op(op, {m.In("x", {7}, DType::kS32), m.In("y", {7}, DType::kS32)}));
    const VerifyReport report = Check(
        m.graph(), {{"x", HostTensor::From<int32_t>({7}, x)}, {"y", HostTensor::From<int32_t>({7}, y)}});
    EXPECT_TRUE(report.ok) << op << Text(report);
  }
}

// One off beyond 2^53 is the same double, and found all the same.
TEST(VerifyIntegers, OneOffIsFound) {
  Bounded want;
  want.value = ref::FromHost(*HostTensor::From<int64_t>({2}, {k53 + 1, INT64_MIN}));
  EXPECT_TRUE(CheckValue(*HostTensor::From<int64_t>({2}, {k53 + 1, INT64_MIN}), want).ok);
  const NodeCheck bad = CheckValue(*HostTensor::From<int64_t>({2}, {k53, INT64_MIN}), want);
  EXPECT_FALSE(bad.ok);
  EXPECT_EQ(bad.note, "element 0 is 9007199254740992, the reference has 9007199254740993");
}

}  // namespace
}  // namespace opsnn::observe
