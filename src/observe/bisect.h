// Which graph pass makes a model wrong?
#ifndef OPSNN_OBSERVE_BISECT_H_
#define OPSNN_OBSERVE_BISECT_H_

#include <functional>
#include <string>

#include "graph/session.h"

namespace opsnn::observe {

// Does a session of the same model with other passes show the failure?
using Shows = std::function<Result<bool>(graph::Session&)>;

// The passes run in the order of graph::PassNames(). Finds one such that the failure shows with it and all
// before it, and not with those before it alone; the passes behind it are off in both. "" when it shows with
// every pass off, which clears them all, or does not show again. Takes about log2(passes) runs.
Result<std::string> FindGuiltyPass(const graph::Session& failing, const Shows& shows);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_BISECT_H_
