#include "graph/fusion/edges.h"

#include <algorithm>

#include "base/int_math.h"
#include "graph/call.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/region.h"
#include "graph/fusion/storing.h"
#include "graph/plan_template.h"
#include "graph/stopwatch.h"
#include "op/declaration.h"
#include "plan/cost.h"

namespace opsnn::graph {
namespace {

plan::ContractionEdge ConvEdge(const Graph& g, const Node& n) {
  plan::ContractionEdge e;
  const Dims& x = g.values[n.inputs[0]].desc.dims;
  const Dims& w = g.values[n.inputs[1]].desc.dims;
  const Dims& y = g.values[n.outputs[0]].desc.dims;
  const int64_t groups = std::max<int64_t>(n.attrs.Int("group", 1), 1);
  const bool transposed = n.op == Known().ConvTranspose;
  int64_t window = 1, pixels = y[0];
  for (int i = 2; i < w.rank(); ++i) window *= w[i];
  for (int i = 2; i < y.rank(); ++i) pixels *= y[i];
  e.kind = plan::ContractionKind::kConv;
  e.m = pixels;
  e.n = y[1] / groups;
  e.k = x[1] / groups * window;
  e.batch = groups;
  if (transposed) {
    // Each output pixel sees one element of the window per stride step.
    for (int64_t s : n.attrs.Ints("strides")) e.k = std::max<int64_t>(e.k / std::max<int64_t>(s, 1), 1);
  } else if (groups == x[1] && groups > 1) {
    e.kind = plan::ContractionKind::kDepthwise;
    e.n = y[1];
    e.k = window;
    e.batch = 1;
  }
  e.input_bytes = static_cast<int64_t>(StoredBytes(g.values[n.inputs[0]].desc));
  return e;
}

// Dims of the weights of an expansion in front of the two; null: there is none.
const Dims* ExpansionOf(const Graph& g, const Node& n) {
  constexpr int kW0 = 5;
  const ValueId w0 = n.num_op_inputs > kW0 ? n.inputs[kW0] : ValueId{kNoValue};
  return w0 == kNoValue ? nullptr : &g.values[w0].desc.dims;
}

// The product of the two, with what its other half, or halves, multiply for each of its elements.
plan::ContractionEdge PairedEdge(const Graph& g, const Node& n) {
  plan::ContractionEdge e;
  const Dims &w = g.values[n.inputs[1]].desc.dims, &y = g.values[n.outputs[0]].desc.dims;
  e.kind = plan::ContractionKind::kConv;
  e.m = y[0] * y[2] * y[3];
  e.n = y[1];
  int64_t others = w[0] * w[2] * w[3];
  if (const Dims* w0 = ExpansionOf(g, n)) {
    const Dims& x = g.values[n.inputs[0]].desc.dims;
    others += w[0] * (*w0)[1] * x[2] * x[3] / std::max<int64_t>(1, y[2] * y[3]);
  }
  e.k = w[0] + others / std::max<int64_t>(1, y[1]);
  e.input_bytes = static_cast<int64_t>(StoredBytes(g.values[n.inputs[0]].desc));
  return e;
}

plan::ContractionEdge GemmEdge(const Graph& g, const Node& n) {
  plan::ContractionEdge e;
  const Dims& a = g.values[n.inputs[0]].desc.dims;
  const Dims& b = g.values[n.inputs[1]].desc.dims;
  const Dims& y = g.values[n.outputs[0]].desc.dims;
  const bool trans_a = n.attrs.Int("transA", 0) != 0;
  e.k = a.rank() >= 2 ? a[a.rank() - (trans_a ? 2 : 1)] : a.rank() == 1 ? a[0] : 1;
  e.n = b.rank() >= 2 && y.rank() >= 1 ? y[y.rank() - 1] : 1;
  const int64_t total = NumElements(y);
  // One matrix B for all batches is one tall product.
  e.m = b.rank() <= 2 ? total / std::max<int64_t>(e.n, 1) : y.rank() >= 2 ? y[y.rank() - 2] : 1;
  e.batch = e.m > 0 && e.n > 0 ? total / (e.m * e.n) : 1;
  return e;
}

void Finish(Graph& g, const PassContext& c, plan::Decision d, const std::string& chain,
            const std::string& where, const std::string& shape) {
  d.chain = chain;  // a decision from the cache stands for every edge of its class
  d.where = where;
  if (!shape.empty()) d.shape = shape;
  if (c.fusion == FusionMode::kForce && d.verdict == plan::Verdict::kHybrid) {
    d.verdict = plan::Verdict::kFuse;
    d.regions.clear();
    d.reason = "fusion is forced by the user; the judge would take regions: " + d.reason;
  }
  if (c.fusion == FusionMode::kForce && d.verdict == plan::Verdict::kSplit) {
    d.verdict = plan::Verdict::kFuse;
    d.reason = "fusion is forced by the user; the judge would split: " + d.reason;
  }
  g.decisions.push_back(std::move(d));
}

// The same without words, for planning a run: the verdict, and regions where it is hybrid.
bool FinishSilently(Graph& g, const PassContext& c, const plan::Decision& d) {
  g.decisions.clear();  // whoever asks looks at the newest alone
  plan::Decision& kept = g.decisions.emplace_back();
  kept.verdict = d.verdict;
  kept.regions = d.regions;
  if (c.fusion == FusionMode::kForce &&
      (d.verdict == plan::Verdict::kSplit || d.verdict == plan::Verdict::kHybrid)) {
    kept.verdict = plan::Verdict::kFuse;
    kept.regions.clear();
  }
  return plan::Fuses(kept);
}

bool ReducesRows(const op::OpDef& op) {
  if (!op.declaration) return false;
  const std::string_view family = op.declaration->family;
  return family == "softmax" || family == "norm" || family == "reduce";
}

// Row operators that the row_chain pass decides about.
bool JoinsRows(const op::OpDef& op) {
  return &op == Known().Softmax || &op == Known().LayerNormalization || &op == Known().RMSNormalization;
}

// Why no kernel of a product or convolution does what `user` does; null where one might.
const char* NeverBehind(const Graph& g, NodeId seed, const Node& user) {
  const Node& producer = g.nodes[seed];
  if (!producer.op->takes_tail || !user.op->declaration || user.outputs.empty() ||
      user.outputs[0] == kNoValue)
    return nullptr;
  const std::string_view family = user.op->declaration->family;
  if (family == "pooling")
    return "no kernel keeps the rows of a pool window: a block holds pixels of one row of the result";
  if (user.op == Known().Dropout || family == "random")
    return "no kernel draws random numbers or stores a mask beside its result";
  if (user.op->name == "DynamicQuantizeLinear")
    return "the scale follows from the whole result, and is known when all of it is computed";
  const bool conv = producer.op->layout == op::LayoutRule::kPrefers;
  if ((family == "quant" || user.op == Known().Cast) && conv) {
    const DType to = g.values[user.outputs[0]].desc.dtype;
    if (!IsFloat(to))
      return "the result is stored as integers: convolutions write blocks of f32, f16 and bf16";
  }
  return nullptr;
}

// Results of so few columns are streamed, in an order of their own.
constexpr int64_t kStreamedColumns = 8;

// What joining would save.
std::string RoundTrip(const op::TensorDesc& d) {
  if (!IsKnown(d.dims)) return "";
  constexpr double kMiB = 1 << 20;
  const double bytes = static_cast<double>(NumElements(d.dims)) * static_cast<double>(SizeOf(d.dtype));
  return StrFormat("; joined, %.2f MiB would be neither written nor read back", bytes / kMiB);
}

// A pool behind a convolution: what joining them in strips of rows that stay in half of a core's own cache
// would cost, rows of the window that two strips share, against what it would save.
std::string StripsOfPool(const Graph& g, const PassContext& c, NodeId seed, const Node& pool) {
  const Node& conv = g.nodes[seed];
  const op::TensorDesc& y = g.values[conv.outputs[0]].desc;
  const std::vector<int64_t> kernel = pool.attrs.Ints("kernel_shape"), strides = pool.attrs.Ints("strides");
  if (!c.record || conv.op != Known().Conv || kernel.size() != 2 || y.dims.rank() != 4 || !IsKnown(y.dims))
    return "";
  const device::DeviceProfile& p = *c.profile;
  const int cores = plan::ActiveCores(p, 0);
  const int64_t rows = y.dims[2], bytes = static_cast<int64_t>(StoredBytes(y));
  if (rows <= 0 || bytes <= 0) return "";
  const int64_t row_bytes = std::max<int64_t>(1, bytes / (y.dims[0] * rows));
  const int64_t strip =
      std::clamp<int64_t>(static_cast<int64_t>(p.l1_bytes() / 2) / row_bytes, int64_t{1}, rows);
  const int64_t shared = std::max<int64_t>(0, kernel[0] - (strides.empty() ? 1 : strides[0]));
  const double twice = static_cast<double>((CeilDiv(rows, strip) - 1) * shared) / static_cast<double>(rows);
  const std::optional<plan::ContractionEdge> e = AsContraction(g, seed, false);
  if (!e) return "";
  const double products = static_cast<double>(e->m) * static_cast<double>(e->n * e->k * e->batch);
  const double again_us = twice * products / (p.mac(e->dtype) * p.clock_mhz() * cores);
  const plan::Level level = plan::LevelOf(bytes, cores, p);
  const double moves_us =
      plan::WriteMicroseconds(bytes, level, p, cores) + plan::ReadMicroseconds(bytes, level, p, cores);
  return StrFormat(
      "; strips of %lld rows would compute %.1f %% of the convolution twice, %.1f us, for %.1f us of moves%s",
      static_cast<long long>(strip), 100 * twice, again_us, moves_us,
      again_us < moves_us ? ": refused for want of such a kernel, not by cost"
                          : ": that would not pay either");
}

bool Contains(const std::vector<NodeId>& list, NodeId n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

}  // namespace

std::optional<plan::ContractionEdge> AsContraction(const Graph& g, NodeId id, bool text) {
  const Node& n = g.nodes[id];
  std::optional<plan::ContractionEdge> e;
  if (n.op == Known().Conv || n.op == Known().ConvTranspose || n.op == Known().ConvBatchNormTraining ||
      n.op == Known().ConvInteger)
    e = ConvEdge(g, n);
  if (n.op == Known().MatMul || n.op == Known().Gemm || n.op == Known().MatMulInteger) e = GemmEdge(g, n);
  if (n.op == Known().DepthwisePointwise) e = PairedEdge(g, n);
  if (!e) return e;
  if (text) {
    e->where = n.name;
    e->shape = ShapeText(g, id) + StrFormat(" m=%lld n=%lld k=%lld", static_cast<long long>(e->m),
                                            static_cast<long long>(e->n), static_cast<long long>(e->k));
  }
  e->dtype = g.values[n.inputs[0]].desc.dtype;
  e->out_dtype = g.values[n.outputs[0]].desc.dtype;
  return e;
}

std::string ShapeText(const Graph& g, NodeId n) {
  return ShapeText(g.values[g.nodes[n].outputs[0]].desc.dims);
}

std::string ShapeText(const Dims& dims) {
  std::string s;
  for (int64_t d : dims) s += (s.empty() ? "" : "x") + std::to_string(d);
  return s.empty() ? "scalar" : s;
}

namespace {

// The time and the verdict of one question, counted in the context of the pass that asks it.
class Question {
 public:
  Question(const Graph& g, const PassContext& c) : g_(g), c_(c) {
    if (c.questions) c.questions->Asked();
  }
  ~Question() {
    ++c_.judge.matches;
    c_.judge.effects += plan::Fuses(g_.decisions.back());
    c_.judge.us += watch_.us();
  }

