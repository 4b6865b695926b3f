#include "runtime/check.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "runtime/memory.h"

namespace opsnn::runtime {
namespace {

uint32_t ModesFromEnvironment() {
  const char* text = std::getenv("OPSNN_CHECK");
  std::string_view rest = text ? text : "";
  uint32_t modes = 0;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    if (word == "memory") {
      modes |= kCheckMemory;
    } else if (word == "sync") {
      modes |= kCheckSync;
    } else if (word == "leak") {
      modes |= kCheckLeak;
    }  // other words are errors of InitKnobs
  }
  return modes;
}

using Clock = std::map<int, uint64_t>;  // newest task known, by stream

void Join(Clock* into, const Clock& from) {
  for (const auto& [stream, task] : from) {
    uint64_t& known = (*into)[stream];
    known = std::max(known, task);
  }
}

struct Past {
  MemoryAccess access;
  int stream;
  uint64_t task;
  const char* function;
};

constexpr size_t kFrames = 12;
struct Object {
  const char* what;
  size_t bytes;
  int depth;
  void* frames[kFrames];
};

struct State {
  std::mutex mutex;
  std::vector<std::string> findings;
  std::map<const char*, size_t> mapped;
  Clock host;
  std::map<int, Clock> streams;
  std::map<uint32_t, Clock> events;
  struct Notify {
    Clock recorded;
    int64_t records_ahead = 0;  // of waits; below 0: waits that are ahead
  };
  std::map<uint32_t, Notify> notifies;
  std::set<int> unknown_order;  // streams
  std::vector<Past> past;       // accesses that the host has not waited for
  std::map<const void*, Object> objects;
};
State& Get() {
  static auto* state = new State;  // used until the process ends
  return *state;
}

std::string Describe(const MemoryAccess& a) {
  return StrFormat("%s at %p (%zu bytes)", a.argument, a.low,
                   static_cast<size_t>(static_cast<const char*>(a.high) - static_cast<const char*>(a.low)));
}

bool Clash(const MemoryAccess& a, const MemoryAccess& b) {
  if (!a.write && !b.write) return false;
  if (a.low >= b.high || b.low >= a.high) return false;
  // Strided views may interleave without sharing a byte.
  return (a.dense && b.dense) || (a.low == b.low && a.high == b.high);
}

void ReportLocked(State& s, const char* kind, const std::string& text) {
  const std::string line = StrFormat("check: %s: ", kind) + text;
  std::fprintf(stderr, "%s\n", line.c_str());
  s.findings.push_back(line);
}

// Forgets accesses that the host knows to be over: nothing later can clash with them.
void ForgetKnown(State& s) {
  std::erase_if(s.past, [&](const Past& p) {
    const auto it = s.host.find(p.stream);
    return it != s.host.end() && it->second >= p.task;
  });
}

// The first caller outside of this library, as "file(function+offset)".
std::string Maker(const Object& o) {
  char** names = backtrace_symbols(o.frames, o.depth);
  std::string text = "an unknown place";
  for (int i = 0; names && i < o.depth; ++i) {
    const std::string_view name = names[i];
    const bool ours = name.find("libopsnn") != name.npos || name.find("libascendcl") != name.npos ||
                      name.find("libnnopbase") != name.npos || name.find("libopapi") != name.npos;
    if (ours) continue;
    text = name;
    break;
  }
  std::free(names);
  return text;
}

}  // namespace

std::atomic<uint32_t> check_modes{ModesFromEnvironment()};

void ReportFinding(const char* kind, const std::string& text) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  ReportLocked(s, kind, text);
}

std::vector<std::string> TakeFindings() {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  return std::exchange(s.findings, {});
}

void CheckDevicePointer(const char* function, const char* argument, const void* p, int64_t bytes) {
  if (!p || bytes <= 0) return;
  const auto block = FindBlock(p);
  if (block && block->kind == MemoryKind::kDevice) return;
  State& s = Get();
  std::lock_guard lock(s.mutex);
  auto it = s.mapped.upper_bound(static_cast<const char*>(p));
  if (it != s.mapped.begin() && static_cast<const char*>(p) < std::prev(it)->first + std::prev(it)->second)
    return;
  ReportLocked(s, "memory",
               StrFormat("%s: %s at %p (%lld bytes) is %s; device memory comes from aclrtMalloc", function,
                         argument, p, static_cast<long long>(bytes),
                         block ? "pinned host memory" : "memory that the runtime did not allocate"));
}

