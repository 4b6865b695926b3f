// Regret of the judge: both forms of a product with a pointwise tail, measured in turns.
#ifndef OPSNN_OBSERVE_JUDGE_REGRET_H_
#define OPSNN_OBSERVE_JUDGE_REGRET_H_

#include <functional>

#include "opsnn/planner.h"

namespace opsnn::observe {

Result<JudgeReport> MeasureJudge(int runs, const std::function<void(int, int)>& progress,
                                 const JudgePoints& which);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_JUDGE_REGRET_H_
