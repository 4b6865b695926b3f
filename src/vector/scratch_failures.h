// How programs report that there was no memory for their scratch: running is void, so the failure is counted
// and the results are left unwritten. Whoever can return a status compares the count before and after; a
// failure of another thread in between fails this call as well, which is as true.
#ifndef OPSNN_VECTOR_SCRATCH_FAILURES_H_
#define OPSNN_VECTOR_SCRATCH_FAILURES_H_

#include <cstdint>

#include "base/status.h"

namespace opsnn::vector {

uint64_t ScratchFailures();
void NoteScratchFailure();

// From its construction to Check: an error that names `what` if there was no memory in between.
class ScratchCheck {
 public:
  Status Check(const char* what) const;

 private:
  uint64_t before_ = ScratchFailures();
};

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_SCRATCH_FAILURES_H_
