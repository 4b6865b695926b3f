#include "graph/session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph/call.h"
#include "graph/infer.h"
#include "tensor/limits.h"

namespace opsnn::graph {
namespace {

// Inputs that may stand for shapes, axes or scales: at most one dim, and about as many values as a shape with
// a pad on each side, or a region of interest, has.
constexpr int64_t kSmallInts = 64, kSmallFloats = 16;

std::string DimsText(const Value& v) {
  if (!v.desc.known_rank) return "[any]";
  std::string s = "[";
  for (int i = 0; i < v.desc.dims.rank(); ++i) {
    if (i) s += ",";
    const bool named = i < static_cast<int>(v.dim_names.size()) && !v.dim_names[i].empty();
    s += v.desc.dims[i] >= 0 ? std::to_string(v.desc.dims[i]) : named ? v.dim_names[i] : "?";
  }
  return s + "]";
}

std::string InputList(const Graph& g) {
  std::string s;
  for (ValueId v : g.inputs)
    s += (s.empty() ? "\"" : ", \"") + g.values[v].name + "\" " + Name(g.values[v].desc.dtype) +
         DimsText(g.values[v]);
  return s.empty() ? "none" : s;
}

Status UnknownInput(const Graph& g, const std::string& name) {
  return InvalidArgument("the model has no input \"%s\"; its inputs are: %s.", name.c_str(),
                         InputList(g).c_str());
}

// What OPSNN_VERBOSE=graph shows of a prepared form.
void PrintPrepared(const Prepared& p) {
  std::string s = p.graph().ToString();
  for (const PassStat& stat : p.pass_stats())
    s += StrFormat("  pass %s: %d matches, %d effects\n", stat.name.c_str(), stat.matches, stat.effects);
  s += StrFormat("  memory: %zu bytes at the peak, %zu views, %zu in place\n", p.peak_bytes(),
                 p.memory().views, p.memory().in_place);
  std::fputs(s.c_str(), stderr);
}

template <typename Map>
Status CheckNames(const Graph& g, const Map& given) {
  for (const auto& [name, value] : given) {
    const bool known =
        std::any_of(g.inputs.begin(), g.inputs.end(), [&](ValueId v) { return g.values[v].name == name; });
    if (!known) return UnknownInput(g, name);
  }
  for (ValueId v : g.inputs)
    if (!given.count(g.values[v].name))
      return InvalidArgument("input \"%s\" is missing; the model's inputs are: %s.", g.values[v].name.c_str(),
                             InputList(g).c_str());
  return OkStatus();
}

Status CheckShape(const Value& v, const Dims& got) {
  bool fits = !v.desc.known_rank || got.rank() == v.desc.dims.rank();
  for (int i = 0; fits && v.desc.known_rank && i < got.rank(); ++i)
    fits = got[i] >= 0 && (v.desc.dims[i] == kUnknownDim || v.desc.dims[i] == got[i]);
  for (int i = 0; i < got.rank(); ++i) fits = fits && got[i] >= 0;
  if (!fits)
    return InvalidArgument("input \"%s\" has shape %s; allowed is %s.", v.name.c_str(), ToString(got).c_str(),
                           DimsText(v).c_str());
  if (!WithinLimits(got))
    return InvalidArgument("input \"%s\" of shape %s is too large.", v.name.c_str(), ToString(got).c_str());
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(Graph imported, SessionOptions options) {
  std::unique_ptr<Session> s(new Session(std::move(imported), std::move(options)));
  OPSNN_RETURN_IF_ERROR(s->Load());
  return s;
}

Status Session::Load() {
  OPSNN_RETURN_IF_ERROR(CheckPassNames(options_.passes_off));
  loaded_ = imported_;
  PassContext c;
  c.fusion = options_.fusion;
  c.policy = options_.policy;
  return RunPasses(LoadPasses(), options_.passes_off, loaded_, c, &load_stats_);
}

std::vector<const Value*> Session::inputs() const {
  std::vector<const Value*> list;
  for (ValueId v : imported_.inputs) list.push_back(&imported_.values[v]);
  return list;
}

std::vector<const Value*> Session::outputs() const {
  std::vector<const Value*> list;
  for (ValueId v : imported_.outputs) list.push_back(&imported_.values[v]);
  return list;
}

size_t Session::constant_bytes() const {
  size_t n = 0;
  for (const Value& v : loaded_.values)
    if (v.desc.constant) n += v.desc.constant->bytes();
  return n;
}

Result<std::vector<Dims>> Session::CheckShapes(const Shapes& shapes) const {
  OPSNN_RETURN_IF_ERROR(CheckNames(imported_, shapes));
  std::vector<Dims> dims;
  for (ValueId v : imported_.inputs) {
    const Dims& got = shapes.at(imported_.values[v].name);
    OPSNN_RETURN_IF_ERROR(CheckShape(imported_.values[v], got));
    dims.push_back(got);
  }
  return dims;
}

bool Session::Key::operator==(const Key& o) const {
  const auto same = [](const ConstTensor& a, const ConstTensor& b) {
    if (!a || !b) return a == b;
    return a->dtype() == b->dtype() && a->dims() == b->dims() &&
           (a->bytes() == 0 || std::memcmp(a->data(), b->data(), a->bytes()) == 0);
  };
  return dims == o.dims && std::equal(values.begin(), values.end(), o.values.begin(), o.values.end(), same);
}

Result<Graph> Session::Optimise(const Key& key, const device::DeviceProfile& profile,
                                std::vector<PassStat>* stats) const {
  Graph g = loaded_;
  for (size_t i = 0; i < key.dims.size(); ++i) {
    op::TensorDesc& d = g.values[g.inputs[i]].desc;
    d.dims = key.dims[i];
    if (i < key.values.size()) d.constant = key.values[i];
    d.known_rank = true;
  }
  InferOptions infer;
  infer.fold = !ListHas(options_.passes_off, "constant_folding");
  OPSNN_ASSIGN_OR_RETURN(const int folded, InferGraph(g, infer));
  stats->push_back({"constant_folding", folded, infer.fold ? folded : 0});
  g.RemoveUnused();
  OPSNN_RETURN_IF_ERROR(g.Sort());
  PassContext c;
  c.fusion = options_.fusion;
  c.policy = options_.policy;
  c.profile = &profile;
  c.packs = const_cast<WeightPacks*>(&packs_);  // a cache with its own lock
  OPSNN_RETURN_IF_ERROR(RunPasses(PreparePasses(), options_.passes_off, g, c, stats));
  return g;
}

Result<std::shared_ptr<const Prepared>> Session::PrepareFor(const Key& key) {
  const auto find = [&] {
    return std::find_if(cache_.begin(), cache_.end(), [&](const Entry& e) { return e.key == key; });
  };
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = find(); it != cache_.end()) {
      std::rotate(cache_.begin(), it, it + 1);
      return cache_.front().prepared;
    }
  }
  std::vector<PassStat> stats;
  OPSNN_ASSIGN_OR_RETURN(Graph g, Optimise(key, device::HostProfile(), &stats));
  OPSNN_ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> p,
                         Prepared::Make(std::move(g), &packs_, std::move(stats)));
  if (VerboseHas("graph")) PrintPrepared(*p);
  const std::lock_guard lock(mutex_);
  if (const auto it = find(); it != cache_.end()) return it->prepared;  // another thread was faster
  cache_.insert(cache_.begin(), {key, p});
  size_t total = 0, keep = 0;
  while (keep < cache_.size() &&
         (keep == 0 || total + cache_[keep].prepared->peak_bytes() <= options_.cache_bytes))
    total += cache_[keep++].prepared->peak_bytes();
  cache_.resize(keep);
  return p;
}

