#include "opsnn/model.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>

#include "api/model_impl.h"
#include "base/buffer_stats.h"
#include "base/caught.h"
#include "graph/ir/text.h"
#include "graph/stopwatch.h"
#include "observe/conv_choices.h"
#include "observe/fragmentation.h"
#include "observe/traffic.h"
#include "observe/verify.h"
#include "onnx/import.h"
#include "onnx/mapped_file.h"
#include "tensor/element.h"

namespace opsnn {
namespace {

graph::SessionOptions ToSession(const ModelOptions& o) {
  graph::SessionOptions s;  // starts from the knobs
  if (o.fusion) {
    s.fusion = *o.fusion == Fusion::kOff    ? FusionMode::kOff
               : *o.fusion == Fusion::kAuto ? FusionMode::kAuto
                                            : FusionMode::kForce;
  }
  if (o.policy) s.policy = *o.policy == Policy::kExact ? NumericsPolicy::kExact : NumericsPolicy::kExcess;
  s.peak_limit = o.peak_limit;
  s.training = o.training, s.precision_first = o.precision_first, s.concurrent = o.concurrent;
  for (const std::string& p : o.passes_off) s.passes_off += (s.passes_off.empty() ? "" : ",") + p;
  return s;
}

std::vector<int64_t> ToVector(const Dims& d) { return {d.begin(), d.end()}; }

ValueInfo ToInfo(const graph::Value& v) {
  ValueInfo info;
  info.name = v.name;
  info.dtype = v.desc.dtype;
  info.dims = ToVector(v.desc.dims);
  info.dim_names = v.dim_names;
  info.dim_names.resize(info.dims.size());
  return info;
}

Result<graph::Feeds> ToFeeds(const Feeds& feeds) {
  graph::Feeds out;
  for (const auto& [name, t] : feeds) {
    if (!t.valid()) return InvalidArgument("input \"%s\": the tensor holds nothing", name.c_str());
    auto host = std::make_shared<HostTensor>(t.dtype(), Dims(t.dims()));
    if (!host->ok())
      return Errorf(Code::kRuntime, "input \"%s\": cannot allocate %zu bytes", name.c_str(), t.bytes());
    std::memcpy(host->data(), t.raw(), t.bytes());
    out[name] = std::move(host);
  }
  return out;
}

// The same without a copy, for the time of a run.
Result<graph::FeedViews> ToViews(const Feeds& feeds) {
  graph::FeedViews out;
  for (const auto& [name, t] : feeds) {
    if (!t.valid()) return InvalidArgument("input \"%s\": the tensor holds nothing", name.c_str());
    out[name] = {t.dtype(), Dims(t.dims()), t.raw()};
  }
  return out;
}

Result<graph::Shapes> ToShapes(const Shapes& shapes) {
  graph::Shapes out;
  for (const auto& [name, dims] : shapes) {
    if (dims.size() > kMaxRank) {
      return InvalidArgument("input \"%s\": %zu dims, at most %d are allowed", name.c_str(), dims.size(),
                             kMaxRank);
    }
    out[name] = Dims(dims);
  }
  return out;
}

// Results of a run belong to nobody else.
Tensor ToTensor(const ConstTensor& v) {
  return Tensor::Share(v->dtype(), ToVector(v->dims()), std::shared_ptr<void>(v, v->data()));
}

std::vector<Tensor> ToTensors(const std::vector<ConstTensor>& values) {
  std::vector<Tensor> out;
  for (const ConstTensor& v : values) out.push_back(ToTensor(v));
  return out;
}

// Outputs that the caller lends must not lie in a feed or in each other.
Status CheckApart(const Feeds& feeds, const std::vector<Tensor>& outputs) {
  const auto overlap = [](const Tensor& x, const Tensor& y) {
    const auto a = reinterpret_cast<uintptr_t>(x.raw()), b = reinterpret_cast<uintptr_t>(y.raw());
    return x.valid() && y.valid() && a < b + y.bytes() && b < a + x.bytes();
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& [name, feed] : feeds)
      if (overlap(outputs[i], feed))
        return InvalidArgument("Model::Run: output %zu overlaps input \"%s\"", i, name.c_str());
    for (size_t j = 0; j < i; ++j)
      if (overlap(outputs[i], outputs[j]))
        return InvalidArgument("Model::Run: outputs %zu and %zu overlap", j, i);
  }
  return OkStatus();
}

std::string OpText(const graph::Node& n) {
  std::string s = n.op->name;
  if (n.tail)
    s += n.op->name == "Program" ? ": " + n.tail->program.ToString() : " + " + n.tail->program.ToString();
  for (char& c : s) {
    if (c == '\n') c = ';';
  }
  return s;
}

ArenaHoles ToHoles(const graph::Prepared& p, const observe::Holes& h) {
  if (h.step < 0) return {};
  const graph::NodeId node = p.steps()[static_cast<size_t>(h.step)].node;
  return {p.graph().nodes[node].name, h.count, static_cast<int64_t>(h.bytes),
          static_cast<int64_t>(h.largest)};
}

// Adds the steps of one plan, whose times start at us[at].
void AddSteps(const graph::Prepared& p, const std::vector<double>& us, size_t at, RunStats* stats) {
  for (size_t i = 0; i < p.steps().size(); ++i) {
    const graph::Step& step = p.steps()[i];
    const graph::Node& n = p.graph().nodes[step.node];
    NodeTime t;
    t.node = n.name;
    t.op = OpText(n);
    t.variant = step.variant();
    t.shape = n.outputs.empty() || n.outputs[0] < 0 ? "" : ToString(p.graph().values[n.outputs[0]].desc.dims);
    t.us = at + i < us.size() ? us[at + i] : 0;
    t.bytes = step.bytes_moved;
    t.live_bytes = static_cast<int64_t>(step.live_bytes);
    t.operations = observe::OperationsOf(p.graph(), step.node);
    stats->nodes.push_back(std::move(t));
  }
  if (const auto peak = static_cast<int64_t>(p.peak_bytes()); at == 0 || peak > stats->peak_bytes) {
    const graph::MemoryPlan& m = p.memory();
    stats->peak_bytes = peak;
    stats->live_peak_bytes = static_cast<int64_t>(m.live_peak);
    const observe::Fragmentation f = observe::FragmentationOf(p);
    stats->holes_at_peak = ToHoles(p, f.at_peak);
    stats->holes_most_scattered = ToHoles(p, f.most_scattered);
    stats->padding_bytes = static_cast<int64_t>(f.padding);
    stats->views = static_cast<int>(m.views);
    stats->in_place = static_cast<int>(m.in_place);
    stats->memory_strategy = m.strategy;
    stats->memory_tried.clear();
    for (const auto& [name, bytes] : m.tried)
      stats->memory_tried.emplace_back(name, static_cast<int64_t>(bytes));
  }
  stats->bytes_moved += p.bytes_moved();
  stats->nodes_run += p.nodes_run();
}

// Of one plan; those made during the run add to it.
void AddTimes(const graph::Prepared& p, PlanTimes* t) {
  for (const graph::PassStat& s : p.pass_stats()) {
    if (s.name == "constant_folding") {
      t->shapes_us += s.us;
    } else if (s.name == "judge") {
      t->judge_us += s.us;
      t->edges += s.matches, t->fused += s.effects;
    } else {
      t->passes_us += s.us;
      t->pass_us.emplace_back(s.name, s.us);
    }
  }
  t->kernels_us += p.kernels_us();
  t->memory_us += p.memory_us();
}

RunStats ToStats(const graph::Session& session, const graph::Prepared& p,
                 const std::vector<std::shared_ptr<const graph::Prepared>>& later,
                 const std::vector<double>& us) {
  RunStats stats;
  AddSteps(p, us, 0, &stats);
  for (const auto& next : later) AddSteps(*next, us, stats.nodes.size(), &stats);
  AddTimes(p, &stats.times);
  for (const auto& next : later) AddTimes(*next, &stats.times);
  stats.io_bytes = static_cast<int64_t>(p.io_bytes());
  stats.constant_bytes = static_cast<int64_t>(session.constant_bytes());
  stats.weight_bytes = static_cast<int64_t>(session.weight_bytes());
  const graph::CacheStats forms = session.form_stats();
  // The graph as read and as loaded, whose nodes are of the size of a plan's steps, belongs to every plan.
  const size_t nodes = session.imported().nodes.size() + session.loaded().nodes.size();
  stats.plan_bytes = static_cast<int64_t>(forms.bytes + nodes * graph::kBytesPerStep);
  stats.plans_made = forms.misses, stats.plans_found = forms.hits;
  const int64_t arena = std::max(stats.peak_bytes, static_cast<int64_t>(session.arena_bytes()));
  const int64_t own = stats.constant_bytes + stats.weight_bytes + stats.io_bytes;
  stats.scratch_bytes = std::max<int64_t>(0, LiveBufferBytes() - own);
  const IdleBlocks idle = IdleBuffers();
  stats.idle_bytes = idle.bytes, stats.idle_blocks = idle.count, stats.idle_largest_bytes = idle.largest;
  stats.total_bytes = own + stats.plan_bytes + arena + stats.scratch_bytes + stats.idle_bytes;
  stats.nodes_imported = static_cast<int>(session.imported().nodes.size());
  return stats;
}

template <typename T>
void Fill(Tensor& t, std::mt19937_64& engine, int64_t values) {
  for (int64_t i = 0; i < t.size(); ++i)
    t.data<T>()[i] = static_cast<T>(engine() % static_cast<uint64_t>(values));
}

// mt19937_64 is specified bit for bit, and so is what is made of its output here: 24 bits give [-1, 1).
void FillRandom(Tensor& t, std::mt19937_64& engine) {
  switch (t.dtype()) {
    case DType::kS64:
      return Fill<int64_t>(t, engine, 8);
    case DType::kS32:
      return Fill<int32_t>(t, engine, 8);
    case DType::kS16:
      return Fill<int16_t>(t, engine, 8);
    case DType::kS8:
      return Fill<int8_t>(t, engine, 8);
    case DType::kU8:
      return Fill<uint8_t>(t, engine, 8);
    case DType::kBool:
      return Fill<uint8_t>(t, engine, 2);
    default:
      break;
  }
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = static_cast<double>(engine() >> 40) * 0x1p-23 - 1;
    WriteElement(t.data<char>() + i * static_cast<int64_t>(SizeOf(t.dtype())), t.dtype(), v);
  }
}

