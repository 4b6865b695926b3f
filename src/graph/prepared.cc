#include "graph/prepared.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/buffer_stats.h"
#include "base/knobs.h"
#include "base/parallel.h"
#include "base/pool_awake.h"
#include "graph/available_memory.h"
#include "graph/call.h"
#include "graph/session.h"
#include "graph/stopwatch.h"
#include "op/exact.h"

namespace opsnn::graph {
namespace {

// A stored tensor in logical row-major order. Slow and plain: for captures only.
ConstTensor ToLogical(const void* data, const op::TensorDesc& d) {
  auto t = std::make_shared<HostTensor>(d.dtype, d.dims);
  if (!t->ok()) return nullptr;
  const size_t size = SizeOf(d.dtype);
  const char* from = static_cast<const char*>(data);
  char* to = t->as<char>();
  if (d.layout.format == Format::kNC1HWC0) {
    const int64_t c0 = d.layout.c0, c1 = (d.dims[1] + c0 - 1) / c0, pixels = d.dims[2] * d.dims[3];
    for (int64_t n = 0; n < d.dims[0]; ++n)
      for (int64_t c = 0; c < d.dims[1]; ++c)
        for (int64_t p = 0; p < pixels; ++p, to += size)
          std::memcpy(to, from + (((n * c1 + c / c0) * pixels + p) * c0 + c % c0) * size, size);
  } else if (d.IsContiguous() && d.layout.format != Format::kNHWC) {
    if (t->bytes()) std::memcpy(to, from, t->bytes());
  } else {
    Dims at = Dims::Filled(d.dims.rank(), 0), strides = d.strides;
    if (d.layout.format == Format::kNHWC) {
      const int64_t c = d.dims[1], w = d.dims[3];
      strides = Dims{d.dims[2] * w * c, 1, w * c, c};
    }
    for (int64_t i = t->size(); i > 0; --i, to += size) {
      int64_t offset = 0;
      for (int k = 0; k < at.rank(); ++k) offset += at[k] * strides[k];
      std::memcpy(to, from + offset * static_cast<int64_t>(size), size);
      for (int k = at.rank() - 1; k >= 0 && ++at[k] == d.dims[k]; --k) at[k] = 0;
    }
  }
  return t;
}

int64_t BytesMoved(const Graph& g, const Node& n) {
  int64_t bytes = 0;
  for (auto v = n.inputs.begin(); v != n.inputs.end(); ++v) {
    if (*v == kNoValue || std::find(n.inputs.begin(), v, *v) != v) continue;
    bytes += static_cast<int64_t>(StoredBytes(g.values[*v].desc));
  }
  for (ValueId v : n.outputs)
    if (v != kNoValue) bytes += static_cast<int64_t>(StoredBytes(g.values[v].desc));
  return bytes;
}

// Everything that a run could hold at once fits the address space, so no sum of offsets and sizes wraps.
Status CheckTotal(const Graph& g, const std::vector<size_t>& workspace) {
  size_t total = 0;
  bool fits = true;
  const auto add = [&](size_t bytes) {
    fits = fits && !__builtin_add_overflow(total, bytes, &total) &&
           !__builtin_add_overflow(total, kAlignment, &total);
  };
  for (size_t bytes : workspace) add(bytes);
  for (ValueId v : g.inputs) add(StoredBytes(g.values[v].desc));
  for (ValueId v : g.outputs) add(StoredBytes(g.values[v].desc));
  for (const Node& n : g.nodes)
    for (ValueId v : n.outputs)
      if (v != kNoValue) add(StoredBytes(g.values[v].desc));
  if (fits) return OkStatus();
  return Errorf(Code::kRuntime,
                "running model \"%s\" with these shapes needs more memory than can be addressed.",
                g.name.c_str());
}

}  // namespace

// ---- WeightPacks

std::shared_ptr<const void> WeightPacks::Find(const ConstTensor& constant, const std::string& key) {
  const auto it = packs_.find({constant.get(), key});
  if (it == packs_.end()) return nullptr;
  ++stats_.hits;
  it->second.used = ++clock_;
  return it->second.data;
}

std::shared_ptr<const void> WeightPacks::GetOrMake(const ConstTensor& constant, const std::string& key,
                                                   FunctionRef<std::shared_ptr<const void>()> make) {
  {
    const std::lock_guard lock(mutex_);
    if (auto found = Find(constant, key)) return found;
  }
  // Made without the lock: the steps of a plan pack their weights side by side.
  const int64_t before = ThreadBufferBytes();
  std::shared_ptr<const void> data = make();
  const int64_t grown = ThreadBufferBytes() - before;
  const size_t bytes = grown > 0 ? static_cast<size_t>(grown) : constant->bytes();
  const std::lock_guard lock(mutex_);
  if (auto found = Find(constant, key)) return found;  // another thread was faster
  ++stats_.misses;
  // Without memory now there may be some at the next call.
  if (data) packs_.emplace(std::pair(constant.get(), key), Pack{constant, data, bytes, ++clock_});
  return data;
}

// A constant that only packs hold belonged to a prepared form that is gone; its packs can never be asked for
// again.
void WeightPacks::DropOrphans() {
  for (auto it = packs_.begin(); it != packs_.end();) {
    auto end = it;
    long packs = 0;
    bool idle = true;
    for (; end != packs_.end() && end->first.first == it->first.first; ++end) {
      ++packs;
      idle = idle && end->second.Idle();
    }
    if (idle && it->second.constant.use_count() == packs) {
      stats_.evictions += packs;
      it = packs_.erase(it, end);
    } else {
      it = end;
    }
  }
}

void WeightPacks::Trim(size_t idle_bytes) {
  const std::lock_guard lock(mutex_);
  DropOrphans();
  std::vector<Packs::iterator> idle;
  for (auto it = packs_.begin(); it != packs_.end(); ++it)
    if (it->second.Idle()) idle.push_back(it);
  std::sort(idle.begin(), idle.end(), [](auto a, auto b) { return a->second.used > b->second.used; });
  size_t total = 0;
  for (const Packs::iterator it : idle) {
    total += it->second.bytes;
    if (total <= idle_bytes) continue;
    ++stats_.evictions;
    packs_.erase(it);
  }
}

CacheStats WeightPacks::stats() const {
  const std::lock_guard lock(mutex_);
  CacheStats s = stats_;
  s.entries = packs_.size();
  for (const auto& [key, pack] : packs_) s.bytes += pack.bytes;
  return s;
}

// ---- planning

Result<std::shared_ptr<const Prepared>> Prepared::Make(Graph graph, op::PackCache* packs,
                                                       std::vector<PassStat> pass_stats,
                                                       std::shared_ptr<ArenaPool> arenas, bool exact) {
  std::shared_ptr<Prepared> p(new Prepared);
  p->arenas_ = std::move(arenas);
  p->graph_ = std::move(graph);
  p->graph_.DropUnusedValues();  // of the nodes that were fused; a form is kept for long
  p->pass_stats_ = std::move(pass_stats);
  OPSNN_RETURN_IF_ERROR(p->PlanSteps(packs, exact));
  OPSNN_RETURN_IF_ERROR(p->CheckMemory());
  p->Bind();
  return std::shared_ptr<const Prepared>(std::move(p));
}

Status Prepared::PlanSteps(op::PackCache* packs, bool exact) {
  const size_t count = graph_.nodes.size();
  std::vector<bool> is_view(count);
  steps_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    steps_[i].node = static_cast<NodeId>(i);
    is_view[i] = CanAlias(graph_, graph_.nodes[i]);
  }
  std::vector<Status> failed(count);
  const Stopwatch kernels;
  // Steps do not depend on each other, and the first plan of a model packs all its weights here: one at a
  // time, since packing takes as long as hundreds of other steps.
  ParallelFor(static_cast<int64_t>(count), [&](int64_t step, int) {
    const auto i = static_cast<size_t>(step);
    if (is_view[i]) return;
    const op::ScopedExact policy(exact);
    auto kernel = PlanNode(graph_, graph_.nodes[i], packs);
    failed[i] = kernel.status();
    if (!kernel.ok()) return;
    steps_[i].kernel = *std::move(kernel);
    steps_[i].bytes_moved = BytesMoved(graph_, graph_.nodes[i]);
  });
  for (const Status& s : failed) OPSNN_RETURN_IF_ERROR(s);
  kernels_us_ = kernels.us();
  const Stopwatch memory;
  std::vector<size_t> workspace;
  for (const Step& s : steps_) workspace.push_back(s.kernel ? s.kernel->workspace_bytes() : 0);
  OPSNN_RETURN_IF_ERROR(CheckTotal(graph_, workspace));
  memory_ = PlanMemory(graph_, workspace, is_view);
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].live_bytes = memory_.curve[i];
  for (ValueId v : graph_.inputs) io_bytes_ += StoredBytes(graph_.values[v].desc);
  for (ValueId v : graph_.outputs) io_bytes_ += StoredBytes(graph_.values[v].desc);
  memory_us_ = memory.us();
  return OkStatus();
}

