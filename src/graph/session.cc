#include "graph/session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "graph/call.h"
#include "graph/control.h"
#include "graph/declared.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/moves.h"
#include "graph/infer.h"
#include "graph/memory_plan.h"
#include "graph/stages.h"
#include "graph/stopwatch.h"
#include "plan/judge.h"
#include "tensor/limits.h"

namespace opsnn::graph {
namespace {

std::string DimsText(const Value& v) {
  return v.desc.known_rank ? graph::DimsText(v.desc.dims, v.dim_names) : "[any]";
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

FeedView View(const HostTensor& t) { return {t.dtype(), t.dims(), t.data()}; }

Status CheckDType(const Value& input, DType got) {
  if (got == input.desc.dtype) return OkStatus();
  return InvalidArgument("input \"%s\" has dtype %s; allowed is %s.", input.name.c_str(), Name(got),
                         Name(input.desc.dtype));
}

bool IsSmall(const FeedView& f) { return graph::IsSmall(f.dtype, f.dims); }

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

// Adds the shapes of the values.
Result<Shapes> AllShapes(Shapes shapes, const Feeds& values) {
  for (const auto& [name, t] : values) {
    if (!t) return Errorf(Code::kNull, "input \"%s\" is null.", name.c_str());
    shapes[name] = t->dims();
  }
  return shapes;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(Graph imported, SessionOptions options) {
  std::unique_ptr<Session> s(new Session(std::move(imported), std::move(options)));
  OPSNN_RETURN_IF_ERROR(s->Load());
  return s;
}

Status Session::Load() {
  OPSNN_RETURN_IF_ERROR(CheckPassNames(options_.passes_off));
  if (options_.concurrent < 1 || options_.concurrent > 4096)
    return InvalidArgument("concurrent is %d; allowed: 1 to 4096", options_.concurrent);
  loaded_ = imported_;
  PassContext c;
  c.fusion = options_.fusion;
  c.policy = options_.policy;
  OPSNN_RETURN_IF_ERROR(RunPasses(LoadPasses(), options_.passes_off, loaded_, c, &load_stats_));
  loaded_.DropUnusedValues();
  BindNodes(loaded_);
  declared_ = DeclaredValues(loaded_);
  has_bodies_ =
      std::any_of(loaded_.nodes.begin(), loaded_.nodes.end(), [](const Node& n) { return BodiesOf(n); });
  for (const Value& v : loaded_.values)
    if (v.desc.constant) shared_constants_.insert(v.desc.constant.get());
  return OkStatus();
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
  std::unordered_set<const HostTensor*> seen;
  size_t n = 0;
  for (const Graph* g : {&imported_, &loaded_})
    for (const Value& v : g->values)
      if (v.desc.constant && seen.insert(v.desc.constant.get()).second) n += v.desc.constant->bytes();
  return n;
}

Result<Session::Key> Session::MakeKey(const Shapes& shapes, const Feeds& values) const {
  OPSNN_RETURN_IF_ERROR(CheckNames(imported_, shapes));
  Key key;
  bool any = false;
  for (ValueId v : imported_.inputs) {
    const Value& input = imported_.values[v];
    const Dims& dims = shapes.at(input.name);
    OPSNN_RETURN_IF_ERROR(CheckShape(input, dims));
    key.dims.push_back(dims);
    const auto it = values.find(input.name);
    if (it != values.end()) OPSNN_RETURN_IF_ERROR(CheckDType(input, it->second->dtype()));
    const bool small = it != values.end() && (IsSmall(View(*it->second)) || decisive_.count(input.name));
    key.values.push_back(small ? it->second : nullptr);
    any = any || small;
  }
  OPSNN_RETURN_IF_ERROR(CheckDimNames(imported_, key.dims));
  if (!any) key.values.clear();
  return key;
}

bool Session::Key::operator==(const Key& o) const {
  const auto same = [](const ConstTensor& a, const ConstTensor& b) {
    if (!a || !b) return a == b;
    return a->dtype() == b->dtype() && a->dims() == b->dims() &&
           (a->bytes() == 0 || std::memcmp(a->data(), b->data(), a->bytes()) == 0);
  };
  return dims == o.dims && std::equal(values.begin(), values.end(), o.values.begin(), o.values.end(), same);
}

void Session::SetInputs(const Key& key, Graph* g) {
  for (size_t i = 0; i < key.dims.size(); ++i) {
    op::TensorDesc& d = g->values[g->inputs[i]].desc;
    d.dims = key.dims[i];
    d.constant = i < key.values.size() ? key.values[i] : nullptr;
    d.known_rank = true;
  }
}

Result<Graph> Session::Concrete(const Key& key, std::vector<PassStat>* stats,
                                std::shared_ptr<const Stage>* stage) const {
  Graph g;
  // Room for what passes add: growing would copy all of it again.
  g.values.reserve(loaded_.values.size() + loaded_.values.size() / 4);
  g.nodes.reserve(loaded_.nodes.size() + loaded_.nodes.size() / 4);
  g = loaded_;
  SetInputs(key, &g);
  std::vector<bool> open;
  InferOptions infer;
  infer.fold = !ListHas(options_.passes_off, "constant_folding");
  if (stage) infer.open = &open;
  const Stopwatch watch;
  OPSNN_ASSIGN_OR_RETURN(const int folded, InferGraph(g, infer));
  stats->push_back({"constant_folding", folded, infer.fold ? folded : 0, watch.us()});
  OPSNN_RETURN_IF_ERROR(CheckAllDeclared(g, declared_));
  if (std::find(open.begin(), open.end(), true) == open.end()) return g;
  // A value that decides is a constant in the plan it decides on, and new with every run.
  constexpr size_t kRestCacheBytes = size_t{16} << 20;
  OPSNN_ASSIGN_OR_RETURN(Split split, SplitGraph(g, open));
  SessionOptions options = options_;
  options.cache_bytes = std::min(options.cache_bytes, kRestCacheBytes);
  auto made = std::make_shared<Stage>();
  OPSNN_ASSIGN_OR_RETURN(made->rest, Create(std::move(split.rest), options));
  made->rest->decisive_ = std::move(split.decisive);
  made->rest->values_matter_ = true;
  made->rest->packs_ = packs_;  // its weights are those of this model, whatever sizes it was cut for
  made->rest->arenas_ = arenas_;
  made->handed = std::move(split.handed);
  made->from_head = std::move(split.from_head);
  *stage = std::move(made);
  return std::move(split.head);
}

// What a prepared form holds by itself: its graph and kernels, and constants folded for its shapes, which may
// have been packed as well.
size_t Session::FormBytes(const Prepared& p) const {
  size_t bytes = p.steps().size() * kBytesPerStep;
  for (const Value& v : p.graph().values)
    if (v.desc.constant && !shared_constants_.count(v.desc.constant.get()))
      bytes += 2 * v.desc.constant->bytes();
  return bytes;
}

Session::Form Session::Keep(const Key& key, Form form) {
  std::vector<Entry> before;  // freed outside the lock
  const size_t bytes = FormBytes(*form.prepared);
  const std::lock_guard lock(mutex_);
  for (const Entry& e : cache_)
    if (e.key == key) return e.form;  // another thread was faster
  std::swap(before, dropped_);
  std::vector<Entry>& dropped = dropped_;
  if (ahead_) {  // a guess that nobody asked for served to pack the weights
    const auto guess =
        std::find_if(cache_.begin(), cache_.end(), [&](const Entry& e) { return e.key == *ahead_; });
    if (guess != cache_.end()) {
      dropped.push_back(std::move(*guess));
      cache_.erase(guess);
    }
    ahead_.reset();
  }
  cache_.insert(cache_.begin(), {key, form, bytes});
  const size_t most = std::min(options_.cache_bytes, kMostFormBytes);
  size_t total = 0, keep = 0;
  while (keep < cache_.size() && (keep == 0 || total + cache_[keep].bytes <= most))
    total += cache_[keep++].bytes;
  form_stats_.evictions += static_cast<int64_t>(cache_.size() - keep);
  dropped.insert(dropped.end(), std::make_move_iterator(cache_.begin() + static_cast<ptrdiff_t>(keep)),
                 std::make_move_iterator(cache_.end()));
  cache_.resize(keep);
  return form;
}

Result<Session::Form> Session::PrepareFor(const Key& key, bool may_cut) {
  {
    std::vector<Entry> dropped;  // freed outside the lock
    const std::lock_guard lock(mutex_);
    const auto it = std::find_if(cache_.begin(), cache_.end(), [&](const Entry& e) { return e.key == key; });
    if (it != cache_.end()) {
      std::swap(dropped, dropped_);
      ++form_stats_.hits;
      if (ahead_ == key) ahead_.reset();
      std::rotate(cache_.begin(), it, it + 1);
      return cache_.front().form;
    }
    ++form_stats_.misses;
  }
  Form form;
  OPSNN_ASSIGN_OR_RETURN(form.prepared, Plan(key, may_cut ? &form.stage : nullptr));
  if (VerboseHas("graph")) PrintPrepared(*form.prepared);
  form = Keep(key, std::move(form));
  packs_->Trim(options_.idle_pack_bytes);
  return form;
}

CacheStats Session::form_stats() const {
  const std::lock_guard lock(mutex_);
  CacheStats s = form_stats_;
  s.entries = cache_.size();
  for (const Entry& e : cache_) s.bytes += e.bytes;
  return s;
}

// First without values, then with those of small inputs, then cut where a size depends on what is computed.
Result<Session::Form> Session::PrepareForFeeds(Key key, const std::vector<FeedView>& feeds) {
  if (cut_ && !values_matter_) return PrepareFor(key, true);
  Status first;
  if (!values_matter_) {
    auto form = PrepareFor(key, false);
    if (form.ok()) return form;
    first = form.status();
  }
  auto with_values = PrepareWithValues(key, feeds, first);
  if (first.code() != Code::kNotImplemented || with_values.ok() ||
      with_values.status().code() != Code::kNotImplemented)
    return with_values;
  auto cut = PrepareFor(key, true);
  if (!cut.ok()) return cut.status();
  cut_ = true;
  return cut;
}

Result<Session::Form> Session::PrepareWithValues(Key key, const std::vector<FeedView>& feeds, Status first) {
  bool any = false;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const FeedView& f = feeds[i];
    key.values.push_back(nullptr);
    if (!IsSmall(f) && !decisive_.count(imported_.values[imported_.inputs[i]].name)) continue;
    // The caller may change the tensor after this run: the key keeps its own copy.
    auto copy = std::make_shared<HostTensor>(f.dtype, f.dims);
    if (!copy->ok()) return Errorf(Code::kRuntime, "no memory for the value of an input.");
    if (copy->bytes()) std::memcpy(copy->data(), f.data, copy->bytes());
    key.values.back() = std::move(copy);
    any = true;
  }
  if (!any) {
    if (!first.ok()) return first;
    key.values.clear();
  }
  // Where values are known to matter, there is no telling apart what else is missing: one try may cut.
  auto form = PrepareFor(key, values_matter_);
  if (form.ok()) values_matter_ = true;
  return form;
}

template <typename Map>
Result<std::shared_ptr<Session>> Session::WithFedDefaults(const Map& names) const {
  std::set<std::string> fed;
  for (const Graph::Default& d : imported_.defaults)
    if (names.count(d.as_input.name)) fed.insert(d.as_input.name);
  if (fed.empty()) return std::shared_ptr<Session>();
  {
    const std::lock_guard lock(mutex_);
    if (fed == fed_defaults_) return with_defaults_;
  }
  Graph g = imported_;
  for (const Graph::Default& d : imported_.defaults) {
    if (!fed.count(d.as_input.name)) continue;
    g.values[d.value] = d.as_input;
    g.inputs.push_back(d.value);
  }
  std::erase_if(g.defaults, [&](const Graph::Default& d) { return fed.count(d.as_input.name) != 0; });
  // Shapes that were inferred with the default.
  for (Value& v : g.values)
    if (v.producer >= 0) v.desc.known_rank = false, v.desc.dims = Dims();
  OPSNN_ASSIGN_OR_RETURN(std::shared_ptr<Session> made, Create(std::move(g), options_));
  const std::lock_guard lock(mutex_);
  fed_defaults_ = std::move(fed);
  with_defaults_ = made;
  return made;
}

Result<std::shared_ptr<const Prepared>> Session::Prepare(const Shapes& shapes, const Feeds& values,
                                                         bool* cut) {
  OPSNN_ASSIGN_OR_RETURN(const Shapes all, AllShapes(shapes, values));
  OPSNN_ASSIGN_OR_RETURN(const std::shared_ptr<Session> other, WithFedDefaults(all));
  if (other) return other->Prepare(all, values, cut);
  OPSNN_ASSIGN_OR_RETURN(const Key key, MakeKey(all, values));
  auto form = PrepareFor(key, false);
  if (!form.ok() && form.status().code() == Code::kNotImplemented && !NeedsValues(key))
    form = PrepareFor(key, true);
  if (!form.ok()) return form.status();
  if (cut) *cut = form->stage != nullptr;
  return form->prepared;
}

// Would a value that the caller could have given make sizes known?
bool Session::NeedsValues(const Key& key) const {
  std::vector<PassStat> stats;
  std::shared_ptr<const Stage> stage;
  if (!Concrete(key, &stats, &stage).ok() || !stage) return false;
  const std::vector<const Value*> inputs = stage->rest->inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (stage->handed[i] < 0 && stage->rest->decisive_.count(inputs[i]->name) &&
        graph::IsSmall(inputs[i]->desc.dtype, inputs[i]->desc.dims))
      return true;
  return false;
}

Result<std::vector<plan::Decision>> Session::Decide(const Shapes& shapes,
                                                    const device::DeviceProfile& profile,
                                                    const Feeds& values) const {
  OPSNN_ASSIGN_OR_RETURN(const Shapes all, AllShapes(shapes, values));
  OPSNN_ASSIGN_OR_RETURN(const std::shared_ptr<Session> other, WithFedDefaults(all));
  if (other) return other->Decide(all, profile, values);
  OPSNN_ASSIGN_OR_RETURN(const Key key, MakeKey(all, values));
  std::vector<PassStat> stats;
  std::shared_ptr<const Stage> stage;
  OPSNN_ASSIGN_OR_RETURN(Graph g, Optimise(key, profile, true, &stats, NeedsValues(key) ? nullptr : &stage));
  RecordMoves(imported_, profile, options_.fusion, g);
  return std::move(g.decisions);
}

Result<std::vector<plan::Decision>> Session::DecideStages(const Feeds& feeds,
                                                          const device::DeviceProfile& profile) {
  OPSNN_ASSIGN_OR_RETURN(const Shapes shapes, AllShapes({}, feeds));
  OPSNN_ASSIGN_OR_RETURN(const std::shared_ptr<Session> other, WithFedDefaults(shapes));
  if (other) return other->DecideStages(feeds, profile);
  OPSNN_RETURN_IF_ERROR(CheckNames(imported_, feeds));
  std::vector<FeedView> in;
  Key key;
  for (ValueId v : imported_.inputs) {
    in.push_back(View(*feeds.at(imported_.values[v].name)));
    OPSNN_RETURN_IF_ERROR(CheckShape(imported_.values[v], in.back().dims));
    OPSNN_RETURN_IF_ERROR(CheckDType(imported_.values[v], in.back().dtype));
    key.dims.push_back(in.back().dims);
  }
  OPSNN_ASSIGN_OR_RETURN(const Form form, PrepareForFeeds(std::move(key), in));
  OPSNN_ASSIGN_OR_RETURN(std::vector<plan::Decision> all,
                         Decide(shapes, profile, values_matter_ ? feeds : Feeds()));
  if (!form.stage) return all;
  std::vector<ConstTensor> head;
  if (!form.prepared->graph().outputs.empty()) {
    OPSNN_ASSIGN_OR_RETURN(head, form.prepared->Run(in, {}, nullptr));
  }
  Feeds handed;
  const std::vector<const Value*> inputs = form.stage->rest->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int from = form.stage->handed[i];
    handed[inputs[i]->name] = from < 0 ? feeds.at(inputs[i]->name) : head[static_cast<size_t>(from)];
  }
  OPSNN_ASSIGN_OR_RETURN(std::vector<plan::Decision> later, form.stage->rest->DecideStages(handed, profile));
  std::move(later.begin(), later.end(), std::back_inserter(all));
  return all;
}

Result<RunResult> Session::Run(const Feeds& feeds, const RunOptions& options) {
  FeedViews views;
  for (const auto& [name, t] : feeds) views[name] = t ? View(*t) : FeedView();
  return RunViews(views, options);
}

Result<RunResult> Session::RunViews(const FeedViews& feeds, const RunOptions& options) {
  OPSNN_ASSIGN_OR_RETURN(const std::shared_ptr<Session> other, WithFedDefaults(feeds));
  if (other) return other->RunViews(feeds, options);
  OPSNN_RETURN_IF_ERROR(CheckNames(imported_, feeds));
  std::vector<FeedView> in;
  for (ValueId v : imported_.inputs) in.push_back(feeds.at(imported_.values[v].name));
  return RunInOrder(in, options);
}

// The newest form, if it is for these sizes and for any values.
bool Session::FindNewest(std::span<const FeedView> feeds, Form* form) {
  if (values_matter_ || cut_) return false;
  std::vector<Entry> dropped;  // freed outside the lock
  const std::lock_guard lock(mutex_);
  if (cache_.empty() || ahead_ || !cache_.front().key.values.empty()) return false;
  const std::vector<Dims>& dims = cache_.front().key.dims;
  for (size_t i = 0; i < feeds.size(); ++i)
    if (feeds[i].dims != dims[i]) return false;
  ++form_stats_.hits;
  std::swap(dropped, dropped_);
  *form = cache_.front().form;
  return true;
}

Result<RunResult> Session::RunInOrder(std::span<const FeedView> feeds, const RunOptions& options) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Value& value = imported_.values[imported_.inputs[i]];
    if (!feeds[i].data) return Errorf(Code::kNull, "input \"%s\" is null.", value.name.c_str());
    if (feeds[i].dtype != value.desc.dtype) return CheckDType(value, feeds[i].dtype);
  }
  Form form;
  if (!FindNewest(feeds, &form)) {
    Key key;
    for (size_t i = 0; i < feeds.size(); ++i) {
      OPSNN_RETURN_IF_ERROR(CheckShape(imported_.values[imported_.inputs[i]], feeds[i].dims));
      key.dims.push_back(feeds[i].dims);
    }
    OPSNN_RETURN_IF_ERROR(CheckDimNames(imported_, key.dims));
    OPSNN_ASSIGN_OR_RETURN(form, PrepareForFeeds(std::move(key), {feeds.begin(), feeds.end()}));
  }
  RunResult r;
  r.prepared = std::move(form.prepared);
  if (!form.stage) {
    OPSNN_ASSIGN_OR_RETURN(r.outputs,
                           r.prepared->Run(feeds, options, options.time_nodes ? &r.step_us : nullptr));
    return r;
  }
  RunOptions head = options;
  head.outputs = LentToHead(*form.stage, options);
  if (!r.prepared->graph().outputs.empty()) {
    OPSNN_ASSIGN_OR_RETURN(r.outputs,
                           r.prepared->Run(feeds, head, options.time_nodes ? &r.step_us : nullptr));
  }
  FeedViews by_name;
  for (size_t i = 0; i < feeds.size(); ++i) by_name[imported_.values[imported_.inputs[i]].name] = feeds[i];
  OPSNN_RETURN_IF_ERROR(RunRest(*form.stage, by_name, head.outputs, options, &r));
  return r;
}

