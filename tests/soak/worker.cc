#include "soak/worker.h"

#include <cstdio>
#include <cstring>
#include <memory>

namespace opsnn::soak {
namespace {

// A call whose memory is its own, with results on their way back to the host.
class Flight {
 public:
  explicit Flight(const Case& c) : case_(c) {}
  ~Flight() {
    for (void* p : device_) aclrtFree(p);
    if (workspace_) aclrtFree(workspace_);
    if (model_) aclmdlRIDestroy(model_);
    if (kept_) aclDestroyAclOpExecutor(kept_);
  }
  Flight(const Flight&) = delete;

  // The streams that carry inputs, the call, and results; where they differ, events put them in order.
  struct Way {
    aclrtStream up, call, down;
    bool capture = false, twice = false;
  };
  // "" or the call that failed.
  std::string Start(const Way& way);
  // Everything has been waited for: "" or which result is wrong.
  std::string Compare() const;
  // Makes the results those that are wanted.
  void Take(Case& c) {
    for (size_t k = 0; k < results_.size(); ++k) c.operands[k].want = results_[k];
  }

 private:
  std::string Failed(const char* what) const {
    const char* message = aclGetRecentErrMsg();
    return std::string(case_.row->api) + ": " + what + " failed: " + (message ? message : "no message");
  }
  bool Allocate();
  bool Upload(aclrtStream stream);
  static bool Order(aclrtStream first, aclrtStream then);
  std::string Launch(Call& call, const Way& way);

