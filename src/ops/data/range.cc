#include <cmath>
#include <cstring>

#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Range";

struct Steps {
  double start = 0, delta = 1;           // float dtypes
  int64_t int_start = 0, int_delta = 1;  // integer dtypes, exact
  int64_t count = kUnknownDim;
};

Status BadDelta() { return InvalidArgument("%s: delta is 0; allowed: not 0", kOp); }

Result<Steps> FindSteps(op::InputDescs inputs) {
  Steps s;
  for (const op::TensorDesc* x : inputs) {
    if (x->constant == nullptr) return s;
    if (x->constant->size() != 1) {
      return InvalidArgument("%s: start, limit or delta has shape %s; allowed: one element", kOp,
                             opsnn::ToString(x->constant->dims()).c_str());
    }
  }
  constexpr int64_t kMaxCount = int64_t{1} << 40;
  double count = 0;
  if (IsFloat(inputs[0]->dtype)) {
    const double limit = ToDoubles(*inputs[1]->constant)[0];
    s.start = ToDoubles(*inputs[0]->constant)[0];
    s.delta = ToDoubles(*inputs[2]->constant)[0];
    if (s.delta == 0) return BadDelta();
    count = std::ceil((limit - s.start) / s.delta);
  } else {
    const auto limit = static_cast<__int128>(ToInts(*inputs[1]->constant)[0]);
    s.int_start = ToInts(*inputs[0]->constant)[0];
    s.int_delta = ToInts(*inputs[2]->constant)[0];
    if (s.int_delta == 0) return BadDelta();
    const __int128 span = limit - s.int_start, d = s.int_delta;
    count = (span > 0) == (d > 0) ? static_cast<double>((span + (d > 0 ? d - 1 : d + 1)) / d) : 0;
  }
  if (!(count <= static_cast<double>(kMaxCount))) {
    return InvalidArgument("%s: start, limit and delta give %g elements; allowed: at most %lld", kOp, count,
                           static_cast<long long>(kMaxCount));
  }
  s.count = count > 0 ? static_cast<int64_t>(count) : 0;
  return s;
}

Status Infer(op::InferContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Steps s, FindSteps(c.inputs));
  return SetOutput(c, Desc(c.inputs[0]->dtype, {s.count}));
}

template <typename T>
void Fill(const Steps& s, void* out) {
  T* y = static_cast<T*>(out);
  for (int64_t k = 0; k < s.count; ++k) {
    if constexpr (std::is_floating_point_v<T>) {
      y[k] = static_cast<T>(s.start + static_cast<double>(k) * s.delta);
    } else {
      y[k] = static_cast<T>(s.int_start + k * s.int_delta);
    }
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Steps s, FindSteps(c.inputs));
  if (s.count == kUnknownDim) {
    return InvalidArgument("%s: start, limit or delta depends on the data; they must be known before running",
                           kOp);
  }
  return Staged(c, MakeKernel("fill", [s, dtype = c.inputs[0]->dtype](const op::RunArgs& args) {
                  switch (dtype) {
                    case DType::kF32:
                      Fill<float>(s, args.outputs[0]);
                      break;
                    case DType::kF64:
                      Fill<double>(s, args.outputs[0]);
                      break;
                    case DType::kS16:
                      Fill<int16_t>(s, args.outputs[0]);
                      break;
                    case DType::kS32:
                      Fill<int32_t>(s, args.outputs[0]);
                      break;
                    default:
                      Fill<int64_t>(s, args.outputs[0]);
                      break;
                  }
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Range) {
  def.infer = Infer;
  def.plan = Plan;
}
