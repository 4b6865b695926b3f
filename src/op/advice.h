// Advice: what a graph asks an operator before it makes a call of it: which form is faster, what a chain
// could take over, whether two nodes could be one. An operator that answers says so in its declaration
// (advice = true) and beside its definition:
//
//   OPSNN_DEFINE_ADVICE(Conv) { advice.winograd_tile = ...; }   // op::Advice& advice
//
// A question that an operator has no answer to is an empty function.
#ifndef OPSNN_OP_ADVICE_H_
#define OPSNN_OP_ADVICE_H_

#include <functional>
#include <optional>

#include "device/profile.h"
#include "op/operator.h"
#include "plan/pair.h"

namespace opsnn::op {

// A convolution and the one that reads its result; with a third whose result the first reads instead of x.
struct ConvPair {
  const TensorDesc &x, &first_weights, &second_weights;
  const Attrs &first, &second;
  const TensorDesc* expand_weights = nullptr;
  const Attrs* expand = nullptr;
};

struct Advice {
  // The value of attribute winograd with which a call on these operands is fastest; 0: without.
  std::function<int(const TensorDesc& x, const TensorDesc& w, const Attrs& attrs)> winograd_tile;
  // By how much more than a plain sum over these channels it rounds with that tile and kernel.
  std::function<double(int tile, int kernel, int64_t channels)> winograd_growth;

  // Operators that scale elements by operands of one value, or of one for each slice along an axis: the
  // stages from x of one type to y of another (inputs: x, the scale and, with_zero, the zero point), and the
  // axis for x of some rank.
  std::function<Program(DType x, DType y, bool with_zero)> scaling;
  std::function<int(const Attrs& attrs, int rank)> scaling_axis;

  // Could they be one call of this operator on such a device? Then what the judge is asked about it (but
  // for words). `why`: the reason where they nearly could, else null; never with a third.
  std::function<bool(const ConvPair&, const device::DeviceProfile&, plan::PairEdge*, const char** why)> pair;
  // The attributes of that call, if it can apply the chain between the two, and that behind the third (null:
  // none).
  std::function<std::optional<Attrs>(const Attrs& first, const Program* between, const Program* expanded)>
      pair_attrs;

  // Could this call, whose layouts are not read, run with its image and its result as blocks of bytes?
  std::function<bool(const PlanContext& call)> blocks_bytes;

  // Arithmetic steps of a call, where they follow neither from a program nor from the declaration.
  std::function<double(InputDescs inputs, std::span<const TensorDesc* const> outputs, const Attrs& attrs)>
      steps;
};

const Advice& AdviceOf(const OpDef& def);  // all questions empty where the operator gives none

#define OPSNN_DEFINE_ADVICE(NAME)                  \
  namespace opsnn::ops {                           \
  void Advise_##NAME(::opsnn::op::Advice& advice); \
  }                                                \
  void ::opsnn::ops::Advise_##NAME(::opsnn::op::Advice& advice)

}  // namespace opsnn::op

#endif  // OPSNN_OP_ADVICE_H_
