#include "opsnn/operator_model.h"

#include <cmath>
#include <random>
#include <set>

#include "api/model_impl.h"
#include "base/caught.h"
#include "graph/available_memory.h"
#include "tensor/element.h"

namespace opsnn {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// Builds the graph of one call. Activations become model inputs, weights and biases constants.
class Builder {
 public:
  explicit Builder(const OpSpec& spec) : spec_(spec), dtype_(spec.dtype) { g_.name = spec.op; }

  Result<Graph> Build();

 private:
  Result<std::vector<int64_t>> Need(const char* key, size_t at_least = 1, size_t at_most = kMaxRank) const {
    used_.insert(key);
    auto it = spec_.ints.find(key);
    if (it == spec_.ints.end() || it->second.empty()) {
      return InvalidArgument("%s: argument --%s is missing; allowed: %s", spec_.op.c_str(), key,
                             Arguments().c_str());
    }
    if (it->second.size() < at_least || it->second.size() > at_most) {
      const std::string allowed =
          at_least == at_most ? StrFormat("%zu", at_least) : StrFormat("%zu to %zu", at_least, at_most);
      return InvalidArgument("%s: argument --%s has %zu values, allowed: %s", spec_.op.c_str(), key,
                             it->second.size(), allowed.c_str());
    }
    return it->second;
  }
  // Those that the operator takes, "--m --n --k [--batch]".
  std::string Arguments() const {
    for (const OpSpecHelp& h : OperatorModelNames())
      if (h.op == spec_.op) return h.arguments;
    return "";
  }
  std::vector<int64_t> Get(const char* key) const {
    used_.insert(key);
    auto it = spec_.ints.find(key);
    return it == spec_.ints.end() ? std::vector<int64_t>() : it->second;
  }
  // One value per window dim; a single one is for all of them.
  Result<std::vector<int64_t>> Spread(const char* key, int64_t fallback, size_t dims) const {
    std::vector<int64_t> v = Get(key);
    if (v.empty()) v = {fallback};
    if (v.size() == 1) v.assign(dims, v[0]);
    if (v.size() == dims) return v;
    return InvalidArgument("%s: argument --%s has %zu values, allowed: 1 or %zu", spec_.op.c_str(), key,
                           v.size(), dims);
  }
  // Pads in front, then behind; one value is for all of them, one per dim for both sides.
  Result<std::vector<int64_t>> Pads(size_t dims) const {
    std::vector<int64_t> v = Get("pad");
    if (v.size() == 2 * dims) return v;
    if (v.size() > 1 && v.size() != dims)
      return InvalidArgument("%s: argument --pad has %zu values, allowed: 1, %zu or %zu", spec_.op.c_str(),
                             v.size(), dims, 2 * dims);
    OPSNN_ASSIGN_OR_RETURN(v, Spread("pad", 0, dims));
    for (size_t i = 0; i < dims; ++i) v.push_back(v[i]);
    return v;
  }
  Status CheckSizes(const char* key, const std::vector<int64_t>& dims) const {
    double elements = 1;
    for (int64_t d : dims) {
      if (d < 0) {
        return InvalidArgument("%s: argument --%s has the size %lld, allowed: 0 or more", spec_.op.c_str(),
                               key, static_cast<long long>(d));
      }
      elements *= static_cast<double>(d);
    }
    if (elements > 0x1p40) {
      return InvalidArgument("%s: argument --%s asks for %.3g elements, allowed: at most 2^40",
                             spec_.op.c_str(), key, elements);
    }
    return OkStatus();
  }