// Each output of the head is written to the first place that the caller lends for it.
std::vector<OutputView> Session::LentToHead(const Stage& stage, const RunOptions& options) {
  std::vector<OutputView> lent;
  for (size_t i = 0; i < std::min(stage.from_head.size(), options.outputs.size()); ++i) {
    if (stage.from_head[i] < 0) continue;
    const auto at = static_cast<size_t>(stage.from_head[i]);
    lent.resize(std::max(lent.size(), at + 1));
    if (!lent[at].data) lent[at] = options.outputs[i];
  }
  return lent;
}

// r holds the outputs of the head, null where they went to memory of `lent`, and gets those of the model.
Status Session::RunRest(const Stage& stage, const FeedViews& feeds, const std::vector<OutputView>& lent,
                        const RunOptions& options, RunResult* r) {
  const auto of_head = [&](int i) {
    const auto at = static_cast<size_t>(i);
    return r->outputs[at] ? View(*r->outputs[at]) : FeedView{lent[at].dtype, lent[at].dims, lent[at].data};
  };
  FeedViews in;
  const std::vector<const Value*> inputs = stage.rest->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i]->name;
    in[name] = stage.handed[i] < 0 ? feeds.at(name) : of_head(stage.handed[i]);
  }
  RunOptions rest = options;
  rest.outputs.clear();
  for (size_t i = 0; i < std::min(stage.from_head.size(), options.outputs.size()); ++i)
    if (stage.from_head[i] < 0) rest.outputs.push_back(options.outputs[i]);
  OPSNN_ASSIGN_OR_RETURN(RunResult later, stage.rest->RunViews(in, rest));
  std::vector<ConstTensor> outputs;
  size_t next = 0;
  for (size_t i = 0; i < stage.from_head.size(); ++i) {
    const int from = stage.from_head[i];
    outputs.push_back(from >= 0 ? r->outputs[static_cast<size_t>(from)] : later.outputs[next++]);
    // Lent for another place of the same value: this one gets a tensor of its own.
    if (from < 0 || outputs.back() ||
        (i < options.outputs.size() && lent[static_cast<size_t>(from)].data == options.outputs[i].data))
      continue;
    const FeedView v = of_head(from);
    auto copy = std::make_shared<HostTensor>(v.dtype, v.dims);
    if (!copy->ok()) return Errorf(Code::kRuntime, "no memory for an output.");
    if (copy->bytes()) std::memcpy(copy->data(), v.data, copy->bytes());
    outputs.back() = std::move(copy);
  }
  r->outputs = std::move(outputs);
  r->step_us.insert(r->step_us.end(), later.step_us.begin(), later.step_us.end());
  r->later.push_back(std::move(later.prepared));
  r->later.insert(r->later.end(), later.later.begin(), later.later.end());
  return OkStatus();
}

}  // namespace opsnn::graph