// `values`, and random numbers for the other inputs.
Result<Feeds> AllFeeds(const Model& model, const Shapes& shapes, const Feeds& values) {
  Shapes all = shapes;
  for (const auto& [name, t] : values) all[name] = t.dims();
  OPSNN_ASSIGN_OR_RETURN(Feeds feeds, model.RandomFeeds(all, 0));
  for (const auto& [name, t] : values) feeds[name] = t;
  return feeds;
}

Result<graph::Graph> ImportPath(const std::string& path) {
  OPSNN_ASSIGN_OR_RETURN(const onnx::MappedFile file, onnx::MappedFile::Open(path));
  if (!graph::IsText(file.bytes())) return onnx::ImportFile(path);
  Result<graph::Graph> g = graph::ReadText(file.bytes());
  if (!g.ok()) return g.status().WithContext(path);
  return g;
}

}  // namespace

namespace api {

Result<Model> ModelAccess::Make(std::function<Result<graph::Graph>()> import, const ModelOptions& options) {
  auto impl = std::make_unique<Model::Impl>();
  const graph::Stopwatch reading;
  OPSNN_ASSIGN_OR_RETURN(graph::Graph g, import());
  impl->import_us = reading.us();
  const graph::Stopwatch loading;
  OPSNN_ASSIGN_OR_RETURN(impl->session, graph::Session::Create(std::move(g), ToSession(options)));
  if (options.buckets) {
    OPSNN_ASSIGN_OR_RETURN(impl->buckets, BucketedRuns::Make(*options.buckets, *impl->session));
  }
  if (options.prepare_ahead) impl->session->PrepareAhead();
  impl->load_us = loading.us();
  malloc_trim(0);  // reading a file leaves holes in the heap of about its size
  impl->import = std::move(import);
  for (const graph::Value* v : impl->session->inputs()) impl->inputs.push_back(ToInfo(*v));
  for (const graph::Value* v : impl->session->outputs()) impl->outputs.push_back(ToInfo(*v));
  return Model(std::move(impl));
}

}  // namespace api

