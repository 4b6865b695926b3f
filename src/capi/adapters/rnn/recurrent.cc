// LSTM and GRU over whole sequences, in layers and both directions: each layer is one call of the operator of
// that name, whose weights are the published ones with their gates in another order.
#include <string>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

// What the two functions differ in. gates[i]: where the operator's gate i lies in the published weights.
struct Cell {
  const char* op;
  std::vector<int64_t> gates;
  bool has_cells;             // a second state beside the hidden one
  const char* bidirectional;  // the parameter
};

struct Sizes {
  int64_t steps, batch, inputs, hidden, directions, layers;
  bool biased, batch_first;
};

Status RequireInference(const Call& call) {
  if (call.Int("train") != 0) {
    return Errorf(Code::kNotImplemented, "%s: train is true; supported: false, the gates are not kept",
                  call.function().api);
  }
  const double dropout = call.Double("dropout");  // nothing is dropped without training
  if (!(dropout >= 0 && dropout <= 1)) return BadValue(call, "dropout", StrFormat("%g", dropout), "0 to 1");
  if (!call.Given("batchSizes")) return OkStatus();
  return Errorf(Code::kNotImplemented, "%s: batchSizes is given; supported: null, sequences of one length",
                call.function().api);
}

Result<Sizes> ReadSizes(const Call& call, const Cell& cell, const std::vector<Operand>& params) {
  const Operand x = Arg(call, "input");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 3, 3));
  Sizes s{};
  s.batch_first = call.Int("batchFirst") != 0, s.biased = call.Int("hasBias") != 0;
  s.steps = x.desc.dims[s.batch_first ? 1 : 0], s.batch = x.desc.dims[s.batch_first ? 0 : 1];
  s.inputs = x.desc.dims[2], s.directions = call.Int(cell.bidirectional) != 0 ? 2 : 1;
  s.layers = call.Int("numLayers");
  constexpr int64_t kMostLayers = 1024;  // what is planned for at once
  if (s.layers < 1 || s.layers > kMostLayers)
    return BadValue(call, "numLayers", std::to_string(s.layers), "1 to " + std::to_string(kMostLayers));
  const int64_t count = s.layers * s.directions * (s.biased ? 4 : 2);
  if (static_cast<int64_t>(params.size()) != count) {
    return BadValue(call, "params", "a list of " + std::to_string(params.size()),
                    std::to_string(count) + ", weights and biases of every layer and direction");
  }
  OPSNN_RETURN_IF_ERROR(RequireRank(call, params[1], 2, 2));
  s.hidden = params[1].desc.dims[1];
  if (NumElements(x.desc.dims) == 0 || s.hidden == 0)
    return BadValue(call, "input", "of shape " + ToString(x.desc.dims),
                    "elements, and a hidden size above 0");
  return s;
}

// Part `at` of the first dim of o, without that dim.
Operand Part(const Operand& o, int64_t at) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  const int64_t step = strides[0];
  dims.erase(0), strides.erase(0);
  Operand part = WithView(o, dims, strides);
  part.offset += at * step;
  return part;
}
// Parts [at, at + count) of the first dim.
Operand Parts(const Operand& o, int64_t at, int64_t count) {
  Dims dims = o.desc.dims;
  const Dims strides = StridesOf(o.desc);
  dims[0] = count;
  Operand parts = WithView(o, dims, strides);
  parts.offset += at * strides[0];
  return parts;
}

class Layers {
 public:
  Layers(const Call& call, const Cell& cell, const Sizes& s, OpCall* out)
      : call_(call), cell_(cell), s_(s), out_(out), params_(Members(call, "params")) {}

  // [time, batch, values] of a tensor of the call.
  Operand ByTime(const Operand& o) const { return s_.batch_first ? Permuted(o, {1, 0, 2}) : o; }

  Status Run(const std::vector<Operand>& first, const std::vector<Operand>& last, const Operand& y) {
    const auto gates = static_cast<int64_t>(cell_.gates.size());
    OPSNN_ASSIGN_OR_RETURN(const auto rows, NewConstant(call_, DType::kS64, {gates * s_.hidden}));
    for (int64_t i = 0; i < gates * s_.hidden; ++i)
      rows->as<int64_t>()[i] = cell_.gates[static_cast<size_t>(i / s_.hidden)] * s_.hidden + i % s_.hidden;
    rows_ = Constant(rows);
    Operand x = ByTime(Arg(call_, "input"));
    for (int64_t layer = 0; layer < s_.layers; ++layer) {
      const int64_t width = s_.directions * s_.hidden;
      const bool top = layer + 1 == s_.layers;
      const Operand to = top ? ByTime(y) : out_->Temp(x.desc.dtype, {s_.steps, s_.batch, width});
      OPSNN_RETURN_IF_ERROR(RunLayer(layer, x, to, first, last));
      x = to;
    }
    return OkStatus();
  }

