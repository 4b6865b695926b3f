// Comparing a computed tensor with its reference: the figures every report shows.
#ifndef OPSNN_OBSERVE_COMPARE_H_
#define OPSNN_OBSERVE_COMPARE_H_

#include <cstdint>
#include <vector>

namespace opsnn::observe {

struct Comparison {
  double cosine = 1;  // 1 when both are all zero
  double max_abs = 0, max_rel = 0;
  double share = 0;    // max of |got - want| / bound; infinite where NaN or Inf do not match
  double bound = 0;    // at that element
  int64_t worst = -1;  // its index
};

// bound[i] is the allowed |got - want|; NaN equals NaN and an infinity equals itself.
Comparison Compare(const std::vector<double>& got, const std::vector<double>& want,
                   const std::vector<double>& bound);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_COMPARE_H_