// Where there is one feed for each input, as usual, names are looked up here and nowhere else.
Result<graph::RunResult> Model::Impl::Run(const Feeds& feeds, const graph::RunOptions& options) const {
  constexpr size_t kFew = 4;  // most models; the others get theirs from the heap
  graph::FeedView few[kFew];
  std::vector<graph::FeedView> many(inputs.size() > kFew ? inputs.size() : 0);
  const std::span<graph::FeedView> in(many.empty() ? few : many.data(), inputs.size());
  bool all = feeds.size() == in.size();
  for (size_t i = 0; i < in.size() && all; ++i) {
    const auto it = feeds.find(inputs[i].name);
    all = it != feeds.end() && it->second.valid() && it->second.dims().size() <= kMaxRank;
    if (all) in[i] = {it->second.dtype(), Dims(it->second.dims()), it->second.raw()};
  }
  if (all) return session->RunInOrder(in, options);
  OPSNN_ASSIGN_OR_RETURN(const graph::FeedViews views, ToViews(feeds));
  return session->RunViews(views, options);
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::Load(const std::string& path, const ModelOptions& options) {
  return NoThrow([&]() -> Result<Model> {
    return api::ModelAccess::Make([path] { return ImportPath(path); }, options);
  });
}

Result<Model> Model::LoadBytes(const void* data, size_t size, const ModelOptions& options) {
  return NoThrow([&]() -> Result<Model> {
    if (!data && size > 0) return Errorf(Code::kNull, "Model::LoadBytes: data is null");
    auto bytes = std::make_shared<std::string>(static_cast<const char*>(data), size);
    return api::ModelAccess::Make(
        [bytes] { return graph::IsText(*bytes) ? graph::ReadText(*bytes) : onnx::ImportBytes(*bytes); },
        options);
  });
}

const std::vector<ValueInfo>& Model::inputs() const { return impl_->inputs; }
const std::vector<ValueInfo>& Model::outputs() const { return impl_->outputs; }

Status api::ModelAccess::ForEachPlan(Model& model, const Shapes& shapes, const Feeds& values,
                                     FunctionRef<void(const graph::Prepared&)> visit) {
  graph::Session& session = *model.impl_->session;
  OPSNN_ASSIGN_OR_RETURN(const graph::Shapes in, ToShapes(shapes));
  OPSNN_ASSIGN_OR_RETURN(const graph::Feeds fed, ToFeeds(values));
  bool cut = false;
  OPSNN_ASSIGN_OR_RETURN(const auto prepared, session.Prepare(in, fed, &cut));
  if (!cut) {
    visit(*prepared);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const Feeds feeds, AllFeeds(model, shapes, values));
  OPSNN_ASSIGN_OR_RETURN(const graph::FeedViews views, ToViews(feeds));
  OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, session.RunViews(views));
  visit(*r.prepared);
  for (const auto& next : r.later) visit(*next);
  return OkStatus();
}

