// Direct calls ask the judge about what stands behind a matrix product, as models do.
#ifndef OPSNN_CAPI_JUDGE_TAIL_H_
#define OPSNN_CAPI_JUDGE_TAIL_H_

#include <memory>

#include "capi/plan.h"
#include "plan/judge.h"

namespace opsnn::capi {

// The judge's answer for this host under the knobs; OPSNN_VERBOSE=plan prints it. Gives e its chain's name.
std::shared_ptr<const plan::Decision> JudgeProduct(const char* api, plan::ContractionEdge e);

// Where the call is a product with a program behind it: keeps them together, by regions where that is the
// verdict, or makes the program a pass of its own over the product in f32. Bits are the same either way.
Status JudgeTail(const char* api, OpCall* call);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_JUDGE_TAIL_H_
