#include <unistd.h>

#include <algorithm>

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
    {"n", "Columns of the product; of ffn the hidden width"},
    {"k", "Inner dimension; of ffn the width"},
    {"batch", "Number of products"},
    {"x", "Input dims, 1,64,56,56"},
    {"w", "Weight dims, 64,64,3,3"},
    {"stride", "Strides"},
    {"pad", "Pads on both sides, or all of them"},
    {"dilation", "Dilations"},
    {"groups", "Channel groups"},
    {"kernel", "Window of a pool, 3,3; one number is for every dim"},
    {"axis", "Axis of a row operator"},
    {"perm", "Permutation of a transpose"},
};

std::string DimsText(const std::vector<int64_t>& dims) {
  std::string s;
  for (int64_t d : dims) s += (s.empty() ? "" : ",") + std::to_string(d);
  return s;
}

const opsnn::ValueInfo* FindInput(const opsnn::Model& model, const std::string& name) {
  for (const opsnn::ValueInfo& i : model.inputs())
    if (i.name == name) return &i;
  return nullptr;
}

// "NAME=VALUE" with the name of an input, which may hold '=' as well as the value.
Result<std::pair<std::string, std::string>> SplitPair(const opsnn::Model& model, const std::string& text,
                                                      const std::string& option, const std::string& form) {
  const size_t first = text.find('=');
  if (first == std::string::npos || first == 0 || text.back() == '=')
    return Status(opsnn::Code::kInvalid, option + ": got \"" + text + "\"; allowed: " + form);
  for (size_t eq = first; eq != std::string::npos; eq = text.find('=', eq + 1))
    if (FindInput(model, text.substr(0, eq))) return std::make_pair(text.substr(0, eq), text.substr(eq + 1));
  std::string names;
  for (const auto& i : model.inputs()) names += (names.empty() ? "" : ", ") + i.name;
  return Status(opsnn::Code::kInvalid, option + ": the model has no input \"" + text.substr(0, first) +
                                           "\"; its inputs: " + (names.empty() ? "none" : names));
}

// "[N,3,?]" as the model declares it.
std::string DeclaredDims(const opsnn::ValueInfo& v) {
  std::string s;
  for (size_t i = 0; i < v.dims.size(); ++i)
    s += (i ? "," : "") + (v.dims[i] >= 0           ? std::to_string(v.dims[i])
                           : v.dim_names[i].empty() ? std::string("?")
                                                    : v.dim_names[i]);
  return "[" + s + "]";
}

// "x:0=256,512", or "x:0" for the preset sizes.
Result<opsnn::SizeBuckets> ParseBuckets(const std::string& text) {
  const Status bad(opsnn::Code::kInvalid,
                   "--buckets: got \"" + text + "\"; allowed: INPUT:DIM or INPUT:DIM=SIZE,SIZE, x:0=256,512");
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  const size_t eq = text.find('=', colon);
  const std::string dim = text.substr(colon + 1, eq == std::string::npos ? eq : eq - colon - 1);
  if (dim.size() != 1 || dim[0] < '0' || dim[0] > '9') return bad;
  opsnn::SizeBuckets b;
  b.input = text.substr(0, colon);
  b.dim = dim[0] - '0';
  if (eq == std::string::npos) return b;
  auto sizes = ParseInts(text.substr(eq + 1), "--buckets");
  if (!sizes.ok()) return sizes.status();
  b.sizes = *sizes;
  return b;
}

}  // namespace