Result<std::vector<Tensor>> Model::Run(const Feeds& feeds) {
  return NoThrow([&]() -> Result<std::vector<Tensor>> {
    const auto run = [&](const Feeds& given) -> Result<std::vector<Tensor>> {
      OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, impl_->Run(given, {}));
      return ToTensors(r.outputs);
    };
    return impl_->buckets ? impl_->buckets->Run(*impl_->session, feeds, run) : run(feeds);
  });
}

Status Model::Run(const Feeds& feeds, std::vector<Tensor>* outputs) {
  return NoThrow([&]() -> Status {
    if (!outputs) return Errorf(Code::kNull, "Model::Run: outputs is null");
    if (impl_->buckets) {
      OPSNN_RETURN_IF_ERROR(CheckApart(feeds, *outputs));
      OPSNN_ASSIGN_OR_RETURN(std::vector<Tensor> cropped, Run(feeds));
      outputs->resize(cropped.size());
      for (size_t i = 0; i < cropped.size(); ++i) {
        Tensor &own = (*outputs)[i], &result = cropped[i];
        const bool fits = own.raw() && own.dtype() == result.dtype() && own.dims() == result.dims();
        fits&& result.raw() ? static_cast<void>(std::memcpy(own.raw(), result.raw(), result.bytes()))
                            : static_cast<void>(own = std::move(result));
      }
      return OkStatus();
    }
    OPSNN_RETURN_IF_ERROR(CheckApart(feeds, *outputs));
    graph::RunOptions options;
    options.outputs.reserve(outputs->size());
    for (const Tensor& t : *outputs) {
      if (t.dims().size() > kMaxRank)
        return InvalidArgument("Model::Run: an output has %zu dims", t.dims().size());
      options.outputs.push_back({t.dtype(), Dims(t.dims()), t.raw()});
    }
    OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, impl_->Run(feeds, options));
    outputs->resize(r.outputs.size());
    for (size_t i = 0; i < r.outputs.size(); ++i)
      if (r.outputs[i]) (*outputs)[i] = ToTensor(r.outputs[i]);
    return OkStatus();
  });
}

