// Element types are part of the public C++ API.
#ifndef OPSNN_BASE_DTYPE_H_
#define OPSNN_BASE_DTYPE_H_
#include "opsnn/dtype.h"  // IWYU pragma: export
#endif                    // OPSNN_BASE_DTYPE_H_
