#include "observe/compare.h"

#include <cmath>
#include <limits>

namespace opsnn::observe {

Comparison Compare(const std::vector<double>& got, const std::vector<double>& want,
                   const std::vector<double>& bound) {
  Comparison c;
  double dot = 0, gg = 0, ww = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = got[i], w = want[i];
    double share = 0;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      const bool same = (std::isnan(g) && std::isnan(w)) || g == w;
      share = same ? 0 : std::numeric_limits<double>::infinity();
    } else {
      const double error = std::fabs(g - w);
      dot += g * w;
      gg += g * g;
      ww += w * w;
      c.max_abs = std::fmax(c.max_abs, error);
      if (w != 0) c.max_rel = std::fmax(c.max_rel, error / std::fabs(w));
      share = error == 0 ? 0 : error / bound[i];
    }
    if (share > c.share || c.worst < 0) {
      c.share = share;
      c.bound = bound[i];
      c.worst = static_cast<int64_t>(i);
    }
  }
  if (gg > 0 && ww > 0)
    c.cosine = dot / (std::sqrt(gg) * std::sqrt(ww));
  else if (gg != ww)
    c.cosine = 0;
  return c;
}

}  // namespace opsnn::observe
