#include "base/caught.h"

#include <new>
#include <stdexcept>

namespace opsnn {

Status CaughtStatus() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(Code::kRuntime, "there is not enough memory.");
  } catch (const std::length_error&) {  // of a container whose size overflows
    return Status(Code::kRuntime, "there is not enough memory.");
  } catch (...) {
    return Status(Code::kInternal, "something failed that should not: a fault of opsnn, please report it.");
  }
}

}  // namespace opsnn