  ValueId Input(const char* name, const std::vector<int64_t>& dims) {
    graph::Value v;
    v.name = name;
    v.desc.dtype = dtype_;
    v.desc.dims = Dims(dims);
    const ValueId id = g_.AddValue(std::move(v));
    g_.inputs.push_back(id);
    return id;
  }
  // Uniform values of variance 1 / fan_in, the same on every machine.
  Result<ValueId> Weights(const std::string& name, const std::vector<int64_t>& dims, int64_t fan_in) {
    constexpr double kLargeBytes = 32 << 20;  // values for less take no time worth mentioning
    double bytes = static_cast<double>(SizeOf(dtype_));
    for (int64_t d : dims) bytes *= static_cast<double>(d);
    if (spec_.plan_only && bytes > kLargeBytes) return Input(name.c_str(), dims);
    if (bytes > static_cast<double>(graph::AvailableMemory()))
      return Errorf(Code::kRuntime, "%s: got %s of %.3g bytes; allowed: the %.3g bytes of memory available",
                    spec_.op.c_str(), name.c_str(), bytes, static_cast<double>(graph::AvailableMemory()));
    auto t = std::make_shared<HostTensor>(dtype_, Dims(dims));
    if (!t->ok())
      return Errorf(Code::kRuntime, "%s: cannot allocate %zu bytes for %s", spec_.op.c_str(), t->bytes(),
                    name.c_str());
    const double range = std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(1, fan_in)));
    for (int64_t i = 0; i < t->size(); ++i) {
      const double v = (static_cast<double>(engine_() >> 40) * 0x1p-23 - 1) * range;
      WriteElement(t->as<char>() + i * static_cast<int64_t>(SizeOf(dtype_)), dtype_, v);
    }
    return g_.AddConstant(name, std::move(t));
  }
  Result<ValueId> Add(const char* op, std::vector<ValueId> inputs, op::Attrs attrs = {}) {
    const op::OpDef* def = op::FindOperator(op);
    if (!def) return Errorf(Code::kNotImplemented, "%s: there is no operator %s", spec_.op.c_str(), op);
    graph::Value out;
    out.name = StrFormat("%s_%zu", op, g_.nodes.size());
    out.desc.known_rank = false;
    Node n;
    n.name = out.name;
    n.op = def;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    n.num_op_inputs = static_cast<int>(n.inputs.size());
    n.origins = {static_cast<graph::NodeId>(g_.nodes.size())};
    const ValueId v = g_.AddValue(std::move(out));
    n.outputs = {v};
    g_.AddNode(std::move(n));
    return v;
  }

  Result<ValueId> Main();
  Result<ValueId> MatMul();
  Result<ValueId> Ffn();
  Result<ValueId> Conv();
  Result<ValueId> Rows(const char* op, bool scale, bool bias);
  Result<ValueId> Epilogue(ValueId y, const std::string& stage);
  Result<ValueId> RowsBehind(ValueId y, const std::string& stage);
  Result<ValueId> PoolBehind(ValueId y, const std::string& stage);
  Result<ValueId> Convert(ValueId y, const std::string& stage);
  Status ResolveOutDims();

  const OpSpec& spec_;
  DType dtype_;  // of what comes next
  Graph g_;
  std::mt19937_64 engine_{42};
  mutable std::set<std::string> used_;         // arguments that were looked at
  std::vector<int64_t> out_dims_, bias_dims_;  // of the operator's result; what a bias broadcasts from
};

struct Simple {
  const char* name;
  const char* op;
  int inputs;
};
// Element-wise operators by their command-line word; also what an epilogue may hold.
constexpr Simple kSimple[] = {{"relu", "Relu", 1},
                              {"gelu", "Gelu", 1},
                              {"gelu_tanh", "Gelu", 1},
                              {"silu", "Swish", 1},
                              {"sigmoid", "Sigmoid", 1},
                              {"tanh", "Tanh", 1},
                              {"hardswish", "HardSwish", 1},
                              {"hardsigmoid", "HardSigmoid", 1},
                              {"leaky_relu", "LeakyRelu", 1},
                              {"exp", "Exp", 1},
                              {"sqrt", "Sqrt", 1},
                              {"erf", "Erf", 1},
                              {"add", "Add", 2},
                              {"mul", "Mul", 2},
                              {"sub", "Sub", 2},
                              {"div", "Div", 2}};

const Simple* FindSimple(const std::string& name) {
  for (const Simple& s : kSimple) {
    if (name == s.name) return &s;
  }
  return nullptr;
}

op::Attrs SimpleAttrs(const std::string& name) {
  op::Attrs a;
  if (name == "gelu_tanh") a.Set("approximate", std::string("tanh"));
  return a;
}

