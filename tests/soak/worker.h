// What a thread of the hammer does.
#ifndef TESTS_SOAK_WORKER_H_
#define TESTS_SOAK_WORKER_H_

#include <atomic>
#include <string>
#include <vector>

#include "soak/case.h"

namespace opsnn::soak {

struct Shared {
  explicit Shared(const std::vector<Case>& all) : cases(all) {}
  const std::vector<Case>& cases;
  std::atomic<bool> stop{false}, failed{false};
  std::atomic<int64_t> calls{0};
};

// Runs the case on this thread alone, keeps its outputs as those that are wanted, and compares them with the
// reference; "" or what is wrong.
std::string Settle(Case& c);

// Calls until told to stop; says on standard error what is wrong.
void Work(Shared& shared, int streams, uint64_t seed);

}  // namespace opsnn::soak

#endif  // TESTS_SOAK_WORKER_H_
