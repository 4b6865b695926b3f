// What a caught exception is for the user: a Status, never the text of the exception.
#ifndef OPSNN_BASE_CAUGHT_H_
#define OPSNN_BASE_CAUGHT_H_

#include "base/status.h"

namespace opsnn {

// Inside a catch block. Containers throw where there is no memory (kRuntime); anything else is a fault of our
// own (kInternal).
Status CaughtStatus();

// f() gives a Status or a Result; what it throws becomes one.
template <typename F>
auto NoThrow(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return CaughtStatus();
  }
}

}  // namespace opsnn

#endif  // OPSNN_BASE_CAUGHT_H_
