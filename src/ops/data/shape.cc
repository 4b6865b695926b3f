#include <algorithm>
#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

std::vector<int64_t> Part(const op::Attrs* attrs, const Dims& dims) {
  const int64_t rank = dims.rank();
  const auto clamp = [rank](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = clamp(op::AttrsOf(attrs).Int("start", 0)),
                end = clamp(op::AttrsOf(attrs).Int("end", rank));
  return start < end ? std::vector<int64_t>(dims.begin() + start, dims.begin() + end)
                     : std::vector<int64_t>();
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, Desc(DType::kS64, {kUnknownDim}));
  const std::vector<int64_t> part = Part(c.attrs, x.dims);
  op::TensorDesc y = Desc(DType::kS64, {static_cast<int64_t>(part.size())});
  if (std::find(part.begin(), part.end(), kUnknownDim) == part.end()) {
    y.constant = HostTensor::From<int64_t>(y.dims, part);
  }
  return SetOutput(c, std::move(y));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  return Staged(c, MakeKernel("dims", [part = Part(c.attrs, c.inputs[0]->dims)](const op::RunArgs& args) {
                  if (!part.empty()) std::memcpy(args.outputs[0], part.data(), part.size() * sizeof(int64_t));
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Shape) {
  def.infer = Infer;
  def.plan = Plan;
}
