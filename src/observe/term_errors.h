// How far the cost model is off, term by term: what each term predicts beside what runs alone.
#ifndef OPSNN_OBSERVE_TERM_ERRORS_H_
#define OPSNN_OBSERVE_TERM_ERRORS_H_

#include <vector>

#include "opsnn/planner.h"

namespace opsnn::observe {

// On this host; `runs` timed runs of each thing, in turns where several are compared.
Result<std::vector<TermError>> MeasureTerms(int runs);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_TERM_ERRORS_H_
