#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr int kEntries = 256;

Status Infer(op::InferContext& c) {
  c.outputs.clear();
  for (size_t i : {0, 2, 3, 6, 7}) c.outputs.push_back(Desc(c.inputs[i]->dtype, c.inputs[i]->dims));
  return OkStatus();
}

struct Adam {
  int64_t n = 0, block = 1;
  float lr, beta1, beta2, decay, eps, scale;
};

// The place in the rising table whose entry is nearest; with `keep_sign` one of the value's own sign.
uint8_t Nearest(const float* table, float v, bool keep_sign) {
  const int upper =
      std::clamp(static_cast<int>(std::lower_bound(table, table + kEntries, v) - table), 1, kEntries - 1);
  int at = v - table[upper - 1] <= table[upper] - v ? upper - 1 : upper;
  const auto sign = [](float x) { return (x > 0) - (x < 0); };
  if (keep_sign && sign(table[at]) != sign(v)) at -= sign(table[at]);
  return static_cast<uint8_t>(std::clamp(at, 0, kEntries - 1));
}

// Moments of a block as entries of a table; gives the largest magnitude.
float Store(const std::vector<float>& moments, const float* table, bool keep_sign, uint8_t* places) {
  float most = 0;
  for (float m : moments) most = std::max(most, std::abs(m));
  for (size_t i = 0; i < moments.size(); ++i)
    places[i] = Nearest(table, most > 0 ? moments[i] / most : 0, keep_sign);
  return most;
}

void Block(const Adam& a, int64_t block, const op::RunArgs& args) {
  const auto floats = [&](int i) { return static_cast<const float*>(args.inputs[i]); };
  const auto bytes = [&](int i) { return static_cast<const uint8_t*>(args.inputs[i]); };
  const int64_t begin = block * a.block, end = std::min(a.n, begin + a.block);
  const auto step = static_cast<float>(*static_cast<const int64_t*>(args.inputs[8]));
  const float power1 = 1 - std::pow(a.beta1, step), power2 = 1 - std::pow(a.beta2, step);
  std::vector<float> ms, vs;
  for (int64_t i = begin; i < end; ++i) {
    const float g = floats(1)[i] * a.scale;
    const float m = floats(4)[bytes(2)[i]] * floats(6)[block], v = floats(5)[bytes(3)[i]] * floats(7)[block];
    ms.push_back(m * a.beta1 + g * (1 - a.beta1));
    vs.push_back(v * a.beta2 + g * g * (1 - a.beta2));
    const float var = floats(0)[i], root = std::sqrt(vs.back() / power2) + a.eps;
    static_cast<float*>(args.outputs[0])[i] = var - a.lr / root * (ms.back() / power1) - a.lr * a.decay * var;
  }
  static_cast<float*>(args.outputs[3])[block] =
      Store(ms, floats(4), true, static_cast<uint8_t*>(args.outputs[1]) + begin);
  static_cast<float*>(args.outputs[4])[block] =
      Store(vs, floats(5), false, static_cast<uint8_t*>(args.outputs[2]) + begin);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const auto number = [&](const char* name) { return static_cast<float>(attrs.Float(name, 0)); };
  const Adam a = {NumElements(c.inputs[0]->dims),
                  attrs.Int("block", 1),
                  number("lr"),
                  number("beta1"),
                  number("beta2"),
                  number("decay"),
                  number("eps"),
                  number("scale")};
  return Staged(c, MakeKernel("blocks", [a](const op::RunArgs& args) {
                  ParallelFor((a.n + a.block - 1) / a.block, [&](int64_t b, int) { Block(a, b, args); });
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(AdamWQuant) {
  def.infer = Infer;
  def.plan = Plan;
}
