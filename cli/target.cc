#include <algorithm>
#include <filesystem>

#include "cli/cli.h"
#include "opsnn/system.h"

namespace cli {
namespace {

struct Argument {
  const char* name;
  const char* help;
};
constexpr Argument kOperatorArguments[] = {
    {"m", "Rows of the product"},
    {"n", "Columns of the product"},
    {"k", "Inner dimension"},
    {"batch", "Number of products"},
    {"x", "Input dims, 1,64,56,56"},
    {"w", "Weight dims, 64,64,3,3"},
    {"stride", "Strides"},
    {"pad", "Pads on both sides, or all of them"},
    {"dilation", "Dilations"},
    {"groups", "Channel groups"},
    {"kernel", "Window of a pool, 3,3"},
    {"axis", "Axis of a row operator"},
    {"perm", "Permutation of a transpose"},
};

// "NAME=VALUE"; the name may hold '=' only if the value does not.
Result<std::pair<std::string, std::string>> SplitPair(const std::string& text, const std::string& option) {
  const size_t eq = text.rfind('=');
  if (eq == std::string::npos || eq == 0 || eq + 1 == text.size()) {
    return Status(opsnn::Code::kInvalid, option + ": got \"" + text + "\", expected NAME=VALUE");
  }
  return std::make_pair(text.substr(0, eq), text.substr(eq + 1));
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

}  // namespace

void Target::AddTo(CLI::App& app, bool operators) {
  app.add_option(operators ? "MODEL|OP" : "MODEL", name,
                 operators ? "An ONNX file, or an operator such as matmul" : "An ONNX file")
      ->required();
  app.add_option("--input", inputs, "NAME=FILE.npy: an input tensor (random where none is given)");
  app.add_option("--shape", shapes, "NAME=1,3,640,640: the dims of an input");
  app.add_option("--threads", threads, "Computing threads in all, at least 1")
      ->each([this](const std::string&) { has_threads = true; });
  app.add_option("--fusion", fusion, "auto or on: the judge decides; off; force: wherever legal")
      ->check(CLI::IsMember({"auto", "on", "off", "force"}));
  app.add_option("--policy", policy, "excess: fusing may drop roundings; exact: it may not")
      ->check(CLI::IsMember({"exact", "excess"}));
  app.add_option("--passes-off", passes_off, "Graph passes that do not run, comma-separated");
  app.add_option("--seed", seed, "Seed of random inputs");
  if (!operators) return;
  auto* group = app.add_option_group("operator", "Arguments of an operator");
  for (const Argument& a : kOperatorArguments)
    group->add_option(std::string("--") + a.name, operator_args[a.name], a.help);
  group->add_option("--dtype", dtype, "Element type: f32, f16, bf16, ...");
  group->add_option("--epilogue", epilogue, "What follows, in order: bias,relu,gelu,silu,add,...");
}

bool Target::IsModel() const {
  return name.find('/') != std::string::npos || name.find('.') != std::string::npos ||
         std::filesystem::exists(name);
}

Result<opsnn::Model> Target::Load(const char* fusion_override) const {
  if (has_threads) {
    // 0 would mean "as many as there are" to the knob; as an option it is a mistake.
    if (threads <= 0) {
      return Status(opsnn::Code::kInvalid,
                    "--threads: got " + std::to_string(threads) + ", allowed: 1 to 4096");
    }
    if (Status s = opsnn::SetOption("threads", std::to_string(threads)); !s.ok())
      return s.WithContext("--threads");
  }
  opsnn::ModelOptions options;
  const std::string f = fusion_override ? fusion_override : fusion;
  if (!f.empty()) {
    options.fusion = f == "off"     ? opsnn::Fusion::kOff
                     : f == "force" ? opsnn::Fusion::kForce
                                    : opsnn::Fusion::kAuto;
  }
  if (!policy.empty()) options.policy = policy == "exact" ? opsnn::Policy::kExact : opsnn::Policy::kExcess;
  options.passes_off = SplitList(passes_off);
  if (name.empty())
    return Status(opsnn::Code::kInvalid, "the model's name is empty; give an ONNX file or an operator");
  if (IsModel()) {
    for (const auto& [key, value] : operator_args) {
      if (!value.empty())
        return Status(opsnn::Code::kInvalid,
                      "--" + key + ": is an argument of operators, and " + name + " is a model");
    }
    return opsnn::Model::Load(name, options);
  }
  opsnn::OpSpec spec;
  spec.op = name;
  const auto type = opsnn::DTypeFromName(dtype);
  if (!type)
    return Status(opsnn::Code::kInvalid, "--dtype: unknown element type \"" + dtype +
                                             "\"; allowed: f32, f64, f16, bf16, s8, u8, s16, s32, s64, bool");
  spec.dtype = *type;
  spec.epilogue = SplitList(epilogue);
  for (const auto& [key, value] : operator_args) {
    if (value.empty()) continue;
    auto ints = ParseInts(value, "--" + key);
    if (!ints.ok()) return ints.status();
    spec.ints[key] = *ints;
  }
  return opsnn::MakeOperatorModel(spec, options);
}

Result<opsnn::Shapes> Target::MakeShapes(const opsnn::Model& model) const {
  opsnn::Shapes result;
  for (const std::string& s : shapes) {
    auto pair = SplitPair(s, "--shape");
    if (!pair.ok()) return pair.status();
    auto dims = ParseInts(pair->second, "--shape " + pair->first);
    if (!dims.ok()) return dims.status();
    for (int64_t d : *dims) {
      if (d < 0)
        return Status(opsnn::Code::kInvalid,
                      "--shape " + pair->first + ": dim " + std::to_string(d) + ", allowed: 0 or more");
    }
    const auto& known = model.inputs();
    if (std::none_of(known.begin(), known.end(), [&](const auto& i) { return i.name == pair->first; })) {
      std::string names;
      for (const auto& i : known) names += (names.empty() ? "" : ", ") + i.name;
      return Status(opsnn::Code::kInvalid,
                    "--shape: the model has no input \"" + pair->first + "\"; its inputs: " + names);
    }
    if (!result.emplace(pair->first, *dims).second) {
      return Status(opsnn::Code::kInvalid, "--shape " + pair->first + ": given twice");
    }
  }
  return result;
}

Result<opsnn::Feeds> Target::MakeFeeds(const opsnn::Model& model) const {
  auto dims = MakeShapes(model);
  if (!dims.ok()) return dims.status();
  opsnn::Feeds files;
  for (const std::string& s : inputs) {
    auto pair = SplitPair(s, "--input");
    if (!pair.ok()) return pair.status();
    auto tensor = opsnn::LoadNpy(pair->second);
    if (!tensor.ok()) return tensor.status();
    if (!dims->emplace(pair->first, tensor->dims()).second) {
      return Status(opsnn::Code::kInvalid, "--input " + pair->first + ": its dims or values are given twice");
    }
    files[pair->first] = *tensor;
  }
  auto feeds = model.RandomFeeds(*dims, seed);
  if (!feeds.ok()) return feeds.status();
  for (auto& [name_, tensor] : files) (*feeds)[name_] = tensor;
  return feeds;
}

Result<opsnn::Shapes> Target::PlanShapes(const opsnn::Model& model) const {
  if (!inputs.empty()) {
    auto feeds = MakeFeeds(model);
    if (!feeds.ok()) return feeds.status();
    opsnn::Shapes result;
    for (const auto& [key, tensor] : *feeds) result[key] = tensor.dims();
    return result;
  }
  auto result = MakeShapes(model);
  if (!result.ok()) return result;
  for (const opsnn::ValueInfo& v : model.inputs()) {
    std::vector<int64_t> dims = v.dims;
    for (int64_t& d : dims) d = d < 0 ? 1 : d;
    result->emplace(v.name, dims);
  }
  return result;
}

std::string Target::Describe() const {
  if (IsModel()) return name;
  std::string text = name;
  for (const auto& [key, value] : operator_args) {
    if (!value.empty()) text += " " + key + "=" + value;
  }
  for (const std::string& e : SplitList(epilogue)) text += " +" + e;
  return text;
}

}  // namespace cli