Result<ValueId> Builder::MatMul() {
  OPSNN_ASSIGN_OR_RETURN(const auto m, Need("m", 1, 1));
  OPSNN_ASSIGN_OR_RETURN(const auto n, Need("n", 1, 1));
  OPSNN_ASSIGN_OR_RETURN(const auto k, Need("k", 1, 1));
  const auto batch = Get("batch");
  std::vector<int64_t> a = batch, b = batch;
  a.insert(a.end(), {m[0], k[0]});
  b.insert(b.end(), {k[0], n[0]});
  OPSNN_RETURN_IF_ERROR(CheckSizes("m", m));
  OPSNN_RETURN_IF_ERROR(CheckSizes("n", n));
  OPSNN_RETURN_IF_ERROR(CheckSizes("k", k));
  OPSNN_RETURN_IF_ERROR(CheckSizes("batch", batch));
  OPSNN_RETURN_IF_ERROR(CheckSizes("m, --k, --batch", a));
  OPSNN_RETURN_IF_ERROR(CheckSizes("k, --n, --batch", b));
  out_dims_ = batch;
  out_dims_.insert(out_dims_.end(), {m[0], n[0]});
  bias_dims_ = {n[0]};
  const ValueId x = Input("a", a);
  // With a batch both operands are activations, as in attention; otherwise the second is a weight.
  if (!batch.empty()) return Add("MatMul", {x, Input("b", b)});
  OPSNN_ASSIGN_OR_RETURN(const ValueId w, Weights("w", b, k[0]));
  return Add("MatMul", {x, w});
}

// The feed-forward part of a transformer: gelu(x W1 + b1) W2, m rows of k numbers through n of them.
Result<ValueId> Builder::Ffn() {
  OPSNN_ASSIGN_OR_RETURN(const auto m, Need("m", 1, 1));
  OPSNN_ASSIGN_OR_RETURN(const auto n, Need("n", 1, 1));
  OPSNN_ASSIGN_OR_RETURN(const auto k, Need("k", 1, 1));
  OPSNN_RETURN_IF_ERROR(CheckSizes("m", m));
  OPSNN_RETURN_IF_ERROR(CheckSizes("n", n));
  OPSNN_RETURN_IF_ERROR(CheckSizes("k", k));
  OPSNN_RETURN_IF_ERROR(CheckSizes("m, --k", {m[0], k[0]}));
  OPSNN_RETURN_IF_ERROR(CheckSizes("m, --n", {m[0], n[0]}));
  OPSNN_RETURN_IF_ERROR(CheckSizes("k, --n", {k[0], n[0]}));
  const ValueId x = Input("x", {m[0], k[0]});
  OPSNN_ASSIGN_OR_RETURN(const ValueId w1, Weights("w1", {k[0], n[0]}, k[0]));
  OPSNN_ASSIGN_OR_RETURN(const ValueId b1, Weights("b1", {n[0]}, 1));
  OPSNN_ASSIGN_OR_RETURN(const ValueId w2, Weights("w2", {n[0], k[0]}, n[0]));
  out_dims_ = {m[0], k[0]};
  bias_dims_ = {k[0]};
  OPSNN_ASSIGN_OR_RETURN(ValueId y, Add("MatMul", {x, w1}));
  OPSNN_ASSIGN_OR_RETURN(y, Add("Add", {y, b1}));
  OPSNN_ASSIGN_OR_RETURN(y, Add("Gelu", {y}));
  return Add("MatMul", {y, w2});
}