void NoteMapped(const void* p, size_t bytes) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.mapped[static_cast<const char*>(p)] = bytes;
}

void NoteUnmapped(const void* p) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.mapped.erase(static_cast<const char*>(p));
}

void CheckTask(int stream, const char* function, const std::vector<MemoryAccess>& accesses) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  Clock& clock = s.streams[stream];
  Join(&clock, s.host);
  const uint64_t task = ++clock[stream];
  for (const MemoryAccess& a : accesses) {
    for (const Past& p : s.past) {
      if (p.stream == stream || clock[p.stream] >= p.task || !Clash(a, p.access)) continue;
      if (s.unknown_order.count(stream) || s.unknown_order.count(p.stream)) continue;
      ReportLocked(
          s, "sync",
          StrFormat("%s on stream %d %s %s while %s on stream %d, which nothing puts before it, %s %s",
                    function, stream, a.write ? "writes" : "reads", Describe(a).c_str(), p.function, p.stream,
                    p.access.write ? "writes" : "reads", Describe(p.access).c_str()));
    }
  }
  for (const MemoryAccess& a : accesses) {
    // What this one covers and follows tells nothing more.
    std::erase_if(s.past, [&](const Past& p) {
      return a.write && p.stream == stream && p.access.dense && a.dense && p.access.low >= a.low &&
             p.access.high <= a.high;
    });
    s.past.push_back({a, stream, task, function});
  }
}

void CheckHostAccess(const char* function, const MemoryAccess& a) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  for (const Past& p : s.past) {
    if (!Clash(a, p.access)) continue;
    ReportLocked(s, "sync",
                 StrFormat("%s %s %s while %s on stream %d %s %s; synchronize the stream first", function,
                           a.write ? "writes" : "reads", Describe(a).c_str(), p.function, p.stream,
                           p.access.write ? "writes" : "reads", Describe(p.access).c_str()));
    return;  // one is enough for a copy
  }
}

void CheckFreed(const char* function, const void* p, size_t bytes) {
  CheckHostAccess(function, {p, static_cast<const char*>(p) + bytes, true, true, "the memory"});
  State& s = Get();
  std::lock_guard lock(s.mutex);
  std::erase_if(s.past, [&](const Past& q) {
    return q.access.low >= p && q.access.low < static_cast<const char*>(p) + bytes;
  });
}

void NoteEventRecorded(uint32_t event, int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  Clock& clock = s.streams[stream];
  Join(&clock, s.host);
  s.events[event] = clock;
}

void NoteEventAwaited(uint32_t event, int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  Join(&s.streams[stream], s.events[event]);
}

void NoteEventReached(uint32_t event) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  Join(&s.host, s.events[event]);
  ForgetKnown(s);
}

void NoteNotifyRecorded(uint32_t notify, int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  State::Notify& n = s.notifies[notify];
  Join(&s.streams[stream], s.host);
  Join(&n.recorded, s.streams[stream]);
  ++n.records_ahead;
}

void NoteNotifyAwaited(uint32_t notify, int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  State::Notify& n = s.notifies[notify];
  if (--n.records_ahead < 0) s.unknown_order.insert(stream);
  Join(&s.streams[stream], n.recorded);
}

void NoteUnknownOrder(int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.unknown_order.insert(stream);
}

void NoteStreamDone(int stream) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.unknown_order.erase(stream);
  Join(&s.host, s.streams[stream]);
  ForgetKnown(s);
}

void NoteAllDone() {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  for (const auto& [stream, clock] : s.streams) Join(&s.host, clock);
  s.past.clear();
  s.unknown_order.clear();
}

void NoteMade(const char* what, const void* object, size_t bytes) {
  if (!object) return;
  Object o{what, bytes, 0, {}};
  o.depth = backtrace(o.frames, kFrames);
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.objects[object] = o;
}

void NoteEnded(const void* object) {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  s.objects.erase(object);
}

void ReportLeaks() {
  State& s = Get();
  std::lock_guard lock(s.mutex);
  for (const auto& [object, o] : s.objects) {
    const std::string size = o.bytes ? StrFormat(" of %zu bytes", o.bytes) : std::string();
    const bool executor = std::string_view(o.what) == "aclOpExecutor";
    ReportLocked(s, "leak",
                 StrFormat("%s %p%s is still alive%s; made in %s", o.what, object, size.c_str(),
                           executor ? ", phase two was never called" : "", Maker(o).c_str()));
  }
  s.objects.clear();
}

}  // namespace opsnn::runtime
