#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/signal/fft.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "STFT";
using ll = long long;
constexpr size_t kStep = 1, kWindow = 2, kLength = 3;

struct Frames {
  int64_t length = 0, step = 1, count = 0;
  bool onesided = true;
  int64_t Bins() const { return onesided ? length / 2 + 1 : length; }
};

// nullopt: a size is not known yet.
Result<std::optional<Frames>> Read(op::InputDescs inputs, const op::Attrs& attrs) {
  const op::TensorDesc &x = *inputs[0], *window = InputOrNull(inputs, kWindow);
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "signal", x.dims, 2, 3));
  const auto step = ConstantInts(inputs, kStep), length = ConstantInts(inputs, kLength);
  if (!step || (IsGiven(inputs, kLength) && !length) || (window && !IsKnown(window->dims)) ||
      !IsKnown(x.dims)) {
    return std::optional<Frames>();
  }
  if (!length && !window)
    return InvalidArgument("%s: neither window nor frame_length is given; allowed: one or both", kOp);
  Frames f;
  f.length = length && length->size() == 1 ? (*length)[0] : window ? NumElements(window->dims) : 0;
  f.step = step->size() == 1 ? (*step)[0] : 0;
  f.onesided = attrs.Int("onesided", 1) != 0;
  const int64_t size = x.dims[1], parts = x.dims.rank() == 3 ? x.dims[2] : 1;
  if (f.step < 1 || f.length < 1 || f.length > size || (window && window->dims != Dims{f.length}) ||
      (parts != 1 && parts != 2)) {
    return InvalidArgument(
        "%s: signal has shape %s, frame_step is %lld, frame_length %lld and window %s; allowed: [N, length, "
        "1 or 2], "
        "steps from 1, frames from 1 to the length of the signal, and a window of that size",
        kOp, opsnn::ToString(x.dims).c_str(), ll{f.step}, ll{f.length},
        window ? opsnn::ToString(window->dims).c_str() : "absent");
  }
  if (f.onesided && parts == 2) {
    return InvalidArgument("%s: attribute onesided with a complex signal; allowed: real signals", kOp);
  }
  f.count = (size - f.length) / f.step + 1;
  return std::optional<Frames>(f);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Frames> f, Read(c.inputs, op::AttrsOf(c.attrs)));
  return SetOutput(c, Desc(x.dtype, {x.dims[0], f ? f->count : kUnknownDim, f ? f->Bins() : kUnknownDim, 2}));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Frames> read, Read(c.inputs, op::AttrsOf(c.attrs)));
  if (!read)
    return InvalidArgument(
        "%s: frame_step or frame_length depends on the data; they must be known before running", kOp);
  const Frames f = *read;
  const bool windowed = IsGiven(c.inputs, kWindow);
  const int64_t size = x.dims[1], parts = x.dims.rank() == 3 ? x.dims[2] : 1, batch = x.dims[0];
  const auto fft = std::make_shared<const Fft>(f.length);
  const auto run = [=, t = x.dtype](const op::RunArgs& args) -> Status {
    std::atomic<bool> failed{false};
    const auto elem = static_cast<int64_t>(SizeOf(t));
    ParallelFor(batch * f.count, [&](int64_t frame, int) {
      const std::unique_ptr<Complex[]> v = fft->Buffer();
      if (!v) return failed.store(true, std::memory_order_relaxed);
      const int64_t first = frame / f.count * size + frame % f.count * f.step;
      for (int64_t k = 0; k < f.length; ++k) {
        const char* at = static_cast<const char*>(args.inputs[0]) + (first + k) * parts * elem;
        const double w =
            windowed ? ReadElement(static_cast<const char*>(args.inputs[kWindow]) + k * elem, t) : 1;
        v[static_cast<size_t>(k)] = {w * ReadElement(at, t),
                                     parts == 2 ? w * ReadElement(at + elem, t) : 0.0};
      }
      fft->Run(v.get(), false);
      char* to = static_cast<char*>(args.outputs[0]) + frame * f.Bins() * 2 * elem;
      for (int64_t k = 0; k < f.Bins(); ++k) {
        WriteElement(to + 2 * k * elem, t, v[static_cast<size_t>(k)].real());
        WriteElement(to + (2 * k + 1) * elem, t, v[static_cast<size_t>(k)].imag());
      }
    });
    if (!failed) return OkStatus();
    return Errorf(Code::kRuntime, "%s: no memory for the transform of a frame of %lld.", kOp, ll{f.length});
  };
  return Staged(c, MakeKernel("fast transforms in f64", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(STFT) {
  def.infer = Infer;
  def.plan = Plan;
}
