#include "onnx/normalize.h"

#include <algorithm>
#include <cctype>

#include "op/declaration.h"
#include "tensor/element.h"

namespace opsnn::onnx {
namespace {

using graph::kNoValue;
using graph::ValueId;

constexpr int64_t kForever = INT64_MAX;
constexpr int kOnnxBool = 9;

// Sets input i, padding with absent ones.
void SetInput(Call& c, size_t i, ValueId v) {
  if (c.inputs.size() <= i) c.inputs.resize(i + 1, kNoValue);
  c.inputs[i] = v;
}

bool HasInput(const Call& c, size_t i) { return i < c.inputs.size() && c.inputs[i] != kNoValue; }

DType InputDType(const GraphBuilder& b, const Call& c) {
  return HasInput(c, 0) ? b.Desc(c.inputs[0]).dtype : DType::kF32;
}

// Moves an ints attribute to input i, where it is present.
void IntsToInput(GraphBuilder& b, Call& c, const char* attr, size_t i) {
  if (!c.attrs.Has(attr)) return;
  SetInput(c, i, b.Ints(c, attr, c.attrs.Ints(attr)));
  c.attrs.Erase(attr);
}

void Default(Call& c, const char* attr, op::AttrValue v) {
  if (!c.attrs.Has(attr)) c.attrs.Set(attr, std::move(v));
}

// ---- rules

Status Constant(GraphBuilder& b, Call& c, int64_t) {
  ValueId v = kNoValue;
  if (const ConstTensor t = c.attrs.Tensor("value")) {
    v = b.graph().AddConstant(c.outputs[0], t);
  } else if (c.attrs.Has("value_float")) {
    v = b.Scalar(c, "", c.attrs.Float("value_float", 0), DType::kF32);
  } else if (c.attrs.Has("value_int")) {
    v = b.graph().AddConstant("", HostTensor::From<int64_t>({}, {c.attrs.Int("value_int", 0)}));
  } else if (c.attrs.Has("value_floats")) {
    v = b.Floats(c, "", c.attrs.Floats("value_floats"));
  } else if (c.attrs.Has("value_ints")) {
    v = b.Ints(c, "", c.attrs.Ints("value_ints"));
  } else {
    return InvalidArgument(
        "a Constant must have one of value, value_float, value_floats, value_int, value_ints.");
  }
  b.graph().values[v].name = c.outputs[0];
  c.op_type.clear();
  return b.Define(c.outputs[0], v);
}

// Until opset 6 a second operand was broadcast along `axis`; only the numpy-compatible case remains.
Status LegacyBroadcast(GraphBuilder& b, Call& c, int64_t) {
  if (c.attrs.Has("axis") && c.attrs.Int("broadcast", 0) == 1) {
    const auto& x = b.Desc(c.inputs[0]);
    const auto& y = b.Desc(c.inputs[1]);
    int64_t axis = c.attrs.Int("axis", 0);
    if (axis < 0) axis += x.dims.rank();
    if (!x.known_rank || !y.known_rank || axis < 0 || axis > x.dims.rank() - y.dims.rank())
      return InvalidArgument("broadcasting along axis %lld is not possible here.",
                             static_cast<long long>(axis));
    std::vector<int64_t> axes;
    for (int64_t i = y.dims.rank(); i < x.dims.rank() - axis; ++i) axes.push_back(i);
    if (!axes.empty()) {
      Call u{"Unsqueeze", c.name + "/broadcast", {c.inputs[1]}, {}, {}};
      u.inputs.push_back(b.Ints(u, "axes", axes));
      OPSNN_ASSIGN_OR_RETURN(c.inputs[1], b.EmitHelper(std::move(u), kForever));
    }
  }
  c.attrs.Erase("axis");
  c.attrs.Erase("broadcast");
  return OkStatus();
}

Status BatchNorm(GraphBuilder&, Call& c, int64_t opset) {
  if (opset >= 14 && c.attrs.Int("training_mode", 0) != 0) {
    c.attrs.Erase("training_mode");
    c.op_type = "BatchNormalizationTraining";
    return OkStatus();
  }
  if (opset < 7 && c.attrs.Int("is_test", 0) == 0 && c.outputs.size() > 1)
    return InvalidArgument("BatchNormalization in training mode is not supported before opset 14.");
  if (opset < 9 && c.attrs.Int("spatial", 1) == 0)
    return InvalidArgument("BatchNormalization with spatial = 0 is not supported; allowed is 1.");
  for (const char* a : {"spatial", "is_test", "momentum", "training_mode"}) c.attrs.Erase(a);
  c.outputs.resize(1);  // the further ones are for training
  return OkStatus();
}

Status CastTo(GraphBuilder&, Call& c, int64_t opset) {
  if (opset < 6) {  // the target was a string: "FLOAT"
    std::string name = c.attrs.String("to", "");
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char ch) { return std::tolower(ch); });
    const auto t = DTypeFromName(name == "float" ? "f32" : name == "double" ? "f64" : name);
    if (!t) return InvalidArgument("Cast to \"%s\" is not supported.", name.c_str());
    c.attrs.Set("to", int64_t{Info(*t).onnx});
  }
  c.attrs.Erase("saturate");  // matters for float8 only
  return OkStatus();
}

