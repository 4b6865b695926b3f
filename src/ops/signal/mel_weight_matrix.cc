#include <algorithm>
#include <cmath>
#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MelWeightMatrix";

struct Bank {
  int64_t bins = 0, length = 0;
  double rate = 0, low = 0, high = 0;
  int64_t Rows() const { return length / 2 + 1; }
};

bool AllKnown(op::InputDescs inputs) {
  for (const op::TensorDesc* x : inputs) {
    if (x->constant == nullptr) return false;
  }
  return true;
}

Result<Bank> Read(op::InputDescs inputs) {
  double v[5];
  for (size_t i = 0; i < 5; ++i) {
    if (inputs[i]->constant->size() != 1) {
      return InvalidArgument("%s: input %zu has %lld values; allowed: 1", kOp, i,
                             static_cast<long long>(inputs[i]->constant->size()));
    }
    v[i] = ToDoubles(*inputs[i]->constant)[0];
  }
  constexpr double kMost = 1 << 24;
  if (!(v[0] >= 0 && v[0] <= kMost && v[1] >= 1 && v[1] <= kMost && v[2] >= 1 && v[3] >= 0 && v[4] >= v[3] &&
        std::isfinite(v[2]) && std::isfinite(v[4]))) {
    return InvalidArgument(
        "%s: num_mel_bins %g, dft_length %g, sample_rate %g, edges %g and %g; allowed: 0 to 2^24, 1 to 2^24, "
        "from 1, and finite edges from 0 in order",
        kOp, v[0], v[1], v[2], v[3], v[4]);
  }
  return Bank{static_cast<int64_t>(v[0]), static_cast<int64_t>(v[1]), v[2], v[3], v[4]};
}

Status Infer(op::InferContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const DType t, DTypeAttr(kOp, op::AttrsOf(c.attrs), "output_datatype", DType::kF32));
  if (!AllKnown(c.inputs)) return SetOutput(c, Desc(t, {kUnknownDim, kUnknownDim}));
  OPSNN_ASSIGN_OR_RETURN(const Bank b, Read(c.inputs));
  return SetOutput(c, Desc(t, {b.Rows(), b.bins}));
}

// Triangles whose corners are equally spaced on the mel scale, rounded down to bins of the spectrum.
// set(row, column, value) for every weight but 0.
template <typename Set>
void Weights(const Bank& b, Set set) {
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(b.low), step = (mel(b.high) - low) / static_cast<double>(b.bins + 2);
  // Edges may lie far beyond the spectrum: a corner there only has to be behind it and fit an int64.
  constexpr double kFurthest = 0x1p62;
  const auto corner = [&](int64_t i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(b.length + 1) * hertz / b.rate);
    return static_cast<int64_t>(std::clamp(bin, 0.0, kFurthest));
  };
  const int64_t rows = b.Rows();
  int64_t left = corner(0), centre = corner(1);
  for (int64_t i = 0; i < b.bins; ++i) {
    const int64_t right = corner(i + 2);
    if (centre == left && centre < rows) set(centre, i, 1);
    for (int64_t j = left; centre > left && j <= centre && j < rows; ++j)
      set(j, i, static_cast<double>(j - left) / static_cast<double>(centre - left));
    for (int64_t j = centre; j < right && j < rows; ++j)
      set(j, i, static_cast<double>(right - j) / static_cast<double>(right - centre));
    left = centre;
    centre = right;
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  if (!AllKnown(c.inputs))
    return InvalidArgument("%s: its inputs depend on the data; they must be known before running", kOp);
  OPSNN_ASSIGN_OR_RETURN(const Bank b, Read(c.inputs));
  return Staged(c, MakeKernel("triangles", [b, t = c.outputs[0].dtype](const op::RunArgs& args) {
                  const auto elem = static_cast<int64_t>(SizeOf(t));
                  char* w = static_cast<char*>(args.outputs[0]);
                  std::memset(w, 0, static_cast<size_t>(b.Rows() * b.bins * elem));
                  Weights(b, [&](int64_t row, int64_t column, double v) {
                    WriteElement(w + (row * b.bins + column) * elem, t, v);
                  });
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MelWeightMatrix) {
  def.infer = Infer;
  def.plan = Plan;
}
