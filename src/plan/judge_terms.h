// What all judges share: adding up terms, comparing, wording the reason.
#ifndef OPSNN_PLAN_JUDGE_TERMS_H_
#define OPSNN_PLAN_JUDGE_TERMS_H_

#include <string>

#include "base/knobs.h"
#include "device/profile.h"
#include "plan/decision.h"
#include "program/program.h"

namespace opsnn::plan {

// Gives a verdict that costs do not enter; always true, so that a caller can return it.
bool Rule(Decision& d, Verdict v, std::string reason);
// Times, benefit and threshold from the terms. The threshold is the knob's share of the split time, but never
// less than the grey zone in which the model cannot tell.
void SumUp(const Knobs& knobs, Decision& d);
// The verdict by benefit against threshold; `context` ends the reason. Also finds out whether the verdict
// would be another one without the terms that rest on assumed fields.
void DecideByCost(const Knobs& knobs, const device::DeviceProfile& p, const std::string& context,
                  Decision& d);
// "epilogue" blocks named after the chain's last stage: "epilogue:gelu_erf".
void NameEpilogueBlocks(const Program* tail, Decision& d);
std::string SizeText(int64_t bytes);  // "1.5 MiB"

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_JUDGE_TERMS_H_
