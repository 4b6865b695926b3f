// What ran, what was fused and what that gained, printed for a reader.
#ifndef EXAMPLES_OCR_REPORT_H_
#define EXAMPLES_OCR_REPORT_H_

#include <string>
#include <vector>

#include "ocr/pipeline.h"

namespace ocr {

// Prints the hottest nodes over all feeds, the fusion verdicts per model, and fused against unfused times
// (medians of `runs`, in turns).
opsnn::Status PrintReport(Pipeline& fused, Pipeline& unfused, const std::vector<Feed>& feeds, int runs);

}  // namespace ocr

#endif  // EXAMPLES_OCR_REPORT_H_
