// How programs report that there was no memory for their scratch: running is void, so the failure is counted
// and the results are left unwritten. Whoever can return a status compares the count before and after; a
// failure of another thread in between fails this call as well, which is as true.
#ifndef OPSNN_VECTOR_SCRATCH_FAILURES_H_
#define OPSNN_VECTOR_SCRATCH_FAILURES_H_

#include <cstdint>

namespace opsnn::vector {

uint64_t ScratchFailures();
void NoteScratchFailure();

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_SCRATCH_FAILURES_H_
