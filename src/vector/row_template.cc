#include "vector/compiled.h"
namespace opsnn::vector {
bool ExecuteRowTemplate(const CompiledProgram&, int64_t, int64_t, const BlockArg*, const ExecuteOptions&) {
  return false;
}
}  // namespace opsnn::vector
