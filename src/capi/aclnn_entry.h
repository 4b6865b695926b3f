/* What libopsnn offers the thin operator libraries: the two phases of any aclnn function, its arguments
   packed in the order of its prototype. */
#ifndef OPSNN_CAPI_ACLNN_ENTRY_H_
#define OPSNN_CAPI_ACLNN_ENTRY_H_

#include <cstdint>

#include "aclnn/acl_meta.h"

#define OPSNN_ENTRY extern "C" __attribute__((visibility("default")))

struct OpsnnFunction;  // an implemented aclnn function

union OpsnnArg {
  const void* p;  // pointers: tensors, scalars, arrays, lists, strings
  int64_t i;      // integers, booleans, enums
  double d;       // float, double
};

// Null when no operator serves the function.
OPSNN_ENTRY const OpsnnFunction* opsnn_aclnn_find(const char* api);
OPSNN_ENTRY aclnnStatus opsnn_aclnn_plan(const OpsnnFunction* function, const OpsnnArg* args, int num_args,
                                         uint64_t* workspace_size, aclOpExecutor** executor);
OPSNN_ENTRY aclnnStatus opsnn_aclnn_run(const OpsnnFunction* function, void* workspace,
                                        uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

// Functions that are declared only: a status and a message.
OPSNN_ENTRY aclnnStatus opsnn_aclnn_declared(const char* function, uint64_t* workspace_size,
                                             aclOpExecutor** executor);
OPSNN_ENTRY aclnnStatus opsnn_aclnn_unsupported(const char* function);
OPSNN_ENTRY aclError opsnn_acl_unsupported(const char* function);
// What aclAppLog formatted; debug and info lines are dropped.
OPSNN_ENTRY void opsnn_acl_log(int level, const char* function, const char* file, uint32_t line,
                               const char* text);

#endif  // OPSNN_CAPI_ACLNN_ENTRY_H_
