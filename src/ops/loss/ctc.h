// What CtcLoss and its gradient share: the sequences, and the labels with blanks around them.
#ifndef OPSNN_OPS_LOSS_CTC_H_
#define OPSNN_OPS_LOSS_CTC_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {

struct CtcShape {
  int64_t times = 0, batch = 0, classes = 0, width = 0, blank = 0;
  bool zero_infinity = false;
  std::vector<int64_t> input_lengths, target_lengths, target_starts;
  int64_t targets = 0;  // elements

  static CtcShape Of(const op::Attrs& attrs, const Dims& log_probs, const Dims& targets, int64_t width) {
    CtcShape s;
    s.times = log_probs[0], s.batch = log_probs[1], s.classes = log_probs[2], s.width = width;
    s.blank = attrs.Int("blank", 0);
    s.zero_infinity = attrs.Int("zero_infinity", 0) != 0;
    s.input_lengths = attrs.Ints("input_lengths");
    s.target_lengths = attrs.Ints("target_lengths");
    s.targets = NumElements(targets);
    int64_t at = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      s.target_starts.push_back(targets.rank() == 2 ? n * targets[1] : at);
      at += s.target_lengths[static_cast<size_t>(n)];
    }
    return s;
  }

  // Are all targets that count labels of classes?
  Status CheckTargets(const char* op, const int64_t* labels) const {
    for (size_t n = 0; n < target_starts.size(); ++n) {
      for (int64_t i = 0; i < target_lengths[n]; ++i) {
        const int64_t label = labels[target_starts[n] + i];
        if (label >= 0 && label < classes) continue;
        return InvalidArgument("%s: targets: label %lld of sequence %lld is %lld; allowed: 0 to %lld", op,
                               static_cast<long long>(i), static_cast<long long>(n),
                               static_cast<long long>(label), static_cast<long long>(classes - 1));
      }
    }
    return OkStatus();
  }
};

// Label s of a sequence with blanks in front, between and behind.
struct CtcLabels {
  const int64_t* labels;
  int64_t length, blank;
  int64_t states() const { return 2 * length + 1; }
  int64_t operator[](int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  // May state s be reached from s - 2, over the blank in between?
  bool Skips(int64_t s) const { return s >= 2 && s % 2 == 1 && (*this)[s] != (*this)[s - 2]; }
};

// log(exp(a) + exp(b)).
template <typename T>
T LogAdd(T a, T b) {
  const T high = std::max(a, b), low = std::min(a, b);
  if (high == -std::numeric_limits<T>::infinity()) return high;
  return high + std::log1p(std::exp(low - high));
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_LOSS_CTC_H_
