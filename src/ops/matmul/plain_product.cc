// f64 and s32: the product, then the post program over the whole result.
#include "kernels/gemm/plain.h"
#include "op/pointwise.h"
#include "ops/matmul/product_kernel.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

class PlainProduct : public op::Kernel {
 public:
  Status Plan(const ProductCall& call);
  Status Run(const op::RunArgs& args) const override;
  size_t workspace_bytes() const override { return post_ ? product_bytes_ : 0; }
  std::string variant() const override { return post_ ? "gemm plain, then program" : "gemm plain"; }

 private:
  LoopNest nest_;       // with the product as its only argument
  op::KernelPtr post_;  // null: the product goes straight to the output
  size_t product_bytes_ = 0;
  int num_inputs_ = 0;
  int64_t a_bytes_ = 0, b_bytes_ = 0;
  std::vector<int64_t> output_bytes_;
};

Status PlainProduct::Plan(const ProductCall& call) {
  const op::PlanContext& c = *call.context;
  nest_ = MakeLoops(call.shape, *c.inputs[0], *c.inputs[1], call.trans_a, call.trans_b);
  op::TensorDesc product;  // contiguous, in the accumulation type
  product.dtype = c.inputs[0]->dtype;
  product.dims = call.shape.OutDims();
  const op::TensorDesc& y = c.outputs[0];
  if (call.post.any || y.dtype != product.dtype || !y.IsContiguous()) {
    Program program = call.post.program;
    if (!call.post.any) {
      ProgramBuilder copy;
      copy.Output(copy.Unary(StageOp::kCopy, copy.Input(ComputeTypeOf(product.dtype))));
      program = std::move(copy).Build();
    }
    std::vector<op::KernelOperand> inputs = {{0, product.View(nullptr)}}, outputs;
    for (size_t i = 0; i < call.post.descs.size(); ++i) {
      inputs.push_back({call.post.indices[i] + 1, call.post.descs[i]->View(nullptr)});
    }
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      outputs.push_back({static_cast<int>(i), c.outputs[i].View(nullptr)});
    }
    OPSNN_ASSIGN_OR_RETURN(post_, op::MakeProgramKernel(program, product.dims, std::move(inputs),
                                                        std::move(outputs), 0, "post"));
    product_bytes_ = product.View(nullptr).bytes();
  }
  num_inputs_ = static_cast<int>(c.inputs.size() + c.tail_inputs.size());
  nest_.args.push_back(LoopsOf(call.shape, product, 0, true));
  nest_.Merge();
  a_bytes_ = AliasGuard::Extent(nest_, nest_.a, 1, nest_.k, true);
  b_bytes_ = AliasGuard::Extent(nest_, nest_.b, nest_.k, nest_.n, false);
  output_bytes_.push_back(static_cast<int64_t>(product.View(nullptr).bytes()));
  return OkStatus();
}

Status PlainProduct::Run(const op::RunArgs& args) const {
  if (NumElements(nest_.lead) == 0 || nest_.n == 0) return OkStatus();
  void* product = post_ ? args.workspace : args.outputs[0];
  AliasGuard guard;
  const op::RunArgs written{args.inputs, &product, nullptr};
  const char* a = static_cast<const char*>(guard.Protect(args.inputs[0], a_bytes_, written, output_bytes_));
  const char* b = static_cast<const char*>(guard.Protect(args.inputs[1], b_bytes_, written, output_bytes_));
  if ((!a && a_bytes_ > 0) || (!b && b_bytes_ > 0)) {
    return Errorf(Code::kRuntime,
                  "matrix product: no memory for a copy of an operand that overlaps the output");
  }
  const LoopOperand& c = nest_.args[0];
  const int last = nest_.lead.rank() - 1;
  gemm::PlainParams p;
  p.m = nest_.m(), p.n = nest_.n, p.k = nest_.k, p.batch = nest_.batch();
  p.a = {nullptr, nest_.a.dtype, nest_.a.lead[last], nest_.a.col_stride, nest_.a.lead[last - 1]};
  p.b = {nullptr, nest_.b.dtype, nest_.b.row_stride, nest_.b.col_stride, nest_.b.lead[last - 1]};
  p.c_row_stride = c.lead[last];
  p.c_batch_stride = c.lead[last - 1];
  const int64_t size = static_cast<int64_t>(SizeOf(c.dtype));
  Dims at = Dims::Filled(last - 1, 0);
  const vector::ScratchCheck scratch;
  for (bool more = true; more;) {
    int64_t a_off = 0, b_off = 0, c_off = 0;
    for (int i = 0; i < at.rank(); ++i) {
      a_off += at[i] * nest_.a.lead[i], b_off += at[i] * nest_.b.lead[i], c_off += at[i] * c.lead[i];
    }
    p.a.data = a + a_off * size, p.b.data = b + b_off * size,
    p.c = static_cast<char*>(product) + c_off * size;
    gemm::RunPlain(p);
    more = false;
    for (int i = at.rank() - 1; i >= 0 && !more; --i) {
      more = ++at[i] < nest_.lead[i];
      if (!more) at[i] = 0;
    }
  }
  OPSNN_RETURN_IF_ERROR(scratch.Check("matrix product"));
  if (!post_) return OkStatus();
  std::vector<void*> inputs = {product};
  inputs.insert(inputs.end(), args.inputs, args.inputs + num_inputs_);
  return post_->Run({inputs.data(), args.outputs, nullptr});
}

}  // namespace

Result<op::KernelPtr> PlanPlainProduct(const ProductCall& call) {
  auto kernel = std::make_shared<PlainProduct>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(call));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
