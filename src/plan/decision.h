// Decision records are part of the public C++ API.
#ifndef OPSNN_PLAN_DECISION_H_
#define OPSNN_PLAN_DECISION_H_
#include "opsnn/decision.h"  // IWYU pragma: export
#endif                       // OPSNN_PLAN_DECISION_H_