Status Prepared::CheckMemory() const {
  const size_t need = memory_.arena_bytes + io_bytes_;
  size_t limit = static_cast<size_t>(GetKnobs().memory_limit);
  if (limit == 0) {  // buffers that wait for a run are memory this run may have
    const size_t waiting = arenas_->bytes();
    constexpr size_t kLittle = size_t{16}
                               << 20;  // that much more is found to be there or not when it is taken
    if (need <= waiting + kLittle)
      return OkStatus();  // asking the system costs more than planning a few nodes
    const size_t available = AvailableMemory();
    limit = available > SIZE_MAX - waiting ? SIZE_MAX : available + waiting;
  }
  if (need <= limit) return OkStatus();
  return Errorf(
      Code::kRuntime,
      "running model \"%s\" with these shapes needs %zu bytes (%zu for activations, %zu for inputs and "
      "outputs); allowed are %zu (%s).",
      graph_.name.c_str(), need, memory_.arena_bytes, io_bytes_, limit,
      GetKnobs().memory_limit > 0 ? "OPSNN_MEMORY_LIMIT" : "the memory available");
}

void* Prepared::AddressOf(ValueId v) const {
  if (v == kNoValue) return nullptr;
  const Buffer& b = memory_.buffers[memory_.buffer_of[v]];
  char* base = nullptr;
  switch (b.kind) {
    case BufferKind::kArena:
      base = arena_ + b.offset;
      break;
    case BufferKind::kInput:
      base = static_cast<char*>(io_[b.index]);
      break;
    case BufferKind::kOutput:
      base = static_cast<char*>(io_[graph_.inputs.size() + b.index]);
      break;
    case BufferKind::kConstant: {
      const Value& c = graph_.values[b.constant];
      base = (c.stored ? c.stored : c.desc.constant)->as<char>();
      break;
    }
  }
  return base + memory_.offset_of[v];
}

