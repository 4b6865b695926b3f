#include <algorithm>

#include "ops/rnn/recurrent.h"

// Gates in the order update, reset, candidate.
OPSNN_DEFINE_OPERATOR(GRU) {
  DefineRecurrent(def, "GRU", {3, {RnnActivation::kSigmoid, RnnActivation::kTanh}, false},
                  [](const op::Attrs& attrs) -> RnnCell {
                    return [linear = attrs.Int("linear_before_reset", 0) != 0](const RnnStep& s) {
                      const auto n = static_cast<size_t>(s.g.hidden);
                      const auto &f = s.w.activations[0], &g = s.w.activations[1];
                      std::vector<double> recurrent = s.w.recurrent_bias;
                      s.AddRecurrent(s.h, 0, 2, &recurrent);
                      std::vector<double> update(n), reset(n), state = s.h;
                      for (size_t i = 0; i < n; ++i) {
                        update[i] = f(s.g.Clipped(s.gates[i] + recurrent[i]));
                        reset[i] = f(s.g.Clipped(s.gates[n + i] + recurrent[n + i]));
                        if (!linear) state[i] *= reset[i];
                      }
                      // The reset gate holds back the state, or what the product makes of it.
                      s.AddRecurrent(state, 2, 3, &recurrent);
                      for (size_t i = 0; i < n; ++i) {
                        const double r = recurrent[2 * n + i] * (linear ? reset[i] : 1);
                        const double candidate = g(s.g.Clipped(s.gates[2 * n + i] + r));
                        s.h[i] = (1 - update[i]) * candidate + update[i] * s.h[i];
                      }
                    };
                  });
}
