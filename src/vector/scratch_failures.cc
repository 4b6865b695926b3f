#include "vector/scratch_failures.h"

#include <atomic>

namespace opsnn::vector {
namespace {

std::atomic<uint64_t> failures{0};

}  // namespace

uint64_t ScratchFailures() { return failures.load(std::memory_order_relaxed); }
void NoteScratchFailure() { failures.fetch_add(1, std::memory_order_relaxed); }

}  // namespace opsnn::vector