Status CastLike(GraphBuilder& b, Call& c, int64_t) {
  if (!HasInput(c, 1)) return InvalidArgument("its second input is missing.");
  c.attrs.Set("to", int64_t{Info(b.Desc(c.inputs[1]).dtype).onnx});
  c.attrs.Erase("saturate");  // matters for float8 only
  c.inputs.resize(1);
  c.op_type = "Cast";
  return OkStatus();
}

Status Clip(GraphBuilder& b, Call& c, int64_t) {
  const DType t = InputDType(b, c);
  if (c.attrs.Has("min")) SetInput(c, 1, b.Scalar(c, "min", c.attrs.Float("min", 0), t));
  if (c.attrs.Has("max")) SetInput(c, 2, b.Scalar(c, "max", c.attrs.Float("max", 0), t));
  c.attrs.Erase("min");
  c.attrs.Erase("max");
  return OkStatus();
}

Status Dropout(GraphBuilder& b, Call& c, int64_t opset) {
  if (opset >= 12 && HasInput(c, 2)) {
    const ConstTensor t = b.Desc(c.inputs[2]).constant;
    if (!t || t->size() != 1 || ToDoubles(*t)[0] != 0) {
      c.op_type = "DropoutTraining";
      return OkStatus();
    }
  }
  for (const char* a : {"ratio", "is_test", "seed"}) c.attrs.Erase(a);
  c.inputs.resize(1);
  if (c.outputs.size() < 2 || c.outputs[1].empty()) {
    c.op_type = "Identity";
    c.outputs.resize(1);
  }
  return OkStatus();
}

Status PadInputs(GraphBuilder& b, Call& c, int64_t) {
  if (c.attrs.Has("paddings")) {  // opset 1
    c.attrs.Set("pads", c.attrs.Ints("paddings"));
    c.attrs.Erase("paddings");
  }
  IntsToInput(b, c, "pads", 1);
  if (c.attrs.Has("value")) SetInput(c, 2, b.Scalar(c, "value", c.attrs.Float("value", 0), InputDType(b, c)));
  c.attrs.Erase("value");
  return OkStatus();
}

// Upsample and the Resize of opset 10 sample as "asymmetric" with floor.
Status ResizeFrom10(GraphBuilder& b, Call& c, int64_t opset) {
  if (c.op_type == "Upsample" && opset < 9) {
    std::vector<double> scales = c.attrs.Floats("scales");
    if (scales.empty()) scales = {1, 1, c.attrs.Float("height_scale", 1), c.attrs.Float("width_scale", 1)};
    SetInput(c, 1, b.Floats(c, "scales", scales));
    for (const char* a : {"scales", "height_scale", "width_scale"}) c.attrs.Erase(a);
  }
  if (!HasInput(c, 1)) return InvalidArgument("input scales is missing.");
  const ValueId scales = c.inputs[1];
  c.inputs.resize(1);
  SetInput(c, 2, scales);
  const std::string mode = c.attrs.String("mode", "nearest");
  c.attrs.Set("mode", mode == "bilinear" || mode == "trilinear" ? std::string("linear") : mode);
  c.attrs.Set("coordinate_transformation_mode", std::string("asymmetric"));
  c.attrs.Set("nearest_mode", std::string("floor"));
  c.op_type = "Resize";
  return OkStatus();
}