Result<std::vector<Tensor>> Model::RunProfiled(const Feeds& feeds, RunStats* stats) {
  return NoThrow([&]() -> Result<std::vector<Tensor>> {
    const auto run = [&](const Feeds& given) -> Result<std::vector<Tensor>> {
      graph::RunOptions options;
      options.time_nodes = true;
      OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, impl_->Run(given, options));
      *stats = ToStats(*impl_->session, *r.prepared, r.later, r.step_us);
      stats->times.import_us = impl_->import_us, stats->times.load_us = impl_->load_us;
      return ToTensors(r.outputs);
    };
    return impl_->buckets ? impl_->buckets->Run(*impl_->session, feeds, run) : run(feeds);
  });
}

Result<RunStats> Model::Plan(const Shapes& shapes, const Feeds& values) {
  return NoThrow([&]() -> Result<RunStats> {
    OPSNN_ASSIGN_OR_RETURN(const graph::Shapes in, ToShapes(shapes));
    OPSNN_ASSIGN_OR_RETURN(const graph::Feeds fed, ToFeeds(values));
    bool cut = false;
    OPSNN_ASSIGN_OR_RETURN(const auto prepared, impl_->session->Prepare(in, fed, &cut));
    if (!cut) return ToStats(*impl_->session, *prepared, {}, {});
    OPSNN_ASSIGN_OR_RETURN(const Feeds feeds, AllFeeds(*this, shapes, values));
    OPSNN_ASSIGN_OR_RETURN(const graph::FeedViews views, ToViews(feeds));
    OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, impl_->session->RunViews(views));
    return ToStats(*impl_->session, *r.prepared, r.later, {});
  });
}

Result<std::vector<plan::Decision>> Model::Explain(const Shapes& shapes, const std::string& profile,
                                                   const Feeds& values) {
  return NoThrow([&]() -> Result<std::vector<plan::Decision>> {
    OPSNN_ASSIGN_OR_RETURN(const graph::Shapes in, ToShapes(shapes));
    OPSNN_ASSIGN_OR_RETURN(const graph::Feeds fed, ToFeeds(values));
    OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile p,
                           device::FindProfile(profile.empty() ? GetKnobs().profile : profile));
    bool cut = false;
    if (auto planned = impl_->session->Prepare(in, fed, &cut); !planned.ok() || !cut)
      return impl_->session->Decide(in, p, fed);
    OPSNN_ASSIGN_OR_RETURN(const Feeds feeds, AllFeeds(*this, shapes, values));
    OPSNN_ASSIGN_OR_RETURN(const graph::Feeds all, ToFeeds(feeds));
    return impl_->session->DecideStages(all, p);
  });
}

Result<std::vector<ConvolutionChoice>> Model::Convolutions(const Shapes& shapes, const Feeds& values) {
  return NoThrow([&]() -> Result<std::vector<ConvolutionChoice>> {
    std::vector<ConvolutionChoice> list;
    OPSNN_RETURN_IF_ERROR(api::ModelAccess::ForEachPlan(*this, shapes, values, [&](const graph::Prepared& p) {
      for (auto& c : observe::ConvolutionChoices(p)) list.push_back(std::move(c));
    }));
    return list;
  });
}

Result<std::vector<NodeTraffic>> Model::Traffic(const Shapes& shapes, const std::string& profile,
                                                const Feeds& values) {
  return NoThrow([&]() -> Result<std::vector<NodeTraffic>> {
    OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile device,
                           device::FindProfile(profile.empty() ? GetKnobs().profile : profile));
    std::vector<NodeTraffic> list;
    OPSNN_RETURN_IF_ERROR(api::ModelAccess::ForEachPlan(*this, shapes, values, [&](const graph::Prepared& p) {
      for (auto& t : observe::TrafficOf(p, device)) list.push_back(std::move(t));
    }));
    return list;
  });
}

