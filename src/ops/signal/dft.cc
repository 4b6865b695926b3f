#include <algorithm>
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

constexpr const char* kOp = "DFT";
using ll = long long;

struct Call {
  int axis = 0;
  int64_t length = 0;  // of the transform
  bool inverse = false, onesided = false;
  int64_t Bins() const { return onesided ? length / 2 + 1 : length; }
};

// nullopt: axis or length are not known yet.
Result<std::optional<Call>> Read(op::InputDescs inputs, const op::Attrs& attrs) {
  const Dims& x = inputs[0]->dims;
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x, 2, kMaxRank));
  if (x.back() != kUnknownDim && x.back() != 1 && x.back() != 2) {
    return InvalidArgument("%s: input has shape %s; allowed: a last dim of 1 (real) or 2 (complex)", kOp,
                           opsnn::ToString(x).c_str());
  }
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (IsGiven(inputs, i) && !ConstantInts(inputs, i)) return std::optional<Call>();
  }
  Call c;
  const std::vector<int64_t> axis = ConstantInts(inputs, 2).value_or(std::vector<int64_t>{-2});
  const std::optional<std::vector<int64_t>> length = ConstantInts(inputs, 1);
  if (axis.size() != 1 || (length && length->size() != 1)) {
    return InvalidArgument("%s: axis and dft_length have %zu and %zu values; allowed: 1", kOp, axis.size(),
                           length ? length->size() : 1);
  }
  OPSNN_ASSIGN_OR_RETURN(c.axis, NormalizeAxisOf(kOp, "axis", axis[0], x.rank()));
  c.inverse = attrs.Int("inverse", 0) != 0;
  c.onesided = attrs.Int("onesided", 0) != 0;
  c.length = length ? (*length)[0] : x[c.axis];
  if (c.axis == x.rank() - 1 || (c.length < 1 && c.length != kUnknownDim) || c.length > (int64_t{1} << 30)) {
    return InvalidArgument(
        "%s: axis is %lld and the length %lld; allowed: any axis but the last, lengths from 1 to 2^30", kOp,
        ll{axis[0]}, ll{c.length});
  }
  if (c.onesided && (c.inverse || x.back() == 2)) {
    return InvalidArgument("%s: attribute onesided with %s; allowed: the forward transform of real input",
                           kOp, c.inverse ? "inverse" : "complex input");
  }
  if (c.length == kUnknownDim) return std::optional<Call>();
  return std::optional<Call>(c);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Call> call, Read(c.inputs, op::AttrsOf(c.attrs)));
  Dims dims = call ? x.dims : Dims::Filled(x.dims.rank(), kUnknownDim);
  if (call) dims[call->axis] = call->Bins();
  dims[dims.rank() - 1] = 2;
  return SetOutput(c, Desc(x.dtype, dims));
}

// Along the axis of (outer, n, inner, parts): cut or padded with zeros to the length of the transform.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Call> read, Read(c.inputs, op::AttrsOf(c.attrs)));
  if (!read)
    return InvalidArgument("%s: dft_length or axis depends on the data; they must be known before running",
                           kOp);
  const Call call = *read;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < call.axis; ++i) outer *= x.dims[i];
  for (int i = call.axis + 1; i < x.dims.rank() - 1; ++i) inner *= x.dims[i];
  const int64_t n = x.dims[call.axis], parts = x.dims.back();
  const auto fft = std::make_shared<const Fft>(call.length);
  const auto run = [=, t = x.dtype](const op::RunArgs& args) -> Status {
    std::atomic<bool> failed{false};
    const auto elem = static_cast<int64_t>(SizeOf(t));
    ParallelFor(outer * inner, [&](int64_t row, int) {
      const std::unique_ptr<Complex[]> v = fft->Buffer();
      if (!v) return failed.store(true, std::memory_order_relaxed);
      const int64_t o = row / inner, i = row % inner;
      for (int64_t k = 0; k < std::min(n, call.length); ++k) {
        const char* at = static_cast<const char*>(args.inputs[0]) + ((o * n + k) * inner + i) * parts * elem;
        v[static_cast<size_t>(k)] = {ReadElement(at, t), parts == 2 ? ReadElement(at + elem, t) : 0.0};
      }
      fft->Run(v.get(), call.inverse);
      for (int64_t k = 0; k < call.Bins(); ++k) {
        char* at = static_cast<char*>(args.outputs[0]) + ((o * call.Bins() + k) * inner + i) * 2 * elem;
        WriteElement(at, t, v[static_cast<size_t>(k)].real());
        WriteElement(at + elem, t, v[static_cast<size_t>(k)].imag());
      }
    });
    if (!failed) return OkStatus();
    return Errorf(Code::kRuntime, "%s: no memory for the transform of a row of %lld.", kOp, ll{call.length});
  };
  return Staged(c, MakeKernel("fast transform in f64", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DFT) {
  def.infer = Infer;
  def.plan = Plan;
}