// An empty tensor for roi, scales or sizes means "not given".
Status ResizeFrom11(GraphBuilder& b, Call& c, int64_t) {
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.inputs[i] == kNoValue) continue;
    const op::TensorDesc& d = b.Desc(c.inputs[i]);
    if (d.known_rank && d.dims.rank() == 1 && d.dims[0] == 0) c.inputs[i] = kNoValue;
  }
  if (c.attrs.String("coordinate_transformation_mode", "") != "tf_crop_and_resize" && HasInput(c, 1))
    c.inputs[1] = kNoValue;  // roi has no meaning in the other modes
  while (!c.inputs.empty() && c.inputs.back() == kNoValue) c.inputs.pop_back();
  return OkStatus();
}

Status AxesToInput(GraphBuilder& b, Call& c, int64_t) {
  IntsToInput(b, c, "axes", 1);
  return OkStatus();
}
Status SplitToInput(GraphBuilder& b, Call& c, int64_t) {
  IntsToInput(b, c, "split", 1);
  return OkStatus();
}
Status ShapeToInput(GraphBuilder& b, Call& c, int64_t) {
  IntsToInput(b, c, "shape", 1);
  return OkStatus();
}
Status SliceToInputs(GraphBuilder& b, Call& c, int64_t) {
  IntsToInput(b, c, "starts", 1);
  IntsToInput(b, c, "ends", 2);
  IntsToInput(b, c, "axes", 3);
  return OkStatus();
}
Status TopKToInput(GraphBuilder& b, Call& c, int64_t) {
  SetInput(c, 1, b.Ints(c, "k", {c.attrs.Int("k", 1)}));
  c.attrs.Erase("k");
  return OkStatus();
}

Status SoftmaxAxis(GraphBuilder&, Call& c, int64_t) {
  Default(c, "axis", int64_t{-1});
  return OkStatus();
}

// Before opset 13 the input was coerced to a matrix at `axis` (default 1) and each of its rows normalised.
// That is the new meaning where axis is the last one; else it takes Flatten, the operator and a Reshape back.
Status SoftmaxCoerced(GraphBuilder& b, Call& c, int64_t opset) {
  const op::TensorDesc& x = b.Desc(c.inputs[0]);
  int64_t axis = c.attrs.Int("axis", x.known_rank && x.dims.rank() == 1 ? 0 : 1);
  if (x.known_rank) {
    OPSNN_ASSIGN_OR_RETURN(axis, NormalizeAxis(axis, x.dims.rank()));
  }
  c.attrs.Set("axis", int64_t{-1});
  if (x.known_rank) {
    int64_t tail = 1;  // sizes behind axis; unknown counts as more than one
    for (int64_t i = axis + 1; i < x.dims.rank(); ++i) tail *= x.dims[static_cast<int>(i)] == 1 ? 1 : 2;
    if (tail == 1) {
      c.attrs.Set("axis", axis);
      return OkStatus();
    }
  }
  const ValueId input = c.inputs[0];
  Call shape{"Shape", c.name + "/shape", {input}, {}, {}};
  OPSNN_ASSIGN_OR_RETURN(const ValueId dims, b.EmitHelper(std::move(shape), opset));
  Call flatten{"Flatten", c.name + "/flatten", {input}, {}, {}};
  flatten.attrs.Set("axis", axis);
  OPSNN_ASSIGN_OR_RETURN(const ValueId matrix, b.EmitHelper(std::move(flatten), opset));
  Call softmax{c.op_type, c.name, {matrix}, {}, c.attrs};
  OPSNN_ASSIGN_OR_RETURN(const ValueId rows, b.EmitHelper(std::move(softmax), opset));
  c = Call{"Reshape", c.name + "/unflatten", {rows, dims}, c.outputs, {}};
  return OkStatus();
}

Status ScatterRenamed(GraphBuilder&, Call& c, int64_t) {
  c.op_type = "ScatterElements";
  return OkStatus();
}

// Until opset 15 positions were not moved by half a pixel.
Status RoiAlignFrom10(GraphBuilder&, Call& c, int64_t) {
  Default(c, "coordinate_transformation_mode", std::string("output_half_pixel"));
  return OkStatus();
}

Status GridSampleModes(GraphBuilder&, Call& c, int64_t) {
  const std::string mode = c.attrs.String("mode", "bilinear");
  c.attrs.Set("mode", mode == "bilinear" ? std::string("linear") : mode == "bicubic" ? "cubic" : mode);
  return OkStatus();
}

Status DftAxis(GraphBuilder& b, Call& c, int64_t) {
  SetInput(c, 2, b.Ints(c, "axis", {c.attrs.Int("axis", 1)}));
  c.attrs.Erase("axis");
  return OkStatus();
}

