#include "ops/rnn/recurrent.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

// Inputs by position: X, W, R, B, sequence_lens, initial_h, initial_c, P.
enum : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeephole };

struct Named {
  const char* name;
  RnnActivation::Kind kind;
  double alpha, beta;  // where the attributes give none
};
constexpr Named kActivations[] = {{"Sigmoid", RnnActivation::kSigmoid, 0, 0},
                                  {"Tanh", RnnActivation::kTanh, 0, 0},
                                  {"Relu", RnnActivation::kRelu, 0, 0},
                                  {"Affine", RnnActivation::kAffine, 1, 0},
                                  {"LeakyRelu", RnnActivation::kLeakyRelu, 0.01, 0},
                                  {"ThresholdedRelu", RnnActivation::kThresholdedRelu, 1, 0},
                                  {"ScaledTanh", RnnActivation::kScaledTanh, 1, 1},
                                  {"HardSigmoid", RnnActivation::kHardSigmoid, 0.2, 0.5},
                                  {"Elu", RnnActivation::kElu, 1, 0},
                                  {"Softsign", RnnActivation::kSoftsign, 0, 0},
                                  {"Softplus", RnnActivation::kSoftplus, 0, 0}};

Status ReadActivations(const op::Attrs& attrs, const RnnLayer& layer, RnnGeometry* g) {
  const auto found = attrs.all().find("activations");
  std::vector<std::string> names;
  if (found != attrs.all().end()) {
    if (const auto* v = std::get_if<std::vector<std::string>>(&found->second)) names = *v;
  }
  const size_t want = layer.defaults.size() * static_cast<size_t>(g->directions);
  if (names.empty()) {
    for (size_t i = 0; i < want; ++i) g->activations.push_back({layer.defaults[i % layer.defaults.size()]});
    return OkStatus();
  }
  if (names.size() != want) {
    return InvalidArgument("%s: attribute activations has %zu names; allowed: %zu", g->op, names.size(),
                           want);
  }
  const std::vector<double> alphas = attrs.Floats("activation_alpha"),
                            betas = attrs.Floats("activation_beta");
  size_t alpha = 0, beta = 0;  // each activation takes as many numbers as it has
  for (const std::string& name : names) {
    const auto* n = std::find_if(std::begin(kActivations), std::end(kActivations),
                                 [&](const Named& a) { return name == a.name; });
    if (n == std::end(kActivations)) {
      return InvalidArgument(
          "%s: attribute activations has \"%s\"; allowed: Sigmoid, Tanh, Relu, Affine, "
          "LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, Softplus",
          g->op, name.c_str());
    }
    RnnActivation a{n->kind, n->alpha, n->beta};
    const bool has_beta = n->beta != 0 || n->kind == RnnActivation::kAffine;
    if (n->alpha != 0 && alpha < alphas.size()) a.alpha = alphas[alpha++];
    if (has_beta && beta < betas.size()) a.beta = betas[beta++];
    g->activations.push_back(a);
  }
  return OkStatus();
}

Status CheckDims(const char* op, const char* name, const op::TensorDesc* d, const Dims& want) {
  if (d == nullptr || d->dims == want) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %s", op, name, opsnn::ToString(d->dims).c_str(),
                         opsnn::ToString(want).c_str());
}

Result<RnnGeometry> ReadGeometry(const char* op, const RnnLayer& layer, op::InputDescs in,
                                 const op::Attrs* given) {
  const op::Attrs& attrs = op::AttrsOf(given);
  RnnGeometry g;
  g.op = op;
  g.gates = layer.gates;
  g.batch_first = attrs.Int("layout", 0) != 0;
  g.clip = attrs.Float("clip", 0);
  g.dtype = in[kX]->dtype;
  const std::string direction = attrs.String("direction", "forward");
  g.directions = direction == "bidirectional" ? 2 : 1;
  g.reverse = direction == "reverse";
  const Dims &x = in[kX]->dims, &r = in[kR]->dims;
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "X", x, 3, 3));
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "R", r, 3, 3));
  g.times = x[g.batch_first ? 1 : 0], g.batch = x[g.batch_first ? 0 : 1], g.inputs = x[2];
  g.hidden = attrs.Int("hidden_size", r[2]);
  const Dims state =
      g.batch_first ? Dims{g.batch, g.directions, g.hidden} : Dims{g.directions, g.batch, g.hidden};
  const int64_t rows = g.gates * g.hidden;
  const struct {
    size_t at;
    const char* name;
    Dims want;
  } kWants[] = {{kW, "W", {g.directions, rows, g.inputs}},
                {kR, "R", {g.directions, rows, g.hidden}},
                {kB, "B", {g.directions, 2 * rows}},
                {kLengths, "sequence_lens", {g.batch}},
                {kInitialH, "initial_h", state},
                {kInitialC, "initial_c", state},
                {kPeephole, "P", {g.directions, 3 * g.hidden}}};
  for (const auto& w : kWants) OPSNN_RETURN_IF_ERROR(CheckDims(op, w.name, InputOrNull(in, w.at), w.want));
  OPSNN_RETURN_IF_ERROR(ReadActivations(attrs, layer, &g));
  return g;
}

