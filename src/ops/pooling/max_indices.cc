#include "kernels/pool/pool.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/pooling/pool_op.h"
#include "vector/run.h"

namespace opsnn::ops {

Result<op::KernelPtr> PlanMaxIndices(const op::PlanContext& c, const PoolWindow& w) {
  const op::TensorDesc& x = *c.inputs[0];
  const int spatial = x.dims.rank() - 2;
  pool::MaxIndexShape s;
  s.planes = x.dims[0] * x.dims[1];
  s.column_major = op::AttrsOf(c.attrs).Int("storage_order", 0) != 0;
  for (int i = 3 - spatial; i < 3; ++i) {
    const PoolWindow::Axis a = w.axis(i);
    s.in[i] = x.dims[2 + i - (3 - spatial)];
    s.out[i] = w.out[2 + i - (3 - spatial)];
    s.kernel[i] = a.kernel, s.stride[i] = a.stride, s.dilation[i] = a.dilation, s.pad[i] = a.pad_begin;
  }
  const Dims in = x.dims, out = w.out;
  const DType dtype = x.dtype, compute = IsHalf(dtype) ? DType::kF32 : dtype;  // exact in f32
  const bool converts = compute != dtype;
  const size_t x_bytes = converts ? TensorView::Contiguous(nullptr, compute, in).bytes() : 0;
  const size_t y_at = (x_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t workspace = converts ? y_at + TensorView::Contiguous(nullptr, compute, out).bytes() : 0;
  const auto run = [=](const op::RunArgs& args) {
    const void* from = args.inputs[0];
    void* to = args.outputs[0];
    if (converts) {
      from = args.workspace;
      to = static_cast<char*>(args.workspace) + y_at;
      vector::CopyConvert(TensorView::Contiguous(args.inputs[0], dtype, in),
                          TensorView::Contiguous(args.workspace, compute, in));
    }
    pool::RunMaxPoolIndices(s, compute, from, to, static_cast<int64_t*>(args.outputs[1]));
    if (converts) {
      vector::CopyConvert(TensorView::Contiguous(to, compute, out),
                          TensorView::Contiguous(args.outputs[0], dtype, out));
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("max pool with positions", run, workspace));
}

}  // namespace opsnn::ops