void Target::AddTo(CLI::App& app, bool operators) {
  takes_operators = operators;
  app.add_option(operators ? "MODEL|OP" : "MODEL", name,
                 operators ? "An ONNX file, or an operator such as matmul" : "An ONNX file")
      ->required()
      ->check(NotEmpty(operators ? "an ONNX file or an operator" : "an ONNX file"));
  app.add_option("--input", inputs, "NAME=FILE.npy: an input tensor (random where none is given)");
  app.add_option("--shape", shapes, "NAME=1,3,640,640: the dims of an input");
  app.add_option("--threads", threads, "Computing threads in all, 1 to 4096")->check(IntIn(1, 4096));
  app.add_option("--fusion", fusion, "auto or on: the judge decides; off; force: wherever legal")
      ->check(OneOf({"auto", "on", "off", "force"}));
  app.add_option("--policy", policy, "excess: fusing may drop roundings; exact: it may not")
      ->check(OneOf({"exact", "excess"}));
  app.add_option("--passes-off", passes_off, "Graph passes that do not run, comma-separated")
      ->check(NotEmpty("names of graph passes separated by commas"));
  app.add_option(
         "--peak-limit", peak_limit,
         "Fuse less where activations would need more than this times what they need unfused; 0: never")
      ->check(NumberIn(0, 1e6));
  app.add_option("--buckets", buckets,
                 "INPUT:DIM=SIZE,SIZE: pad this dim to the next of these sizes (256,512,1024,2048 without "
                 "them) and crop results; for models that do not mix elements along it")
      ->check(NotEmpty("INPUT:DIM=SIZE,SIZE"));
  app.add_option("--seed", seed, "Seed of random inputs, 0 or more")->check(IntIn(0, UINT64_MAX));
  if (!operators) return;
  auto* group = app.add_option_group("operator", "Arguments of an operator");
  for (const Argument& a : kOperatorArguments)
    group->add_option(std::string("--") + a.name, operator_args[a.name], a.help)
        ->check(NotEmpty("integers separated by commas"));
  group->add_option("--dtype", dtype, "Element type: f32, f16, bf16, ...");
  group->add_option("--epilogue", epilogue, "What follows, in order: bias,relu,gelu,silu,add,...")
      ->check(NotEmpty("stages separated by commas, bias,relu"));
}

bool Target::IsModel() const {
  return name.find('/') != std::string::npos || name.find('.') != std::string::npos ||
         access(name.c_str(), F_OK) == 0;
}

Result<opsnn::Model> Target::Load(const char* fusion_override, bool plan_only) const {
  if (threads > 0) {
    if (Status s = opsnn::SetOption("threads", std::to_string(threads)); !s.ok())
      return s.WithContext("--threads");
  }
  opsnn::ModelOptions options;
  options.prepare_ahead = !plan_only;
  const std::string f = fusion_override ? fusion_override : fusion;
  if (!f.empty()) {
    options.fusion = f == "off"     ? opsnn::Fusion::kOff
                     : f == "force" ? opsnn::Fusion::kForce
                                    : opsnn::Fusion::kAuto;
  }
  if (!policy.empty()) options.policy = policy == "exact" ? opsnn::Policy::kExact : opsnn::Policy::kExcess;
  options.training = training, options.precision_first = precision_first, options.concurrent = concurrent;
  if (peak_limit >= 0) options.peak_limit = peak_limit;
  if (!buckets.empty()) {
    auto b = ParseBuckets(buckets);
    if (!b.ok()) return b.status();
    options.buckets = *b;
  }
  if (!passes_off.empty()) {
    auto off = ParseList(passes_off, "--passes-off", "names of graph passes");
    if (!off.ok()) return off.status();
    options.passes_off = *off;
  }
  if (IsModel()) {
    auto args = operator_args;
    args["epilogue"] = epilogue;
    for (const auto& [key, value] : args) {
      if (!value.empty())
        return Status(opsnn::Code::kInvalid, "--" + key + ": got \"" + value + "\" for the model " + name +
                                                 "; allowed for operators only");
    }
    return opsnn::Model::Load(name, options);
  }
  if (!takes_operators)
    return Status(opsnn::Code::kInvalid, "MODEL: got \"" + name +
                                             "\", and there is no such file; allowed: an ONNX file (bench, "
                                             "explain and verify take operators as well)");
  opsnn::OpSpec spec;
  spec.op = name;
  const auto type = opsnn::DTypeFromName(dtype);
  if (!type)
    return Status(opsnn::Code::kInvalid, "--dtype: got \"" + dtype +
                                             "\"; allowed: f32, f64, f16, bf16, s8, u8, s16, s32, s64, bool");
  spec.dtype = *type;
  spec.plan_only = plan_only;
  if (!epilogue.empty()) {
    auto stages = ParseList(epilogue, "--epilogue", "stages");
    if (!stages.ok()) return stages.status();
    spec.epilogue = *stages;
  }
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
    auto pair = SplitPair(model, s, "--shape", "NAME=1,3,640,640");
    if (!pair.ok()) return pair.status();
    auto dims = ParseInts(pair->second, "--shape " + pair->first);
    if (!dims.ok()) return dims.status();
    for (int64_t d : *dims) {
      if (d < 0)
        return Status(opsnn::Code::kInvalid, "--shape " + pair->first + ": got the dim " + std::to_string(d) +
                                                 "; allowed: 0 or more");
    }
    if (!result.emplace(pair->first, *dims).second)
      return Status(opsnn::Code::kInvalid, "--shape " + pair->first + ": given twice; allowed: once");
  }
  return result;
}

