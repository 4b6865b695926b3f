#include "observe/bisect.h"

namespace opsnn::observe {
namespace {

// The failing session's options with the passes from `first_off` on switched off.
graph::SessionOptions WithoutTail(const graph::SessionOptions& from, size_t first_off) {
  graph::SessionOptions options = from;
  const std::vector<std::string> names = graph::PassNames();
  for (size_t i = first_off; i < names.size(); ++i) {
    if (graph::ListHas(options.passes_off, names[i])) continue;
    options.passes_off += (options.passes_off.empty() ? "" : ",") + names[i];
  }
  return options;
}

}  // namespace

Result<std::string> FindGuiltyPass(const graph::Session& failing, const Shows& shows) {
  const std::vector<std::string> names = graph::PassNames();
  auto fails = [&](size_t first_off) -> Result<bool> {
    OPSNN_ASSIGN_OR_RETURN(
        auto session, graph::Session::Create(failing.imported(), WithoutTail(failing.options(), first_off)));
    return shows(*session);
  };
  OPSNN_ASSIGN_OR_RETURN(const bool without_all, fails(0));
  OPSNN_ASSIGN_OR_RETURN(const bool with_all, fails(names.size()));
  if (without_all || !with_all) return std::string();
  // The failure shows with the first `bad` passes and not with the first `good`.
  size_t good = 0, bad = names.size();
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    OPSNN_ASSIGN_OR_RETURN(const bool f, fails(middle));
    (f ? bad : good) = middle;
  }
  return names[good];
}

}  // namespace opsnn::observe
