// Checks that go through an ONNX model: written as bytes, imported, run in every form that the graph engine
// has, and verified against the double-precision reference.
#include <gtest/gtest.h>

#include <set>

#include "cases/case_data.h"
#include "observe/verify.h"
#include "onnx/import.h"
#include "onnx/model_writer.h"
#include "op/declaration.h"

namespace opsnn::cases {
namespace {

using onnx::AttrWriter;

std::string TensorBytes(const std::string& name, const Data& d) {
  const auto host = ToHost(d);
  const auto* p = static_cast<const uint8_t*>(host->data());
  return onnx::RawTensor<uint8_t>(name, Info(d.dtype).onnx, {d.dims.begin(), d.dims.end()},
                                  {p, p + host->bytes()});
}

AttrWriter MakeAttr(const std::string& name, const Json& v) {
  if (v.is_number_integer()) return AttrWriter::Int(name, v);
  if (v.is_number()) return AttrWriter::Float(name, v);
  if (v.is_string()) return AttrWriter::String(name, v);
  if (v.is_object()) return AttrWriter::Tensor(name, TensorBytes(name, ReadData(v)));
  if (!v.empty() && v[0].is_number_float()) return AttrWriter::Floats(name, v.get<std::vector<float>>());
  return AttrWriter::Ints(name, v.get<std::vector<int64_t>>());
}

// {"onnx": "Conv", "inputs": [...], "attrs": {...}, "expect": [...]} as a model with one run. With `constant`
// all inputs but the first become initializers.
Json OneNodeModel(const Json& check, bool constant) {
  Json model = {{"opset", check.value("opset", 17)},
                {"inputs", Json::object()},
                {"initializers", Json::object()},
                {"nodes", Json::array()},
                {"outputs", Json::array()}};
  Json result, run = {{"feeds", Json::object()}, {"expect", Json::object()}};
  Json node = {{"op", check["onnx"]},
               {"in", Json::array()},
               {"out", Json::array()},
               {"attrs", check.value("attrs", Json::object())}};
  int i = 0;
  for (const Json& in : check["inputs"]) {
    const std::string name = "x" + std::to_string(i);
    node["in"].push_back(in.is_null() ? "" : name);
    if (!in.is_null() && constant && i > 0) {
      model["initializers"][name] = in;
    } else if (!in.is_null()) {
      const Data d = ReadData(in);
      model["inputs"][name] = {{"dtype", Name(d.dtype)},
                               {"dims", std::vector<int64_t>(d.dims.begin(), d.dims.end())}};
      run["feeds"][name] = in;
    }
    ++i;
  }
  const size_t outputs = check.contains("expect") ? check["expect"].size() : 1;
  for (size_t o = 0; o < outputs; ++o) {
    const std::string name = "y" + std::to_string(o);
    node["out"].push_back(name);
    model["outputs"].push_back(name);
    if (check.contains("expect")) run["expect"][name] = check["expect"][o];
  }
  if (check.contains("error")) run["error"] = check["error"];
  if (check.contains("verify")) result["verify"] = check["verify"];
  model["nodes"].push_back(node);
  result["model"] = model;
  result["runs"] = {run};
  return result;
}

std::string ModelBytes(const Json& m) {
  onnx::ModelWriter w(m.value("opset", 17));
  for (const auto& [name, in] : m["inputs"].items()) {
    std::vector<std::string> dims;
    for (const Json& d : in["dims"]) dims.push_back(d.is_string() ? d.get<std::string>() : d.dump());
    w.Input(name, dims, Info(TypeOf(in, DType::kF32)).onnx);
  }
  if (m.contains("initializers")) {
    for (const auto& [name, t] : m["initializers"].items()) w.Initializer(TensorBytes(name, ReadData(t)));
  }
  for (const Json& n : m["nodes"]) {
    std::vector<AttrWriter> attrs;
    if (n.contains("attrs")) {
      for (const auto& [name, v] : n["attrs"].items()) attrs.push_back(MakeAttr(name, v));
    }
    w.Node(n["op"], n["in"].get<std::vector<std::string>>(), n["out"].get<std::vector<std::string>>(), attrs);
  }
  constexpr int32_t kAnyType = 0;
  for (const Json& o : m["outputs"]) w.Output(o, {}, kAnyType);
  std::string bytes = w.Bytes();
  // A later value of a scalar field replaces the earlier one: field 1, as a varint.
  if (m.contains("ir_version")) bytes += std::string("\x08") + static_cast<char>(m["ir_version"].get<int>());
  return bytes;
}

// The error names every part that the case asks for.
void ExpectError(const Status& s, const Json& parts) {
  for (const Json& part : parts)
    EXPECT_NE(s.message().find(part.get<std::string>()), std::string::npos)
        << "no " << part << " in: " << s.message();
}

graph::Feeds ReadFeeds(const Json& j) {
  graph::Feeds feeds;
  for (const auto& [name, t] : j.items()) feeds[name] = ToHost(ReadData(t));
  return feeds;
}

void RunOnce(graph::Session& session, const Json& run) {
  const auto result = session.Run(ReadFeeds(run["feeds"]));
  if (run.contains("error")) {
    EXPECT_FALSE(result.ok()) << "ran, although it is an error";
    if (!result.ok()) ExpectError(result.status(), run["error"]);
    return;
  }
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto outputs = session.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!run["expect"].contains(outputs[i]->name)) continue;
    const HostTensor& t = *result->outputs[i];
    EXPECT_EQ("", Mismatch(run["expect"][outputs[i]->name], t.dtype(), t.dims(), ToDoubles(t)))
        << "output " << outputs[i]->name;
  }
}