 private:
  const Graph& g_;
  const PassContext& c_;
  const Stopwatch watch_;
};

// The knobs with what this model was loaded with: that beats the setting. A forced edge is judged all the
// same, and Finish says what the judge would have done.
Knobs KnobsOf(const PassContext& c, bool forced) {
  Knobs knobs = GetKnobs();
  knobs.fusion = c.fusion == FusionMode::kForce && !forced ? FusionMode::kAuto : c.fusion;
  return knobs;
}

}  // namespace

// Fusing a chain of half types drops a rounding, so there the verdict must not depend on the thread count:
// results are promised to be the same for any. One thread is what is asked about.
template <typename Edge>
Edge ForAnyThreadCount(Edge e) {
  if (IsHalf(e.dtype)) e.threads = 1;
  return e;
}

// What a question asks is counted where it is asked again, too.
Answer Answered(const PassContext& c, const plan::Decision& d, const Stopwatch& watch) {
  const bool forced = c.fusion == FusionMode::kForce &&
                      (d.verdict == plan::Verdict::kHybrid || d.verdict == plan::Verdict::kSplit);
  const Answer answer = forced               ? Answer::kYes
                        : !d.regions.empty() ? Answer::kOther
                        : plan::Fuses(d)     ? Answer::kYes
                                             : Answer::kNo;
  ++c.judge.matches;
  c.judge.effects += answer != Answer::kNo;
  c.judge.us += watch.us();
  return answer;
}

std::shared_ptr<const plan::Decision> Verdict(const PassContext& c, plan::ContractionEdge* e) {
  *e = ForAnyThreadCount(std::move(*e));
  e->training = c.training, e->precision_first = c.precision_first, e->concurrent = c.concurrent;
  e->words = c.record;
  return plan::CachedJudgeContraction(*e, *c.profile, KnobsOf(c, false));
}

std::shared_ptr<const plan::Decision> Verdict(const PassContext& c, plan::PairEdge* e) {
  e->words = c.record;
  return plan::CachedJudgePair(*e, *c.profile, KnobsOf(c, true));
}

std::shared_ptr<const plan::Decision> Verdict(const PassContext& c, plan::PointwiseEdge* e) {
  *e = ForAnyThreadCount(std::move(*e));
  e->words = c.record;
  return plan::CachedJudgePointwise(*e, *c.profile, KnobsOf(c, false));
}

template <typename Edge>
Answer AskFor(const PassContext& c, Edge e) {
  const Stopwatch watch;
  const auto d = Verdict(c, &e);
  return Answered(c, *d, watch);
}
Answer AskJudge(const PassContext& c, plan::ContractionEdge e) { return AskFor(c, std::move(e)); }
Answer AskJudge(const PassContext& c, plan::PairEdge e) { return AskFor(c, std::move(e)); }
Answer AskJudge(const PassContext& c, plan::PointwiseEdge e) { return AskFor(c, std::move(e)); }

template <typename Edge>
bool JudgeFor(Graph& g, const PassContext& c, Edge e) {
  const Question question(g, c);
  const auto d = Verdict(c, &e);
  if (!c.record) return FinishSilently(g, c, *d);
  Finish(g, c, *d, e.chain, e.where, e.shape);
  return plan::Fuses(g.decisions.back());
}
bool Judge(Graph& g, const PassContext& c, plan::ContractionEdge e) { return JudgeFor(g, c, std::move(e)); }
bool Judge(Graph& g, const PassContext& c, plan::PairEdge e) { return JudgeFor(g, c, std::move(e)); }
bool Judge(Graph& g, const PassContext& c, plan::PointwiseEdge e) { return JudgeFor(g, c, std::move(e)); }

// Forced chains are judged as such: one that is split then has no block of rows that fits.
bool Judge(Graph& g, const PassContext& c, const plan::ChainedEdge& e) {
  const Question question(g, c);
  const Knobs knobs = KnobsOf(c, true);
  g.decisions.push_back(plan::JudgeChained(ForAnyThreadCount(e), *c.profile, knobs));
  return plan::Fuses(g.decisions.back());
}

bool JudgeRows(Graph& g, const PassContext& c, const plan::ContractionEdge& e) {
  const Question question(g, c);
  const Knobs knobs = KnobsOf(c, true);
  g.decisions.push_back(plan::JudgeRowsBehind(e, *c.profile, knobs));
  return plan::Fuses(g.decisions.back());
}

namespace {

// Why a row reduction behind a product or convolution keeps a kernel of its own.
const char* WhyNoRows(const Graph& g, NodeId product, NodeId row) {
  const Node& p = g.nodes[product];
  if (p.op != Known().MatMul || !JoinsRows(*g.nodes[row].op)) return plan::kNeedsGather;
  const op::TensorDesc &x = g.values[p.inputs[0]].desc, &w = g.values[p.inputs[1]].desc;
  if (w.dims.rank() == 2 && w.dims[1] <= kStreamedColumns)
    return "products of at most 8 columns are computed many rows at a time, in an order of their own";
  if (w.dims.rank() > 2)
    return "needs cross-channel gather: the products of a batch run in blocks, not by rows";
  return x.dtype == DType::kF32 ? plan::kNeedsGather : "blocks of whole rows are for f32 products alone";
}

}  // namespace

bool MayHoldRows(const Graph& g, NodeId product, NodeId row) {
  const Node &p = g.nodes[product], &n = g.nodes[row];
  if (p.op != Known().MatMul || !JoinsRows(*n.op) || n.tail) return false;
  const int64_t rank = g.values[n.inputs[0]].desc.dims.rank(), axis = n.attrs.Int("axis", -1);
  const op::TensorDesc &x = g.values[p.inputs[0]].desc, &w = g.values[p.inputs[1]].desc;
  return w.dims.rank() == 2 && w.dims[1] > kStreamedColumns && x.dims.rank() >= 2 && x.dtype == DType::kF32 &&
         (axis == -1 || axis == rank - 1) && x.IsContiguous() && !p.attrs.Int("transA", 0);
}

bool Judge(Graph& g, const PassContext& c, const plan::RowEdge& e) {
  const Question question(g, c);
  plan::Decision d = plan::JudgeRowProgram(e, *c.profile, KnobsOf(c, false));
  if (!c.record) return FinishSilently(g, c, d);
  Finish(g, c, std::move(d), e.chain, e.where, e.shape);
  return plan::Fuses(g.decisions.back());
}

bool Judge(Graph& g, const PassContext& c, const plan::ConversionEdge& e) {
  const Question question(g, c);
  plan::Decision d = plan::JudgeConversion(e, *c.profile, KnobsOf(c, false));
  if (!c.record) return FinishSilently(g, c, d);
  Finish(g, c, std::move(d), e.chain, e.where, e.shape);
  return plan::Fuses(g.decisions.back());
}

void Refuse(Graph& g, const PassContext& c, std::string chain, NodeId where, DType dtype,
            std::string reason) {
  if (!c.record) return;
  g.decisions.push_back(plan::RefuseEdge(std::move(chain), g.nodes[where].name, ShapeText(g, where), dtype,
                                         std::move(reason), *c.profile));
}

void RecordBoundary(Rewriter& r, const PassContext& c, NodePrograms& programs, NodeId seed,
                    const std::vector<NodeId>& group, ValueId v) {
  Graph& g = r.graph();
  if (v == kNoValue || !c.record) return;
  const DType dtype = r.desc(v).dtype;
  std::vector<NodeId> outside;
  for (NodeId n : r.Users(v))
    if (!Contains(group, n)) outside.push_back(n);
  for (NodeId n : outside) {
    const Node& user = g.nodes[n];
    const std::string chain = ChainName(g, seed, {n});
    if (!g.nodes[seed].op->takes_tail && r.SingleUse(v) && JoinsRows(*user.op)) continue;
    if (r.SingleUse(v) && user.inputs[0] == v && MayHoldRows(g, seed, n)) continue;
    // The conv_batch_norm pass has decided about those.
    if (c.policy != NumericsPolicy::kExact && g.nodes[seed].op == Known().Conv && r.SingleUse(v) &&
        user.op == Known().BatchNormalizationTraining)
      continue;
    if (ReducesRows(*user.op)) {
      Refuse(
          g, c, chain, n, dtype,
          g.nodes[seed].op->takes_tail ? WhyNoRows(g, seed, n) : "row reductions keep a kernel of their own");
    } else if (const char* never = NeverBehind(g, seed, user)) {
      Refuse(g, c, chain, n, dtype, never + RoundTrip(r.desc(v)) + StripsOfPool(g, c, seed, user));
    } else if ((programs.Fusable(n) && user.op->op_class == op::OpClass::kVector) ||
               StoresIntegers(g, user)) {
      std::string reason;
      if (r.IsOutput(v)) {
        reason = "the intermediate \"" + g.values[v].name + "\" is an output of the model";
      } else if (r.Users(v).size() > 1) {
        reason = StrFormat("the intermediate \"%s\" has %zu readers and is needed by itself",
                           g.values[v].name.c_str(), r.Users(v).size());
      } else if (r.desc(user.outputs[0]).dims != r.desc(v).dims) {
        reason = "the operands broadcast to " + ToString(r.desc(user.outputs[0]).dims) +
                 ", more than the intermediate's " + ToString(r.desc(v).dims);
      } else {
        reason = "an operand varies along rows or columns only, or is of a type that no f32 kernel loads";
      }
      Refuse(g, c, chain, n, dtype, std::move(reason));
    }
  }
}

}  // namespace opsnn::graph