// Constants have their addresses from now on; arena, inputs and outputs get theirs before a run.
void Prepared::Bind() {
  io_.assign(graph_.inputs.size() + graph_.outputs.size(), nullptr);
  const auto add = [&](ValueId v) {
    const size_t slot = pointers_.size();
    pointers_.push_back(nullptr);
    if (v == kNoValue) return;
    const Buffer& b = memory_.buffers[memory_.buffer_of[v]];
    const size_t index = static_cast<size_t>(b.index), offset = memory_.offset_of[v];
    switch (b.kind) {
      case BufferKind::kArena:
        arena_patches_.push_back({slot, 0, b.offset + offset});
        break;
      case BufferKind::kInput:
        io_patches_.push_back({slot, index, offset});
        break;
      case BufferKind::kOutput:
        io_patches_.push_back({slot, graph_.inputs.size() + index, offset});
        break;
      case BufferKind::kConstant:
        pointers_[slot] = AddressOf(v);
        break;
    }
  };
  for (const Step& s : steps_) {
    const Node& n = graph_.nodes[s.node];
    Range r{pointers_.size(), 0};
    for (ValueId v : n.inputs) add(v);
    r.outputs = pointers_.size();
    for (ValueId v : n.outputs) add(v);
    ranges_.push_back(r);
  }
}

void Prepared::Rebase(char* arena) const {
  if (arena == arena_) return;
  arena_ = arena;
  for (const Patch& p : arena_patches_) pointers_[p.slot] = arena + p.offset;
}

int64_t Prepared::bytes_moved() const {
  int64_t bytes = 0;
  for (const Step& s : steps_) bytes += s.bytes_moved;
  return bytes;
}

int Prepared::nodes_run() const {
  return static_cast<int>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& s) { return s.kernel != nullptr; }));
}