struct Rule {
  const char* op;
  int64_t from, to;  // opsets whose models need it
  Status (*apply)(GraphBuilder&, Call&, int64_t opset);
};

constexpr Rule kRules[] = {
    {"Constant", 1, kForever, Constant},
    {"Add", 1, 6, LegacyBroadcast},
    {"Sub", 1, 6, LegacyBroadcast},
    {"Mul", 1, 6, LegacyBroadcast},
    {"Div", 1, 6, LegacyBroadcast},
    {"Pow", 1, 6, LegacyBroadcast},
    {"And", 1, 6, LegacyBroadcast},
    {"Or", 1, 6, LegacyBroadcast},
    {"Equal", 1, 6, LegacyBroadcast},
    {"Less", 1, 6, LegacyBroadcast},
    {"Greater", 1, 6, LegacyBroadcast},
    {"Gemm", 1, 6, LegacyBroadcast},
    {"BatchNormalization", 1, kForever, BatchNorm},
    {"Cast", 1, kForever, CastTo},
    {"CastLike", 1, kForever, CastLike},
    {"Clip", 1, 10, Clip},
    {"DFT", 1, 19, DftAxis},
    {"Dropout", 1, kForever, Dropout},
    {"Pad", 1, 10, PadInputs},
    {"Upsample", 1, 9, ResizeFrom10},
    {"Resize", 10, 10, ResizeFrom10},
    {"Resize", 11, kForever, ResizeFrom11},
    {"Reshape", 1, 4, ShapeToInput},
    {"Squeeze", 1, 12, AxesToInput},
    {"Unsqueeze", 1, 12, AxesToInput},
    {"ReduceSum", 1, 12, AxesToInput},
    {"ReduceMean", 1, 17, AxesToInput},
    {"ReduceMax", 1, 17, AxesToInput},
    {"ReduceMin", 1, 17, AxesToInput},
    {"ReduceProd", 1, 17, AxesToInput},
    {"ReduceL1", 1, 17, AxesToInput},
    {"ReduceL2", 1, 17, AxesToInput},
    {"ReduceLogSum", 1, 17, AxesToInput},
    {"ReduceLogSumExp", 1, 17, AxesToInput},
    {"ReduceSumSquare", 1, 17, AxesToInput},
    {"RoiAlign", 1, 15, RoiAlignFrom10},
    {"GridSample", 1, 19, GridSampleModes},
    {"Scatter", 1, kForever, ScatterRenamed},
    {"Slice", 1, 9, SliceToInputs},
    {"Softmax", 1, 12, SoftmaxCoerced},
    {"Softmax", 13, kForever, SoftmaxAxis},
    {"LogSoftmax", 1, 12, SoftmaxCoerced},
    {"LogSoftmax", 13, kForever, SoftmaxAxis},
    {"Hardmax", 1, 12, SoftmaxCoerced},
    {"Hardmax", 13, kForever, SoftmaxAxis},
    {"Split", 1, 12, SplitToInput},
    {"TopK", 1, 9, TopKToInput},
};

}  // namespace

// ---- GraphBuilder

ValueId GraphBuilder::Const(const Call& c, const char* what, ConstTensor t) {
  return g_.AddConstant(c.name + "/" + what, std::move(t));
}