Result<ValueId> Builder::Conv() {
  const auto rank =
      static_cast<size_t>(spec_.op[4] - '0') + 2;  // conv2d: images and channels, then two sizes
  OPSNN_ASSIGN_OR_RETURN(const auto x, Need("x", rank, rank));
  OPSNN_ASSIGN_OR_RETURN(const auto w, Need("w", x.size(), x.size()));
  OPSNN_RETURN_IF_ERROR(CheckSizes("x", x));
  OPSNN_RETURN_IF_ERROR(CheckSizes("w", w));
  const size_t s = x.size() - 2;
  op::Attrs attrs;
  OPSNN_ASSIGN_OR_RETURN(const auto strides, Spread("stride", 1, s));
  OPSNN_ASSIGN_OR_RETURN(const auto dilations, Spread("dilation", 1, s));
  OPSNN_ASSIGN_OR_RETURN(const auto pads, Pads(s));
  attrs.Set("strides", strides);
  attrs.Set("dilations", dilations);
  attrs.Set("pads", pads);
  OPSNN_ASSIGN_OR_RETURN(const auto groups, Spread("groups", 1, 1));
  attrs.Set("group", groups[0]);
  const ValueId in = Input("x", x);
  int64_t fan_in = 1;
  for (size_t i = 1; i < w.size(); ++i) fan_in *= w[i];
  OPSNN_ASSIGN_OR_RETURN(const ValueId weight, Weights("w", w, fan_in));
  out_dims_ = {};
  bias_dims_ = {w[0]};
  for (size_t i = 0; i < s; ++i) bias_dims_.push_back(1);
  return Add("Conv", {in, weight}, std::move(attrs));
}

Result<ValueId> Builder::Rows(const char* op, bool scale, bool bias) {
  OPSNN_ASSIGN_OR_RETURN(const auto x, Need("x"));
  OPSNN_RETURN_IF_ERROR(CheckSizes("x", x));
  op::Attrs attrs;
  OPSNN_ASSIGN_OR_RETURN(const auto axis, Spread("axis", -1, 1));
  attrs.Set("axis", axis[0]);
  out_dims_ = x;
  bias_dims_ = {x.back()};
  std::vector<ValueId> inputs = {Input("x", x)};
  for (bool with : {scale, bias}) {
    if (!with) continue;
    OPSNN_ASSIGN_OR_RETURN(const ValueId v, Weights(inputs.size() == 1 ? "scale" : "bias", {x.back()}, 1));
    inputs.push_back(v);
  }
  return Add(op, inputs, std::move(attrs));
}

