#include "ops/random/random_op.h"

#include <algorithm>
#include <bit>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "ops/random/philox.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

Status InferRandom(const char* op, bool like, op::InferContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const DType fallback = like ? c.inputs[0]->dtype : DType::kF32;
  OPSNN_ASSIGN_OR_RETURN(const DType t, DTypeAttr(op, attrs, "dtype", fallback));
  if (!IsFloat(t)) {
    return InvalidArgument("%s: the result would have dtype %s; allowed: f32, f64, f16, bf16", op, Name(t));
  }
  if (like) {
    op::TensorDesc y = Desc(t, c.inputs[0]->dims);
    y.known_rank = c.inputs[0]->known_rank;
    return SetOutput(c, std::move(y));
  }
  const std::vector<int64_t> shape = attrs.Ints("shape");
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(op, static_cast<int64_t>(shape.size())));
  const Dims dims{std::span<const int64_t>(shape)};
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; }) || !CheckedNumElements(dims)) {
    return InvalidArgument("%s: attribute shape is %s; allowed: sizes >= 0 whose product fits 63 bits", op,
                           ToString(shape).c_str());
  }
  return SetOutput(c, Desc(t, dims));
}

}  // namespace

uint64_t SeedOf(const op::Attrs* attrs) {
  const auto seed = static_cast<float>(op::AttrsOf(attrs).Float("seed", 0));
  return std::bit_cast<uint32_t>(seed);
}

Result<op::KernelPtr> PlanDraw(const op::PlanContext& c,
                               std::function<double(uint64_t, uint64_t, const void*)> draw, DType x_dtype) {
  constexpr int64_t kTask = 4096;
  const DType t = c.outputs[0].dtype;
  const int64_t n = NumElements(c.outputs[0].dims);
  const bool reads = !c.inputs.empty();
  return Staged(c, MakeKernel("Philox", [=, seed = SeedOf(c.attrs)](const op::RunArgs& args) {
                  const char* x = reads ? static_cast<const char*>(args.inputs[0]) : nullptr;
                  ParallelFor((n + kTask - 1) / kTask, [&](int64_t task, int) {
                    for (int64_t i = task * kTask; i < std::min(n, (task + 1) * kTask); ++i) {
                      const void* from = x ? x + i * static_cast<int64_t>(SizeOf(x_dtype)) : nullptr;
                      WriteElement(static_cast<char*>(args.outputs[0]) + i * static_cast<int64_t>(SizeOf(t)),
                                   t, draw(seed, static_cast<uint64_t>(i), from));
                    }
                  });
                  return OkStatus();
                }));
}

void DefineRandom(op::OpDef& def, bool like, MakeDraw make) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self, like](op::InferContext& c) { return InferRandom(self->name.c_str(), like, c); };
  def.plan = [make](const op::PlanContext& c) {
    Draw draw = make(op::AttrsOf(c.attrs));
    const DType x = c.inputs.empty() ? DType::kF32 : c.inputs[0]->dtype;
    return PlanDraw(
        c, [draw](uint64_t seed, uint64_t i, const void*) { return draw(seed, i); }, x);
  };
}

Draw NormalDraw(const op::Attrs& attrs) {
  const double mean = attrs.Float("mean", 0), scale = attrs.Float("scale", 1);
  return [=](uint64_t seed, uint64_t i) { return mean + scale * PhiloxNormal(seed, i); };
}

Draw UniformDraw(const op::Attrs& attrs) {
  const double low = attrs.Float("low", 0), high = attrs.Float("high", 1);
  return [=](uint64_t seed, uint64_t i) { return low + (high - low) * PhiloxUniform(seed, i); };
}

}  // namespace opsnn::ops