std::vector<double> Load(const void* p, DType t, int64_t n, int64_t first) {
  std::vector<double> v;
  const auto step = static_cast<int64_t>(SizeOf(t));
  for (int64_t i = 0; p != nullptr && i < n; ++i)
    v.push_back(ReadElement(static_cast<const char*>(p) + (first + i) * step, t));
  return v;
}

// (rows, columns) as (columns, rows).
std::vector<double> Transposed(const std::vector<double>& v, int64_t rows, int64_t columns) {
  std::vector<double> t(v.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      t[static_cast<size_t>(c * rows + r)] = v[static_cast<size_t>(r * columns + c)];
  return t;
}

// to[i] += x[k] * rows[k][i] for columns [first, last).
void AddRows(const std::vector<double>& x, const std::vector<double>& rows, int64_t width, int64_t first,
             int64_t last, std::vector<double>* to) {
  for (size_t k = 0; k < x.size(); ++k) {
    const double* row = rows.data() + static_cast<int64_t>(k) * width;
    for (int64_t i = first; i < last; ++i) (*to)[static_cast<size_t>(i)] += x[k] * row[i];
  }
}

class Layer {
 public:
  Layer(const RnnGeometry& g, const RnnLayer& layer, const RnnCell& cell, std::vector<bool> given,
        DType lengths)
      : g_(g), layer_(layer), cell_(cell), given_(std::move(given)), lengths_(lengths) {}

  Status Run(const op::RunArgs& args, size_t outputs) const {
    std::vector<int64_t> lengths(static_cast<size_t>(g_.batch), g_.times);
    if (given_[kLengths]) {
      for (int64_t b = 0; b < g_.batch; ++b) {
        const auto n = static_cast<int64_t>(Load(args.inputs[kLengths], lengths_, 1, b)[0]);
        if (n < 0 || n > g_.times) {
          return InvalidArgument("%s: sequence_lens: length %lld is %lld; allowed: 0 to %lld", g_.op,
                                 static_cast<long long>(b), static_cast<long long>(n),
                                 static_cast<long long>(g_.times));
        }
        lengths[static_cast<size_t>(b)] = n;
      }
    }
    std::vector<RnnWeights> weights;
    for (int64_t d = 0; d < g_.directions; ++d) weights.push_back(WeightsOf(args, d));
    ParallelFor(g_.directions * g_.batch, [&](int64_t i, int) {
      Sequence(args, outputs, weights[static_cast<size_t>(i / g_.batch)], i / g_.batch, i % g_.batch,
               lengths[static_cast<size_t>(i % g_.batch)]);
    });
    return OkStatus();
  }

 private:
  const void* In(const op::RunArgs& args, size_t i) const { return given_[i] ? args.inputs[i] : nullptr; }

  RnnWeights WeightsOf(const op::RunArgs& args, int64_t d) const {
    const int64_t rows = g_.gates * g_.hidden;
    RnnWeights w;
    w.input =
        Transposed(Load(In(args, kW), g_.dtype, rows * g_.inputs, d * rows * g_.inputs), rows, g_.inputs);
    w.recurrent =
        Transposed(Load(In(args, kR), g_.dtype, rows * g_.hidden, d * rows * g_.hidden), rows, g_.hidden);
    w.input_bias = Load(In(args, kB), g_.dtype, rows, 2 * d * rows);
    w.recurrent_bias = Load(In(args, kB), g_.dtype, rows, (2 * d + 1) * rows);
    w.input_bias.resize(static_cast<size_t>(rows));
    w.recurrent_bias.resize(static_cast<size_t>(rows));
    w.peephole = Load(In(args, kPeephole), g_.dtype, 3 * g_.hidden, 3 * d * g_.hidden);
    w.peephole.resize(static_cast<size_t>(3 * g_.hidden));
    w.activations = g_.activations.data() + d * static_cast<int64_t>(layer_.defaults.size());
    return w;
  }

  void Store(void* to, int64_t row, const std::vector<double>* v) const {
    const auto step = static_cast<int64_t>(SizeOf(g_.dtype));
    for (int64_t i = 0; to != nullptr && i < g_.hidden; ++i) {
      WriteElement(static_cast<char*>(to) + (row * g_.hidden + i) * step, g_.dtype,
                   v != nullptr ? (*v)[static_cast<size_t>(i)] : 0);
    }
  }

  void Sequence(const op::RunArgs& args, size_t outputs, const RnnWeights& w, int64_t d, int64_t b,
                int64_t length) const {
    const auto out = [&](size_t i) { return i < outputs ? args.outputs[i] : nullptr; };
    const int64_t state = g_.batch_first ? b * g_.directions + d : d * g_.batch + b;
    const auto result = [&](int64_t t) {
      return g_.batch_first ? (b * g_.times + t) * g_.directions + d : (t * g_.directions + d) * g_.batch + b;
    };
    std::vector<double> h = Load(In(args, kInitialH), g_.dtype, g_.hidden, state * g_.hidden),
                        c = Load(In(args, kInitialC), g_.dtype, g_.hidden, state * g_.hidden);
    h.resize(static_cast<size_t>(g_.hidden));
    c.resize(static_cast<size_t>(g_.hidden));
    const int64_t rows = g_.gates * g_.hidden;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = g_.Backwards(d) ? length - 1 - i : i;
      const int64_t at = g_.batch_first ? b * g_.times + t : t * g_.batch + b;
      const std::vector<double> x = Load(In(args, kX), g_.dtype, g_.inputs, at * g_.inputs);
      std::vector<double> gates = w.input_bias;
      AddRows(x, w.input, rows, 0, rows, &gates);
      cell_({g_, w, gates, h, c});
      Store(out(0), result(t), &h);
    }
    for (int64_t t = length; t < g_.times; ++t) Store(out(0), result(t), nullptr);
    Store(out(1), state, &h);
    Store(out(2), state, &c);
  }

  RnnGeometry g_;
  RnnLayer layer_;
  RnnCell cell_;
  std::vector<bool> given_;
  DType lengths_;
};

}  // namespace

