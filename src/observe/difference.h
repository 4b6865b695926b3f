// Do the fused and the unfused form of a model agree on the values that both have?
#ifndef OPSNN_OBSERVE_DIFFERENCE_H_
#define OPSNN_OBSERVE_DIFFERENCE_H_

#include <string>
#include <vector>

#include "base/knobs.h"
#include "observe/recompute.h"

namespace opsnn::observe {

struct Difference {
  std::string value, node;      // "" : none
  std::string text;             // a sentence
  std::vector<double> allowed;  // by element; empty: bit by bit
};

// True where the two values differ by more than `allowed`, or by any bit where that is empty.
bool Differs(const HostTensor& a, const HostTensor& b, const std::vector<double>& allowed, std::string* text);

// Follows the unfused run step by step. `recomputer` works on that run.
class DifferenceTracker {
 public:
  DifferenceTracker(const Form& fused, const Form& unfused, NumericsPolicy policy, Recomputer& recomputer)
      : fused_(fused), unfused_(unfused), policy_(policy), recomputer_(recomputer) {}

  // After the recomputer evaluated the step's nodes: compares its values with the fused run's and notes their
  // differences, for the steps that read them.
  void Step(const graph::Node& node, const std::vector<std::string>& values);
  const Difference& first() const { return first_; }

 private:
  const Form& fused_;
  const Form& unfused_;
  const NumericsPolicy policy_;
  Recomputer& recomputer_;
  Difference first_;
};

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_DIFFERENCE_H_