Result<std::shared_ptr<const Prepared>> Session::PrepareForFeeds(Key key,
                                                                 const std::vector<ConstTensor>& feeds) {
  Status first;
  if (!values_matter_) {
    auto p = PrepareFor(key);
    if (p.ok()) return p;
    first = p.status();
  }
  bool any = false;
  for (const ConstTensor& t : feeds) {
    const bool small =
        t->dims().rank() <= 1 && t->size() <= (IsFloat(t->dtype()) ? kSmallFloats : kSmallInts);
    key.values.push_back(small ? t : nullptr);
    any = any || small;
  }
  if (!any) {
    if (!first.ok()) return first;
    key.values.clear();
    return PrepareFor(key);
  }
  // The caller may change the tensor after this run: the key keeps its own copy.
  for (ConstTensor& t : key.values) {
    if (!t) continue;
    auto copy = std::make_shared<HostTensor>(t->dtype(), t->dims());
    if (!copy->ok()) return Errorf(Code::kRuntime, "no memory for the value of an input.");
    if (t->bytes()) std::memcpy(copy->data(), t->data(), t->bytes());
    t = std::move(copy);
  }
  auto p = PrepareFor(key);
  if (p.ok()) values_matter_ = true;
  return p;
}

Result<std::shared_ptr<const Prepared>> Session::Prepare(const Shapes& shapes) {
  OPSNN_ASSIGN_OR_RETURN(const std::vector<Dims> dims, CheckShapes(shapes));
  return PrepareFor({dims, {}});
}

Result<std::vector<plan::Decision>> Session::Decide(const Shapes& shapes,
                                                    const device::DeviceProfile& profile) const {
  OPSNN_ASSIGN_OR_RETURN(const std::vector<Dims> dims, CheckShapes(shapes));
  std::vector<PassStat> stats;
  OPSNN_ASSIGN_OR_RETURN(Graph g, Optimise({dims, {}}, profile, &stats));
  return std::move(g.decisions);
}

Result<RunResult> Session::Run(const Feeds& feeds, const RunOptions& options) {
  OPSNN_RETURN_IF_ERROR(CheckNames(imported_, feeds));
  std::vector<ConstTensor> in;
  std::vector<Dims> dims;
  for (ValueId v : imported_.inputs) {
    const Value& value = imported_.values[v];
    const ConstTensor& t = feeds.at(value.name);
    if (!t) return Errorf(Code::kNull, "input \"%s\" is null.", value.name.c_str());
    if (t->dtype() != value.desc.dtype)
      return InvalidArgument("input \"%s\" has dtype %s; allowed is %s.", value.name.c_str(),
                             Name(t->dtype()), Name(value.desc.dtype));
    OPSNN_RETURN_IF_ERROR(CheckShape(value, t->dims()));
    in.push_back(t);
    dims.push_back(t->dims());
  }
  RunResult r;
  OPSNN_ASSIGN_OR_RETURN(r.prepared, PrepareForFeeds({std::move(dims), {}}, in));
  OPSNN_ASSIGN_OR_RETURN(r.outputs, r.prepared->Run(in, options, options.time_nodes ? &r.step_us : nullptr));
  return r;
}

}  // namespace opsnn::graph
