#include "vector/scratch_failures.h"

#include <atomic>

namespace opsnn::vector {
namespace {

std::atomic<uint64_t> failures{0};

}  // namespace

uint64_t ScratchFailures() { return failures.load(std::memory_order_relaxed); }
void NoteScratchFailure() { failures.fetch_add(1, std::memory_order_relaxed); }

Status ScratchCheck::Check(const char* what) const {
  if (ScratchFailures() == before_) return OkStatus();
  return Errorf(Code::kRuntime, "%s: no memory for its scratch.", what);
}

}  // namespace opsnn::vector