// One model under one set of options: every run, twice around so that caches are used.
void RunModel(const Json& check, const std::string& bytes, const graph::SessionOptions& options) {
  auto session = onnx::LoadSessionFromBytes(bytes, options);
  const Json& runs = check["runs"];
  if (!session.ok()) {
    ASSERT_TRUE(runs[0].contains("error")) << session.status().message();
    ExpectError(session.status(), runs[0]["error"]);
    return;
  }
  if (check.contains("output_dims")) {
    for (const graph::Value* v : (*session)->outputs())
      EXPECT_EQ(v->desc.dims, Dims(check["output_dims"].at(v->name).get<std::vector<int64_t>>())) << v->name;
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE("run " + std::to_string(i));
      RunOnce(**session, runs[i]);
    }
  }
}

void VerifyModel(const Json& check, const std::string& bytes) {
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    graph::SessionOptions options;
    options.policy = policy;
    options.fusion = FusionMode::kForce;
    auto fused = onnx::LoadSessionFromBytes(bytes, options);
    options.fusion = FusionMode::kOff;
    auto unfused = onnx::LoadSessionFromBytes(bytes, options);
    if (!fused.ok() || !unfused.ok()) return;
    for (const Json& run : check["runs"]) {
      if (run.contains("error")) continue;
      const auto report = observe::Verify(**fused, **unfused, ReadFeeds(run["feeds"]), nullptr);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_TRUE(report->ok) << "verify: " << report->first_bad << report->first_difference;
    }
  }
}

void RunEverywhere(const Json& check) {
  const std::string bytes = ModelBytes(check["model"]);
  for (const FusionMode fusion : {FusionMode::kOff, FusionMode::kAuto, FusionMode::kForce}) {
    for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
      SCOPED_TRACE(StrFormat("fusion %d policy %d", static_cast<int>(fusion), static_cast<int>(policy)));
      graph::SessionOptions options;
      options.fusion = fusion;
      options.policy = policy;
      RunModel(check, bytes, options);
    }
  }
  if (!check.contains("onnx_form")) {
    for (const std::string& pass : graph::PassNames()) {
      SCOPED_TRACE("without pass " + pass);
      graph::SessionOptions options;
      options.fusion = FusionMode::kForce;
      options.policy = NumericsPolicy::kExcess;
      options.passes_off = pass;
      RunModel(check, bytes, options);
    }
  }
  if (check.value("verify", true)) VerifyModel(check, bytes);
}

}  // namespace

std::string MissingForOnnx(const Json& check) {
  std::vector<std::string> ops;
  if (check.contains("onnx")) ops.push_back(check["onnx"]);
  if (check.contains("model")) {
    for (const Json& n : check["model"]["nodes"]) ops.push_back(n["op"]);
  }
  static const std::set<std::string> kRewritten = {"Constant", "Upsample"};  // by the importer
  for (const std::string& op : ops) {
    if (!op::FindOperator(op) && !kRewritten.count(op)) return op;
  }
  // A dtype that the declaration of the one operator does not list yet.
  if (check.contains("onnx") && !check.contains("error")) {
    const op::Declaration& d = *op::FindOperator(ops[0])->declaration;
    for (size_t i = 0; i < check["inputs"].size() && !d.inputs.empty(); ++i) {
      if (check["inputs"][i].is_null()) continue;
      const op::OperandDecl& in = d.inputs[std::min(i, d.inputs.size() - 1)];
      const DType t = TypeOf(check["inputs"][i], DType::kF32);
      const op::OperandDecl& decl = in.same_as >= 0 ? d.inputs[in.same_as] : in;
      if (!op::Contains(decl.dtypes, t)) return ops[0] + " of " + Name(t);
    }
  }
  return "";
}

void RunOnnx(const Json& check) {
  if (check.contains("model")) return RunEverywhere(check);
  for (const bool constant : {false, true}) {
    SCOPED_TRACE(constant ? "constant operands" : "fed operands");
    Json model = OneNodeModel(check, constant);
    model["onnx_form"] = true;
    RunEverywhere(model);
  }
}

}  // namespace opsnn::cases