Result<VerifyReport> Model::Verify(const Feeds& feeds, const std::function<void(int, int)>& progress) {
  return NoThrow([&]() -> Result<VerifyReport> {
    OPSNN_ASSIGN_OR_RETURN(const graph::Feeds in, ToFeeds(feeds));
    std::lock_guard lock(impl_->twin_mutex);
    if (!impl_->unfused) {
      OPSNN_ASSIGN_OR_RETURN(graph::Graph g, impl_->import());
      graph::SessionOptions options = impl_->session->options();
      options.fusion = FusionMode::kOff;
      OPSNN_ASSIGN_OR_RETURN(impl_->unfused, graph::Session::Create(std::move(g), options));
    }
    OPSNN_ASSIGN_OR_RETURN(const observe::VerifyReport r,
                           observe::Verify(*impl_->session, *impl_->unfused, in, progress));
    auto convert = [](const observe::NodeCheck& c) {
      return NodeCheck{c.node,  c.op,    c.cosine, c.max_abs, c.max_rel,
                       c.bound, c.share, c.ok,     c.checked, c.note};
    };
    VerifyReport out;
    out.ok = r.ok;
    out.nodes = r.nodes;
    out.unchecked = r.unchecked;
    out.worst = convert(r.worst);
    out.first_bad = r.first_bad;
    out.first_difference = r.first_difference;
    out.guilty_pass = r.guilty_pass;
    for (const observe::NodeCheck& c : r.checks) out.checks.push_back(convert(c));
    return out;
  });
}

Shapes Model::FillShapes(const Shapes& given, std::vector<std::string>* assumed) const {
  std::map<std::string, int64_t> sizes;
  for (const ValueInfo& v : impl_->inputs) {
    const auto it = given.find(v.name);
    if (it == given.end() || it->second.size() != v.dims.size()) continue;
    for (size_t i = 0; i < v.dims.size(); ++i)
      if (!v.dim_names[i].empty()) sizes[v.dim_names[i]] = it->second[i];
  }
  Shapes all = given;
  for (const ValueInfo& v : impl_->inputs) {
    if (given.count(v.name)) continue;
    std::vector<int64_t> dims = v.dims;
    bool ones = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] >= 0) continue;
      const auto known = sizes.find(v.dim_names[i]);
      ones |= known == sizes.end();
      dims[i] = known == sizes.end() ? 1 : known->second;
    }
    if (ones && assumed) assumed->push_back(v.name);
    all[v.name] = std::move(dims);
  }
  return all;
}

Result<Feeds> Model::RandomFeeds(const Shapes& shapes, uint64_t seed) const {
  return NoThrow([&]() -> Result<Feeds> {
    Feeds feeds;
    Shapes all = FillShapes(shapes);
    double bytes = 0;
    for (const ValueInfo& v : impl_->inputs) {
      double size = static_cast<double>(SizeOf(v.dtype));
      for (int64_t d : all[v.name]) size *= static_cast<double>(d);
      bytes += size;
    }
    // Values for gigabytes take a while to make: a run that has no memory is refused before. Other complaints
    // of the planner are left to the run, which knows the values of the inputs.
    constexpr double kManyBytes = 64 << 20;
    if (bytes > kManyBytes) {
      OPSNN_ASSIGN_OR_RETURN(const graph::Shapes in, ToShapes(all));
      if (auto plan = impl_->session->Prepare(in); !plan.ok() && plan.status().code() == Code::kRuntime)
        return plan.status();
    }
    std::mt19937_64 engine(seed);
    for (const ValueInfo& v : impl_->inputs) {
      auto t = Tensor::Make(v.dtype, all[v.name]);
      if (!t.ok()) return t.status().WithContext("input \"" + v.name + "\"");
      FillRandom(*t, engine);
      feeds[v.name] = std::move(*t);
    }
    return feeds;
  });
}

std::string Model::Dump(const Shapes& shapes, const Feeds& values) {
  auto text = NoThrow([&]() -> Result<std::string> {
    std::string all;
    OPSNN_RETURN_IF_ERROR(api::ModelAccess::ForEachPlan(
        *this, shapes, values, [&](const graph::Prepared& p) { all += p.graph().ToString(); }));
    return all;
  });
  return text.ok() ? *text : text.status().message() + "\n";
}

Status Model::Save(const std::string& path) const {
  return NoThrow([&]() -> Status {
    OPSNN_ASSIGN_OR_RETURN(const std::string text, graph::WriteText(impl_->session->imported()));
    std::FILE* f = std::fopen(path.c_str(), "w");
    bool written = f && std::fwrite(text.data(), 1, text.size(), f) == text.size();
    if (f) written = std::fclose(f) == 0 && written;
    return written ? OkStatus() : Errorf(Code::kRuntime, "%s: cannot be written", path.c_str());
  });
}

std::vector<std::string> Model::PassNames() { return graph::PassNames(); }

}  // namespace opsnn
