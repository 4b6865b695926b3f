#include "ops/conv/floats.h"

#include "base/int_math.h"
#include "vector/run.h"

namespace opsnn::ops {

Floats::Floats(const op::TensorDesc& d, size_t* workspace_bytes)
    : given_(true), direct_(d.dtype == DType::kF32 && d.IsContiguous()), view_(d.View(nullptr)) {
  if (direct_) return;
  constexpr size_t kLine = 64;
  offset_ = RoundUp(*workspace_bytes, kLine);
  *workspace_bytes = offset_ + static_cast<size_t>(view_.size()) * sizeof(float);
}

TensorView Floats::Copy(const op::RunArgs& args) const {
  return TensorView::Contiguous(static_cast<char*>(args.workspace) + offset_, DType::kF32, view_.dims);
}

const float* Floats::Read(const void* tensor, const op::RunArgs& args) const {
  if (!given_) return nullptr;
  if (direct_) return static_cast<const float*>(tensor);
  TensorView from = view_;
  from.data = const_cast<void*>(tensor);
  const TensorView to = Copy(args);
  vector::CopyConvert(from, to);
  return static_cast<const float*>(to.data);
}

float* Floats::Write(void* tensor, const op::RunArgs& args) const {
  return static_cast<float*>(direct_ ? tensor : Copy(args).data);
}

void Floats::Finish(void* tensor, const op::RunArgs& args) const {
  if (direct_) return;
  TensorView to = view_;
  to.data = tensor;
  vector::CopyConvert(Copy(args), to);
}

}  // namespace opsnn::ops
