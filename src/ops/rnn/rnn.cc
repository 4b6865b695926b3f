#include <algorithm>

#include "ops/rnn/recurrent.h"

OPSNN_DEFINE_OPERATOR(RNN) {
  DefineRecurrent(def, "RNN", {1, {RnnActivation::kTanh}, false}, [](const op::Attrs&) -> RnnCell {
    return [](const RnnStep& s) {
      for (size_t i = 0; i < s.gates.size(); ++i) s.gates[i] += s.w.recurrent_bias[i];
      s.AddRecurrent(s.h, 0, 1, &s.gates);
      for (size_t i = 0; i < s.h.size(); ++i) s.h[i] = s.w.activations[0](s.g.Clipped(s.gates[i]));
    };
  });
}
