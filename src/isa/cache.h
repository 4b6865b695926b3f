// Prefetch and the fence behind streaming stores: hwy::Prefetch, hwy::FlushStream. No target needed.
#ifndef OPSNN_ISA_CACHE_H_
#define OPSNN_ISA_CACHE_H_

#include "hwy/cache_control.h"

#endif  // OPSNN_ISA_CACHE_H_
