// What the recurrent layers share: their geometry, the weights as the steps want them, activations, and the
// walk through time. A layer gives one function, its cell.
#ifndef OPSNN_OPS_RNN_RECURRENT_H_
#define OPSNN_OPS_RNN_RECURRENT_H_

#include <functional>
#include <string>
#include <vector>

#include "op/operator.h"

namespace opsnn::ops {

// An activation with its two numbers.
struct RnnActivation {
  enum Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus
  } kind = kTanh;
  double alpha = 0, beta = 0;
  double operator()(double x) const;
};

struct RnnGeometry {
  const char* op = "";
  int64_t directions = 1, times = 0, batch = 0, inputs = 0, hidden = 0, gates = 1;
  bool batch_first = false, reverse = false;  // reverse: the only direction runs backwards
  double clip = 0;                            // 0: none
  std::vector<RnnActivation> activations;     // those of each direction in turn
  DType dtype = DType::kF32;

  bool Backwards(int64_t direction) const { return reverse || direction == 1; }
  double Clipped(double x) const { return clip > 0 ? std::max(-clip, std::min(clip, x)) : x; }
};

// One direction of a layer: weights as (inputs, gates * hidden), so that a step adds up rows.
struct RnnWeights {
  std::vector<double> input, recurrent, input_bias, recurrent_bias, peephole;
  const RnnActivation* activations = nullptr;
};

// One sequence in a step: `gates` holds what the input gives, with its bias.
struct RnnStep {
  const RnnGeometry& g;
  const RnnWeights& w;
  std::vector<double>& gates;
  std::vector<double>& h;  // the state, which the cell moves on
  std::vector<double>& c;  // of LSTM
  // Adds the recurrent product of `state` for gates [first, last) to `to`.
  void AddRecurrent(const std::vector<double>& state, int64_t first, int64_t last,
                    std::vector<double>* to) const;
};
using RnnCell = std::function<void(const RnnStep&)>;

struct RnnLayer {
  int64_t gates = 1;
  std::vector<RnnActivation::Kind> defaults;  // activations of one direction
  bool has_cell_state = false;                // outputs Y_c, inputs initial_c and P
};
// Shape inference and the plan for a layer of this cell; makes the cell from the attributes.
void DefineRecurrent(op::OpDef& def, const char* name, const RnnLayer& layer,
                     std::function<RnnCell(const op::Attrs&)> make_cell);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_RNN_RECURRENT_H_