Result<ValueId> Builder::Main() {
  if (spec_.op == "matmul") return MatMul();
  if (spec_.op == "ffn") return Ffn();
  if (spec_.op == "conv1d" || spec_.op == "conv2d" || spec_.op == "conv3d") return Conv();
  if (spec_.op == "softmax") return Rows("Softmax", false, false);
  if (spec_.op == "layernorm") return Rows("LayerNormalization", true, true);
  if (spec_.op == "rmsnorm") return Rows("RMSNormalization", true, false);
  const Simple* simple = FindSimple(spec_.op);
  const bool pool = spec_.op == "maxpool" || spec_.op == "avgpool";
  if (!simple && !pool && spec_.op != "transpose") {
    std::string names;
    for (const OpSpecHelp& h : OperatorModelNames()) names += (names.empty() ? "" : ", ") + h.op;
    return InvalidArgument("unknown operator \"%s\" (and no such model file); allowed: %s", spec_.op.c_str(),
                           names.c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(const auto x, Need("x"));
  OPSNN_RETURN_IF_ERROR(CheckSizes("x", x));
  out_dims_ = x;
  bias_dims_ = {x.back()};
  std::vector<ValueId> inputs = {Input("x", x)};
  if (simple) {
    if (simple->inputs == 2) inputs.push_back(Input("y", x));
    return Add(simple->op, inputs, SimpleAttrs(spec_.op));
  }
  op::Attrs attrs;
  out_dims_.clear();
  if (pool) {
    if (x.size() < 3) {
      return InvalidArgument(
          "%s: argument --x has %zu dims, allowed: 3 or more (batch, channels, window dims)",
          spec_.op.c_str(), x.size());
    }
    OPSNN_RETURN_IF_ERROR(Need("kernel").status());
    const size_t s = x.size() - 2;
    OPSNN_ASSIGN_OR_RETURN(const auto kernel, Spread("kernel", 1, s));
    OPSNN_ASSIGN_OR_RETURN(const auto strides, Spread("stride", 1, s));
    OPSNN_ASSIGN_OR_RETURN(const auto pads, Pads(s));
    attrs.Set("kernel_shape", kernel);
    attrs.Set("strides", strides);
    attrs.Set("pads", pads);
    return Add(spec_.op == "maxpool" ? "MaxPool" : "AveragePool", inputs, std::move(attrs));
  }
  std::vector<int64_t> perm = Get("perm");
  if (!perm.empty()) attrs.Set("perm", perm);
  if (perm.empty()) {
    for (size_t i = x.size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  // What a bias broadcasts from is the result; a bad permutation is refused by the operator itself.
  if (const int64_t last = perm.back(); last >= 0 && last < static_cast<int64_t>(x.size())) {
    bias_dims_ = {x[static_cast<size_t>(last)]};
  }
  return Add("Transpose", inputs, std::move(attrs));
}

// The dims of a convolution's result, by its own rule.
Status Builder::ResolveOutDims() {
  if (!out_dims_.empty()) return OkStatus();
  OPSNN_ASSIGN_OR_RETURN(const auto x, Need("x"));
  OPSNN_ASSIGN_OR_RETURN(const auto w, Need("w"));
  const auto& attrs = g_.nodes[0].attrs;
  out_dims_ = {x[0], w[0]};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t reach = (w[i + 2] - 1) * attrs.Ints("dilations")[i] + 1;
    const auto pads = attrs.Ints("pads");
    out_dims_.push_back((x[i + 2] + pads[i] + pads[x.size() - 2 + i] - reach) /
                            std::max<int64_t>(1, attrs.Ints("strides")[i]) +
                        1);
  }
  return CheckSizes("x", out_dims_);
}

// A reduction over the innermost dim; softmax of an image over its channels.
Result<ValueId> Builder::RowsBehind(ValueId y, const std::string& stage) {
  const bool image = spec_.op.compare(0, 4, "conv") == 0;
  op::Attrs attrs;
  if (stage == "softmax") {
    attrs.Set("axis", int64_t{image ? 1 : -1});
    return Add("Softmax", {y}, std::move(attrs));
  }
  if (image) OPSNN_RETURN_IF_ERROR(ResolveOutDims());
  if (out_dims_.empty()) return InvalidArgument("%s: no %s follows it", spec_.op.c_str(), stage.c_str());
  attrs.Set("axis", int64_t{-1});
  OPSNN_ASSIGN_OR_RETURN(const ValueId scale, Weights("norm_scale", {out_dims_.back()}, 1));
  if (stage == "rmsnorm") return Add("RMSNormalization", {y, scale}, std::move(attrs));
  OPSNN_ASSIGN_OR_RETURN(const ValueId shift, Weights("norm_bias", {out_dims_.back()}, 1));
  return Add("LayerNormalization", {y, scale, shift}, std::move(attrs));
}

// Windows of --kernel (2 where none is given) side by side behind a convolution.
Result<ValueId> Builder::PoolBehind(ValueId y, const std::string& stage) {
  if (spec_.op.compare(0, 4, "conv") != 0)
    return InvalidArgument("%s: stage %s needs an image; allowed: behind conv1d, conv2d, conv3d",
                           spec_.op.c_str(), stage.c_str());
  OPSNN_ASSIGN_OR_RETURN(const auto kernel, Spread("kernel", 2, g_.nodes[0].attrs.Ints("strides").size()));
  op::Attrs attrs;
  attrs.Set("kernel_shape", kernel);
  attrs.Set("strides", kernel);
  OPSNN_RETURN_IF_ERROR(ResolveOutDims());
  for (size_t i = 0; i < kernel.size(); ++i)
    out_dims_[i + 2] = kernel[i] > 0 && out_dims_[i + 2] >= kernel[i] ? out_dims_[i + 2] / kernel[i] : 0;
  return Add(stage == "maxpool" ? "MaxPool" : "AveragePool", {y}, std::move(attrs));
}

// The stages behind it have operands of the new type.
Result<ValueId> Builder::Convert(ValueId y, const std::string& stage) {
  struct Type {
    const char* stage;
    DType dtype;
    int64_t onnx;
  };
  for (const Type& t :
       {Type{"to_f32", DType::kF32, 1}, Type{"to_f16", DType::kF16, 10}, Type{"to_bf16", DType::kBF16, 16}}) {
    if (stage != t.stage) continue;
    dtype_ = t.dtype;
    op::Attrs attrs;
    attrs.Set("to", t.onnx);
    return Add("Cast", {y}, std::move(attrs));
  }
  return InvalidArgument("%s: unknown epilogue stage \"%s\"; allowed: to_f32, to_f16, to_bf16",
                         spec_.op.c_str(), stage.c_str());
}

Result<ValueId> Builder::Epilogue(ValueId y, const std::string& stage) {
  if (stage == "bias") {
    OPSNN_ASSIGN_OR_RETURN(const ValueId b, Weights("bias", bias_dims_, 1));
    return Add("Add", {y, b});
  }
  if (stage == "softmax" || stage == "layernorm" || stage == "rmsnorm") return RowsBehind(y, stage);
  if (stage == "maxpool" || stage == "avgpool") return PoolBehind(y, stage);
  if (stage.compare(0, 3, "to_") == 0) return Convert(y, stage);
  const Simple* simple = FindSimple(stage);
  if (!simple) {
    std::string names = "bias";
    for (const Simple& s : kSimple) names += std::string(", ") + s.name;
    return InvalidArgument(
        "%s: unknown epilogue stage \"%s\"; allowed: %s, softmax, layernorm, rmsnorm, maxpool, avgpool, "
        "to_f32, to_f16, to_bf16",
        spec_.op.c_str(), stage.c_str(), names.c_str());
  }
  if (simple->inputs == 1) return Add(simple->op, {y}, SimpleAttrs(stage));
  OPSNN_RETURN_IF_ERROR(ResolveOutDims());
  return Add(simple->op, {y, Input(StrFormat("residual_%zu", g_.nodes.size()).c_str(), out_dims_)});
}

Result<Graph> Builder::Build() {
  OPSNN_ASSIGN_OR_RETURN(ValueId y, Main());
  for (const std::string& stage : spec_.epilogue) {
    OPSNN_ASSIGN_OR_RETURN(y, Epilogue(y, stage));
  }
  for (const auto& [key, values] : spec_.ints) {
    if (!values.empty() && used_.count(key) == 0) {
      return InvalidArgument("%s: argument --%s is not one of this operator's; allowed: %s", spec_.op.c_str(),
                             key.c_str(), Arguments().c_str());
    }
  }
  g_.outputs.push_back(y);
  g_.values[y].desc.dtype = dtype_;
  OPSNN_RETURN_IF_ERROR(g_.Sort());
  return std::move(g_);
}

}  // namespace

std::vector<OpSpecHelp> OperatorModelNames() {
  std::vector<OpSpecHelp> names = {{"matmul", "--m --n --k [--batch]"},
                                   {"ffn", "--m --n --k"},
                                   {"conv1d", "--x --w [--stride --pad --dilation --groups]"},
                                   {"conv2d", "--x --w [--stride --pad --dilation --groups]"},
                                   {"conv3d", "--x --w [--stride --pad --dilation --groups]"},
                                   {"softmax", "--x [--axis]"},
                                   {"layernorm", "--x [--axis]"},
                                   {"rmsnorm", "--x [--axis]"},
                                   {"maxpool", "--x --kernel [--stride --pad]"},
                                   {"avgpool", "--x --kernel [--stride --pad]"},
                                   {"transpose", "--x [--perm]"}};
  for (const Simple& s : kSimple) names.push_back({s.name, "--x"});
  return names;
}

Result<Model> MakeOperatorModel(const OpSpec& spec, const ModelOptions& options) {
  return NoThrow([&] { return api::ModelAccess::Make([spec] { return Builder(spec).Build(); }, options); });
}

std::string DescribeShape(const OpSpec& spec) {
  std::string text;
  for (const auto& [key, values] : spec.ints) {
    text += (text.empty() ? "" : " ") + key + "=";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  }
  return text;
}

}  // namespace opsnn