// ---- running

Status Prepared::Capture(const Step& step, const RunOptions& options) const {
  const Node& n = graph_.nodes[step.node];
  for (ValueId v : n.outputs) {
    if (v == kNoValue) continue;
    ConstTensor t = ToLogical(AddressOf(v), graph_.values[v].desc);
    if (!t)
      return Errorf(Code::kRuntime, "no memory to capture value \"%s\".", graph_.values[v].name.c_str());
    options.capture(n, graph_.values[v].name, std::move(t));
  }
  return OkStatus();
}

void Prepared::PrintTrace(const std::vector<double>& us) const {
  std::string text;
  for (size_t i = 0; i < steps_.size(); ++i)
    text += StrFormat("trace %10.1f us  %s %s: %s\n", us[i], graph_.nodes[steps_[i].node].op->name.c_str(),
                      graph_.nodes[steps_[i].node].name.c_str(), steps_[i].variant().c_str());
  std::fputs(text.c_str(), stderr);
}

Status Prepared::RunSteps(const RunOptions& options, std::vector<double>* step_us) const {
  using Clock = std::chrono::steady_clock;
  const KeepPoolAwake awake;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    if (s.kernel) {
      const op::RunArgs args{
          pointers_.data() + ranges_[i].inputs, pointers_.data() + ranges_[i].outputs,
          s.kernel->workspace_bytes() > 0 ? arena_ + memory_.workspace_offset[i] : nullptr};
      const auto begin = step_us ? Clock::now() : Clock::time_point();
      const Status status = s.kernel->Run(args);
      if (step_us) (*step_us)[i] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      if (!status.ok()) return status.WithContext("node \"" + graph_.nodes[s.node].name + "\"");
    }
    if (options.capture) OPSNN_RETURN_IF_ERROR(Capture(s, options));
  }
  return OkStatus();
}

Result<std::vector<ConstTensor>> Prepared::Run(std::span<const FeedView> feeds, const RunOptions& options,
                                               std::vector<double>* step_us) const {
  std::vector<ConstTensor> outputs(graph_.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& value = graph_.values[graph_.outputs[i]];
    if (i < options.outputs.size() && options.outputs[i].data &&
        options.outputs[i].dtype == value.desc.dtype && options.outputs[i].dims == value.desc.dims)
      continue;
    outputs[i] = std::make_shared<HostTensor>(value.desc.dtype, value.desc.dims);
    if (!outputs[i]->ok()) return Errorf(Code::kRuntime, "no memory for output \"%s\".", value.name.c_str());
  }
  const std::lock_guard lock(mutex_);
  // One operator from feeds to outputs needs none of it.
  const bool needs_arena = memory_.arena_bytes > 0 || !arena_patches_.empty();
  Arena arena;
  if (needs_arena) {
    arena = arenas_->Take(memory_.arena_bytes);
    if (!arena.data())
      return Errorf(Code::kRuntime, "model \"%s\": no memory for an arena of %zu bytes.", graph_.name.c_str(),
                    memory_.arena_bytes);
    Rebase(arena.data());
  }
  for (size_t i = 0; i < feeds.size(); ++i) io_[i] = const_cast<void*>(feeds[i].data);  // never written
  for (size_t i = 0; i < outputs.size(); ++i)
    io_[feeds.size() + i] = outputs[i] ? outputs[i]->data() : options.outputs[i].data;
  for (const Patch& p : io_patches_) pointers_[p.slot] = static_cast<char*>(io_[p.io]) + p.offset;

  const bool trace = VerboseHas("trace");
  std::vector<double> traced;
  if (trace && !step_us) step_us = &traced;
  if (step_us) step_us->assign(steps_.size(), 0);
  const Status status = RunSteps(options, step_us);
  if (status.ok())
    for (const auto& [v, index] : memory_.output_copies)
      if (const size_t bytes = StoredBytes(graph_.values[graph_.outputs[index]].desc))
        std::memcpy(io_[feeds.size() + static_cast<size_t>(index)], AddressOf(v), bytes);
  if (needs_arena) arenas_->Give(std::move(arena));
  if (!status.ok()) return status;
  if (trace) PrintTrace(*step_us);
  return outputs;
}

}  // namespace opsnn::graph