double RnnActivation::operator()(double x) const {
  switch (kind) {
    case kSigmoid:
      return 1 / (1 + std::exp(-x));
    case kTanh:
      return std::tanh(x);
    case kRelu:
      return std::max(x, 0.0);
    case kAffine:
      return alpha * x + beta;
    case kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case kThresholdedRelu:
      return x >= alpha ? x : 0;
    case kScaledTanh:
      return alpha * std::tanh(beta * x);
    case kHardSigmoid:
      return std::min(std::max(alpha * x + beta, 0.0), 1.0);
    case kElu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case kSoftsign:
      return x / (1 + std::abs(x));
    case kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

void RnnStep::AddRecurrent(const std::vector<double>& state, int64_t first, int64_t last,
                           std::vector<double>* to) const {
  AddRows(state, w.recurrent, g.gates * g.hidden, first * g.hidden, last * g.hidden, to);
}

void DefineRecurrent(op::OpDef& def, const char* name, const RnnLayer& layer,
                     std::function<RnnCell(const op::Attrs&)> make_cell) {
  def.infer = [name, layer](op::InferContext& c) -> Status {
    const size_t outputs = static_cast<size_t>(std::max(c.num_outputs, 1));
    c.outputs.assign(outputs, UnknownRank(c.inputs[kX]->dtype));
    for (size_t i : {kX, kW, kR})
      if (!c.inputs[i]->known_rank || !IsKnown(c.inputs[i]->dims)) return OkStatus();
    OPSNN_ASSIGN_OR_RETURN(const RnnGeometry g, ReadGeometry(name, layer, c.inputs, c.attrs));
    const Dims y = g.batch_first ? Dims{g.batch, g.times, g.directions, g.hidden}
                                 : Dims{g.times, g.directions, g.batch, g.hidden};
    const Dims state =
        g.batch_first ? Dims{g.batch, g.directions, g.hidden} : Dims{g.directions, g.batch, g.hidden};
    for (size_t i = 0; i < outputs; ++i) c.outputs[i] = Desc(g.dtype, i == 0 ? y : state);
    return OkStatus();
  };
  def.plan = [name, layer, make_cell](const op::PlanContext& c) -> Result<op::KernelPtr> {
    OPSNN_ASSIGN_OR_RETURN(const RnnGeometry g, ReadGeometry(name, layer, c.inputs, c.attrs));
    std::vector<bool> given;
    for (size_t i = kX; i <= kPeephole; ++i) given.push_back(IsGiven(c.inputs, i));
    const op::TensorDesc* lengths = InputOrNull(c.inputs, kLengths);
    const auto run = std::make_shared<const Layer>(g, layer, make_cell(op::AttrsOf(c.attrs)), given,
                                                   lengths != nullptr ? lengths->dtype : DType::kS32);
    return Staged(c, MakeKernel("step by step", [run, outputs = c.outputs.size()](const op::RunArgs& args) {
                    return run->Run(args, outputs);
                  }));
  };
}

}  // namespace opsnn::ops
