#include <algorithm>

#include "ops/rnn/recurrent.h"

// Gates in the order input, output, forget, candidate; peepholes input, output, forget.
OPSNN_DEFINE_OPERATOR(LSTM) {
  DefineRecurrent(
      def, "LSTM", {4, {RnnActivation::kSigmoid, RnnActivation::kTanh, RnnActivation::kTanh}, true},
      [](const op::Attrs& attrs) -> RnnCell {
        return [coupled = attrs.Int("input_forget", 0) != 0](const RnnStep& s) {
          for (size_t i = 0; i < s.gates.size(); ++i) s.gates[i] += s.w.recurrent_bias[i];
          s.AddRecurrent(s.h, 0, 4, &s.gates);
          const auto &f = s.w.activations[0], &g = s.w.activations[1], &h = s.w.activations[2];
          const auto n = static_cast<size_t>(s.g.hidden);
          for (size_t i = 0; i < n; ++i) {
            const double c = s.c[i];
            const double in = f(s.g.Clipped(s.gates[i] + s.w.peephole[i] * c));
            const double forget =
                coupled ? 1 - in : f(s.g.Clipped(s.gates[2 * n + i] + s.w.peephole[2 * n + i] * c));
            s.c[i] = forget * c + in * g(s.g.Clipped(s.gates[3 * n + i]));
            const double out = f(s.g.Clipped(s.gates[n + i] + s.w.peephole[n + i] * s.c[i]));
            s.h[i] = out * h(s.c[i]);
          }
        };
      });
}
