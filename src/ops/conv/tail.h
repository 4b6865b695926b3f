// Cutting the pointwise chain behind a convolution into what happens on accumulators and a rest.
#ifndef OPSNN_OPS_CONV_TAIL_H_
#define OPSNN_OPS_CONV_TAIL_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "op/operator.h"
#include "vector/run.h"

namespace opsnn::ops {

// How a tail input lies along the convolution's output.
enum class TailShape : uint8_t {
  kFull,     // the output's dims
  kChannel,  // one value per channel, or per image and channel, or a single value
  kOther,    // varies along rows or columns only
};
TailShape ShapeOf(const op::TensorDesc& input, const Dims& out);

// Where element (image, block, pixel, lane) of a full, per-channel or scalar operand lies. c0 = 16.
vector::EpilogueArg ArgFor(const op::TensorDesc& desc, const Dims& out);

struct ConvTail {
  int residual = -1;  // program input added first, in the output's own layout, or -1
  vector::RegAct act = vector::RegAct::kNone;
  float act_imm[2] = {0, 0};
  bool affine = false;  // then x * scale + shift, both constants
  float scale = 1.0f, shift = -0.0f;
  std::shared_ptr<const vector::CompiledProgram> rest;  // null: nothing remains
  std::vector<int>
      rest_inputs;  // for each input of `rest` after the block: its index in the original program
};

// residual_ok[i]: input i of the program may be the residual.
Result<ConvTail> CutTail(const Program& program, const std::vector<bool>& residual_ok);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_TAIL_H_