ValueId GraphBuilder::Ints(const Call& c, const char* what, const std::vector<int64_t>& values) {
  return Const(c, what, HostTensor::From<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId GraphBuilder::Floats(const Call& c, const char* what, const std::vector<double>& values) {
  return Const(c, what,
               HostTensor::From<float>({static_cast<int64_t>(values.size())},
                                       std::vector<float>(values.begin(), values.end())));
}

ValueId GraphBuilder::Scalar(const Call& c, const char* what, double value, DType like) {
  auto t = std::make_shared<HostTensor>(like, Dims{});
  WriteElement(t->data(), like, value);
  return Const(c, what, std::move(t));
}

// The dtype of output i of a call whose inference has to wait for shapes; the declaration tells it.
DType GraphBuilder::DeclaredDType(const op::OpDef& def, const Call& c, size_t i) const {
  if (def.name == "Cast")
    return DTypeFromOnnx(static_cast<int>(c.attrs.Int("to", kOnnxBool))).value_or(DType::kF32);
  if (def.name == "ConstantOfShape") {
    const ConstTensor t = c.attrs.Tensor("value");
    return t ? t->dtype() : DType::kF32;
  }
  for (const char* attr : {"dtype", "output_datatype"}) {
    if (c.attrs.Has(attr) && i == 0)
      return DTypeFromOnnx(static_cast<int>(c.attrs.Int(attr, kOnnxBool))).value_or(DType::kF32);
  }
  const auto& outputs = def.declaration->outputs;
  const op::OperandDecl& decl = outputs[std::min(i, outputs.size() - 1)];
  for (int t = 0; t < kNumDTypes; ++t)
    if (decl.dtypes == op::DTypeMask{1} << t) return static_cast<DType>(t);  // the only one allowed
  const size_t like = decl.same_as < 0 ? 0 : static_cast<size_t>(decl.same_as);
  return HasInput(c, like) ? Desc(c.inputs[like]).dtype : InputDType(*this, c);
}

Result<ValueId> GraphBuilder::Find(const std::string& value) const {
  const auto it = by_name_.find(value);
  if (it == by_name_.end())
    return InvalidArgument("value \"%s\" is used before anything produces it.", value.c_str());
  return it->second;
}

Status GraphBuilder::Define(const std::string& value, ValueId v) {
  if (!by_name_.emplace(value, v).second)
    return InvalidArgument("two nodes or initializers produce the same value \"%s\".", value.c_str());
  return OkStatus();
}

Status GraphBuilder::Emit(Call c, int64_t opset) {
  const op::OpDef* def = op::FindOperator(c.op_type);
  if (!def) {
    return Errorf(Code::kNotImplemented, "operator %s (domain ai.onnx, opset %lld) is not supported.",
                  c.op_type.c_str(), static_cast<long long>(opset));
  }
  c.attrs.Erase("consumed_inputs");  // of opset 1: a hint for in-place execution
  while (!c.inputs.empty() && c.inputs.back() == kNoValue) c.inputs.pop_back();

  std::vector<const op::TensorDesc*> inputs;
  bool ranks_known = true, dims_known = true;
  for (ValueId v : c.inputs) {
    inputs.push_back(v == kNoValue ? nullptr : &g_.values[v].desc);
    if (v == kNoValue) continue;
    ranks_known = ranks_known && g_.values[v].desc.known_rank;
    dims_known = dims_known && IsKnown(g_.values[v].desc.dims);
  }
  op::InferContext infer;
  infer.inputs = inputs;
  infer.attrs = &c.attrs;
  infer.num_outputs = static_cast<int>(c.outputs.size());
  // Counts, dtypes and attributes must be right whatever the shapes: passes rely on it.
  OPSNN_RETURN_IF_ERROR(op::Check(*def, infer));
  if (c.outputs.size() == 1 && c.outputs[0].empty()) return OkStatus();  // nobody can read it
  const Status s = ranks_known ? op::Infer(*def, infer) : OkStatus();
  // Shapes that are only known when the model is fed may defeat inference now; it is repeated with them.
  if (!s.ok() && dims_known) return s;
  const bool inferred = ranks_known && s.ok();

  graph::Node n;
  n.name = c.name;
  n.op = def;
  n.attrs = c.attrs;
  n.inputs = c.inputs;
  n.num_op_inputs = static_cast<int>(c.inputs.size());
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (c.outputs[i].empty()) {
      n.outputs.push_back(kNoValue);
      continue;
    }
    graph::Value v;
    v.name = c.outputs[i];
    if (inferred && i < infer.outputs.size()) {
      v.desc = infer.outputs[i];
      v.desc.constant = nullptr;
    } else {
      v.desc.known_rank = false;
      v.desc.dtype = DeclaredDType(*def, c, i);
    }
    n.outputs.push_back(g_.AddValue(std::move(v)));
    OPSNN_RETURN_IF_ERROR(Define(c.outputs[i], n.outputs.back()));
  }
  g_.AddNode(std::move(n));
  return OkStatus();
}

Result<ValueId> GraphBuilder::EmitHelper(Call c, int64_t opset) {
  const std::string out = c.name + "/" + c.op_type;
  c.outputs = {out};
  OPSNN_RETURN_IF_ERROR(Emit(std::move(c), opset));
  return Find(out);
}

Status Normalize(GraphBuilder& b, Call& c, int64_t opset) {
  for (const Rule& r : kRules)
    if (c.op_type == r.op && r.from <= opset && opset <= r.to) return r.apply(b, c, opset);
  return OkStatus();
}

}  // namespace opsnn::onnx