Result<opsnn::Feeds> Target::ReadInputs(const opsnn::Model& model, const opsnn::Shapes& shapes) const {
  opsnn::Feeds files;
  for (const std::string& s : inputs) {
    auto pair = SplitPair(model, s, "--input", "NAME=FILE.npy");
    if (!pair.ok()) return pair.status();
    auto tensor = opsnn::LoadNpy(pair->second);
    if (!tensor.ok()) return tensor.status();
    const auto shape = shapes.find(pair->first);
    if (shape != shapes.end() && shape->second != tensor->dims())
      return Status(opsnn::Code::kInvalid, "--shape " + pair->first + ": got " + DimsText(shape->second) +
                                               "; allowed: " + DimsText(tensor->dims()) + ", as in " +
                                               pair->second);
    if (!files.emplace(pair->first, *tensor).second)
      return Status(opsnn::Code::kInvalid, "--input " + pair->first + ": given twice; allowed: once");
  }
  return files;
}

Status Target::PlanInputs(const opsnn::Model& model, opsnn::Shapes* shapes, opsnn::Feeds* given) const {
  auto dims = MakeShapes(model);
  if (!dims.ok()) return dims.status();
  auto files = ReadInputs(model, *dims);
  if (!files.ok()) return files.status();
  for (const auto& [key, tensor] : *files) (*dims)[key] = tensor.dims();
  std::vector<std::string> assumed;
  *shapes = model.FillShapes(*dims, &assumed);
  for (const std::string& input : assumed)
    Note("input \"" + input + "\" " + DeclaredDims(*FindInput(model, input)) +
         ": free dims that nobody gave are 1; --shape " + input + "=" + DimsText((*shapes)[input]) +
         " sets them");
  *given = std::move(*files);
  return opsnn::OkStatus();
}

Result<opsnn::Feeds> Target::MakeFeeds(const opsnn::Model& model) const {
  opsnn::Shapes dims;
  opsnn::Feeds files;
  if (Status s = PlanInputs(model, &dims, &files); !s.ok()) return s;
  auto feeds = model.RandomFeeds(dims, seed);
  if (!feeds.ok()) return feeds.status();
  for (auto& [key, tensor] : files) (*feeds)[key] = tensor;
  return feeds;
}

std::string Target::Describe() const {
  if (IsModel()) return name;
  std::string text = name;
  for (const auto& [key, value] : operator_args) {
    if (!value.empty()) text += " " + key + "=" + value;
  }
  std::string stages = epilogue.empty() ? "" : " +" + epilogue;
  for (size_t at = 0; (at = stages.find(',', at)) != std::string::npos;) stages.replace(at, 1, " +");
  return text + stages;
}

}  // namespace cli