 private:
  // The weights of one kind of both directions, with the gates in the operator's order.
  Result<Operand> Gathered(int64_t layer, int64_t kind, const Dims& want) {
    Dims dims = want;
    dims.insert(0, s_.directions);
    const Operand all = out_->Temp(params_[0].desc.dtype, dims);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const int64_t of_direction = s_.biased ? 4 : 2;
      const Operand& given = params_[static_cast<size_t>((layer * s_.directions + d) * of_direction + kind)];
      OPSNN_RETURN_IF_ERROR(RequireDType(call_, given, params_[0].desc.dtype, "params[0]"));
      OPSNN_RETURN_IF_ERROR(
          RequireShape(call_, given, want, "rows for each gate, and the width of the layer"));
      out_->first.push_back(Along("Gather", 0, {given, rows_}, Part(all, d)));
    }
    return all;
  }

  // [directions, 2 * rows]: of the inputs, then of the hidden state.
  Result<Operand> Biases(int64_t layer) {
    const int64_t rows = rows_.desc.dims[0];
    const Operand all = out_->Temp(params_[0].desc.dtype, {s_.directions, 2 * rows});
    for (int64_t side = 0; side < 2; ++side) {
      OPSNN_ASSIGN_OR_RETURN(const Operand one, Gathered(layer, 2 + side, {rows}));
      Operand half = WithView(all, {s_.directions, rows}, {2 * rows, 1});
      half.offset += side * rows;
      out_->first.push_back(CallOf("Identity", {one}, {half}));
    }
    return all;
  }

  Status RunLayer(int64_t layer, const Operand& x, const Operand& y, const std::vector<Operand>& first,
                  const std::vector<Operand>& last) {
    const int64_t rows = rows_.desc.dims[0], d = s_.directions, at = layer * d;
    OpCall c;
    c.op = op::FindOperator(cell_.op);
    OPSNN_ASSIGN_OR_RETURN(const Operand w, Gathered(layer, 0, {rows, x.desc.dims[2]}));
    OPSNN_ASSIGN_OR_RETURN(const Operand r, Gathered(layer, 1, {rows, s_.hidden}));
    Operand bias;
    if (s_.biased) {
      OPSNN_ASSIGN_OR_RETURN(bias, Biases(layer));
    }
    c.inputs = {x, w, r, bias, Operand()};
    for (const Operand& state : first) c.inputs.push_back(Parts(state, at, d));
    // [time, direction, batch, hidden] over [time, batch, direction * hidden].
    const Dims s = StridesOf(y.desc);
    c.outputs = {WithView(y, {s_.steps, d, s_.batch, s_.hidden}, {s[0], s_.hidden * s[2], s[1], s[2]})};
    for (const Operand& state : last) c.outputs.push_back(Parts(state, at, d));
    c.attrs.Set("hidden_size", s_.hidden);
    c.attrs.Set("direction", std::string(d == 2 ? "bidirectional" : "forward"));
    if (!cell_.has_cells) c.attrs.Set("linear_before_reset", int64_t{1});
    if (layer + 1 < s_.layers) {
      out_->first.push_back(std::move(c));
    } else {
      Take(std::move(c), out_);
    }
    return OkStatus();
  }

  const Call& call_;
  const Cell& cell_;
  const Sizes& s_;
  OpCall* out_;
  const std::vector<Operand> params_;
  Operand rows_;  // the operator's order of the rows of a weight
};

Status Bind(const Call& call, const Cell& cell, const std::vector<Operand>& first, OpCall* out) {
  OPSNN_RETURN_IF_ERROR(RequireInference(call));
  OPSNN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(call, cell, Members(call, "params")));
  const DType dtype = Arg(call, "input").desc.dtype;
  const Operand y = Arg(call, "output");
  std::vector<Operand> last = {Arg(call, "hy")};
  if (cell.has_cells) last.push_back(Arg(call, "cy"));
  const Dims state = {s.layers * s.directions, s.batch, s.hidden};
  const int64_t width = s.directions * s.hidden;
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, y, s.batch_first ? Dims{s.batch, s.steps, width} : Dims{s.steps, s.batch, width},
                   "that of input with the hidden values of each direction"));
  std::vector<Operand> states = first;
  states.insert(states.end(), last.begin(), last.end());
  for (const Operand& o : states) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, o, state, "a state for each layer and direction"));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, o, dtype, "input"));
  }
  for (const Operand& o : {y, Members(call, "params")[0]})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, o, dtype, "input"));
  return Layers(call, cell, s, out).Run(first, last, y);
}

}  // namespace

// Gates in, forget, candidate, out; the operator has in, out, forget, candidate.
Status Adapt_Lstm(const Call& call, OpCall& out) {
  const Cell cell = {"LSTM", {0, 3, 1, 2}, true, "bidirectional"};
  const std::vector<Operand> first = Members(call, "hx");
  if (!first.empty() && first.size() != 2) {
    return BadValue(call, "hx", "a list of " + std::to_string(first.size()),
                    "2, the hidden states and the cells, or null");
  }
  return Bind(call, cell, first, &out);
}

// Gates reset, update, candidate; the operator has update, reset, candidate.
Status Adapt_Gru(const Call& call, OpCall& out) {
  const Cell cell = {"GRU", {1, 0, 2}, false, "bidirection"};
  const Operand hx = Arg(call, "hx");
  return Bind(call, cell, hx.given() ? std::vector<Operand>{hx} : std::vector<Operand>(), &out);
}

}  // namespace opsnn::capi