  const Case& case_;
  std::vector<void*> device_;
  std::vector<std::string> results_;  // by operand
  void* workspace_ = nullptr;
  aclmdlRI model_ = nullptr;
  aclOpExecutor* kept_ = nullptr;
};

bool Flight::Allocate() {
  for (const Operand& o : case_.operands) {
    void* p = nullptr;
    const size_t bytes = std::max(o.bytes.size(), o.want.size());
    if (aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST)) return false;
    device_.push_back(p);
  }
  return true;
}

bool Flight::Upload(aclrtStream stream) {
  for (size_t k = 0; k < device_.size(); ++k) {
    const Operand& o = case_.operands[k];
    const std::string& bytes = o.bytes;
    const int code = o.input ? aclrtMemcpyAsync(device_[k], bytes.size(), bytes.data(), bytes.size(),
                                                ACL_MEMCPY_HOST_TO_DEVICE, stream)
                             : aclrtMemsetAsync(device_[k], o.want.size(), 0xCD, o.want.size(), stream);
    if (code) return false;
  }
  return true;
}

bool Flight::Order(aclrtStream first, aclrtStream then) {
  if (first == then) return true;
  aclrtEvent event = nullptr;
  return !aclrtCreateEvent(&event) && !aclrtRecordEvent(event, first) && !aclrtStreamWaitEvent(then, event) &&
         !aclrtDestroyEvent(event);
}

std::string Flight::Launch(Call& call, const Way& way) {
  if (way.capture && aclmdlRICaptureBegin(way.call, ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
    return Failed("a capture");
  // What is computed twice is the same: inputs that are outputs as well are loaded again in between.
  for (int n = 0; n < (way.twice ? 2 : 1); ++n) {
    if (n > 0 && !Upload(way.call)) return Failed("a copy");
    if (call.Run(workspace_, way.call)) return Failed("phase two");
  }
  if (!way.capture) return "";
  if (aclmdlRICaptureEnd(way.call, &model_)) return Failed("the end of a capture");
  return aclmdlRIExecuteAsync(model_, way.call) ? Failed("a replay") : "";
}

std::string Flight::Start(const Way& way) {
  if (!Allocate()) return Failed("aclrtMalloc");
  if (!Upload(way.up) || !Order(way.up, way.call)) return Failed("a copy");
  Call call(case_, device_);
  if (call.Plan()) return Failed("phase one");
  if (way.twice) {
    if (aclSetAclOpExecutorRepeatable(call.executor())) return Failed("aclSetAclOpExecutorRepeatable");
    kept_ = call.executor();
  }
  if (call.workspace_bytes() && aclrtMalloc(&workspace_, call.workspace_bytes(), ACL_MEM_MALLOC_HUGE_FIRST)) {
    return Failed("a workspace");
  }
  if (std::string failed = Launch(call, way); !failed.empty()) return failed;
  if (!Order(way.call, way.down)) return Failed("an event");
  results_.resize(device_.size());  // at once: copies are on their way into them
  for (size_t k = 0; k < device_.size(); ++k) {
    const size_t bytes = case_.operands[k].want.size();
    results_[k].assign(bytes, '\0');
    if (bytes &&
        aclrtMemcpyAsync(results_[k].data(), bytes, device_[k], bytes, ACL_MEMCPY_DEVICE_TO_HOST, way.down)) {
      return Failed("a copy");
    }
  }
  return "";
}

std::string Flight::Compare() const {
  for (size_t k = 0; k < results_.size(); ++k) {
    const std::string& want = case_.operands[k].want;
    if (results_[k] == want) continue;
    size_t at = 0;
    while (results_[k][at] == want[at]) ++at;
    return std::string(case_.row->api) + ": byte " + std::to_string(at) + " of " +
           std::to_string(want.size()) + " of operand " + std::to_string(k) +
           " differs from what one thread got";
  }
  return "";
}

class Worker {
 public:
  Worker(Shared& shared, int streams, uint64_t seed)
      : shared_(shared), rng_(seed), streams_(static_cast<size_t>(streams)) {}

  std::string Run() {
    if (aclrtSetDevice(0)) return "aclrtSetDevice failed";
    for (aclrtStream& s : streams_) {
      if (aclrtCreateStream(&s)) return "aclrtCreateStream failed";
    }
    std::string wrong;
    while (wrong.empty() && !shared_.stop && !shared_.failed) wrong = Batch();
    for (aclrtStream s : streams_) {
      if (aclrtDestroyStream(s) && wrong.empty()) wrong = "aclrtDestroyStream failed";
    }
    aclrtResetDevice(0);
    return wrong;
  }

 private:
  aclrtStream Any() {
    return streams_[static_cast<size_t>(rng_.Int(0, static_cast<int64_t>(streams_.size()) - 1))];
  }

  Flight::Way Way() {
    Flight::Way way{};
    way.up = way.call = way.down = Any();
    if (rng_.Chance(0.4)) way.up = Any(), way.down = Any();
    way.capture = rng_.Chance(0.1);
    way.twice = rng_.Chance(0.1);
    return way;
  }

  // Calls that are all under way together, then waited for in one of several manners.
  std::string Batch() {
    constexpr int64_t kMostInFlight = 24;
    std::vector<std::unique_ptr<Flight>> flights;
    for (int64_t n = rng_.Int(1, kMostInFlight); n > 0; --n) {
      const auto pick = rng_.Int(0, static_cast<int64_t>(shared_.cases.size()) - 1);
      flights.push_back(std::make_unique<Flight>(shared_.cases[static_cast<size_t>(pick)]));
      if (std::string failed = flights.back()->Start(Way()); !failed.empty()) return Abandon(failed);
    }
    // The device's default stream and the other threads' are waited for as well, now and then.
    if (rng_.Chance(0.05) && aclrtSynchronizeDevice()) return "aclrtSynchronizeDevice failed";
    for (aclrtStream s : streams_) {
      if (aclrtSynchronizeStream(s)) return "aclrtSynchronizeStream failed";
    }
    for (const auto& f : flights) {
      if (std::string wrong = f->Compare(); !wrong.empty()) return wrong;
    }
    shared_.calls += static_cast<int64_t>(flights.size());
    if (rng_.Chance(0.05)) return Renew();
    return "";
  }

  // Copies into what is about to be freed must be over.
  std::string Abandon(const std::string& failed) {
    for (aclrtStream s : streams_) aclrtSynchronizeStream(s);
    return failed;
  }

  std::string Renew() {
    aclrtStream& s = streams_.front();
    if (aclrtDestroyStream(s) || aclrtCreateStream(&s)) return "a new stream failed";
    std::swap(s, streams_.back());
    return "";
  }

  Shared& shared_;
  testing::Rng rng_;
  std::vector<aclrtStream> streams_;
};

}  // namespace

std::string Settle(Case& c) {
  Flight flight(c);
  std::string failed = flight.Start({nullptr, nullptr, nullptr});
  if (aclrtSynchronizeStream(nullptr) && failed.empty()) failed = std::string(c.row->api) + " failed";
  if (!failed.empty()) return failed;
  flight.Take(c);
  return CheckReference(c);
}

void Work(Shared& shared, int streams, uint64_t seed) {
  const std::string wrong = Worker(shared, streams, seed).Run();
  if (wrong.empty()) return;
  shared.failed = true;
  std::fprintf(stderr, "hammer: %s\n", wrong.c_str());
}

}  // namespace opsnn::soak
