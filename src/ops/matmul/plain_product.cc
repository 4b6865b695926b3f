// f64 and s32: the loops around kernels/gemm/plain.h, and the post program on its blocks.
#include <algorithm>
#include <array>

#include "kernels/gemm/plain.h"
#include "ops/matmul/product_kernel.h"

namespace opsnn::ops {
namespace {

class PlainProduct : public op::Kernel {
 public:
  Status Plan(const ProductCall& call);
  Status Run(const op::RunArgs& args) const override;
  std::string variant() const override { return program_ ? "gemm plain, +program" : "gemm plain"; }

 private:
  Status PlanProgram(const ProductCall& call);
  void RunOne(const op::RunArgs& args, const void* a, const void* b, const Dims& at) const;

  LoopNest nest_;             // args: of the program, else the output alone
  gemm::PlainParams params_;  // without pointers
  std::shared_ptr<const vector::CompiledProgram> program_;
  int64_t a_bytes_ = 0, b_bytes_ = 0;
  std::vector<int64_t> output_bytes_;
};

Status PlainProduct::PlanProgram(const ProductCall& call) {
  const op::PlanContext& c = *call.context;
  const DType sums = c.inputs[0]->dtype;
  const LoopOperand y = LoopsOf(call.shape, c.outputs[0], 0, true);
  if (!call.post.any && y.dtype == sums && y.col_stride == 1) {
    nest_.args.push_back(y);
    return OkStatus();
  }
  Program program = call.post.program;
  if (!call.post.any) {  // another dtype or column stride: the store of a program does that
    ProgramBuilder copy;
    copy.Output(copy.Unary(StageOp::kCopy, copy.Input(ComputeTypeOf(sums))));
    program = std::move(copy).Build();
  }
  if (program.HasRowReduction()) {
    return Errorf(Code::kNotImplemented,
                  "%s: a row reduction behind a product of %s; allowed: of f32, f16, bf16", call.name,
                  Name(sums));
  }
  OPSNN_ASSIGN_OR_RETURN(program_, vector::Compile(program));
  for (size_t i = 0; i < call.post.descs.size(); ++i) {
    nest_.args.push_back(LoopsOf(call.shape, *call.post.descs[i], call.post.indices[i], false));
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    nest_.args.push_back(LoopsOf(call.shape, c.outputs[i], static_cast<int>(i), true));
  }
  return CheckEpilogueArgs(call.name, nest_.args.size());
}

Status PlainProduct::Plan(const ProductCall& call) {
  const op::PlanContext& c = *call.context;
  nest_ = MakeLoops(call.shape, *c.inputs[0], *c.inputs[1], call.trans_a, call.trans_b);
  OPSNN_RETURN_IF_ERROR(PlanProgram(call));
  nest_.Merge();
  const int last = nest_.lead.rank() - 1;
  gemm::PlainParams& p = params_;
  p.m = nest_.m(), p.n = nest_.n, p.k = nest_.k, p.batch = nest_.batch();
  p.a = {nullptr, nest_.a.dtype, nest_.a.lead[last], nest_.a.col_stride, nest_.a.lead[last - 1]};
  p.b = {nullptr, nest_.b.dtype, nest_.b.row_stride, nest_.b.col_stride, nest_.b.lead[last - 1]};
  p.program = program_.get();
  if (!program_) {
    p.c_row_stride = nest_.args[0].lead[last];
    p.c_batch_stride = nest_.args[0].lead[last - 1];
  }
  a_bytes_ = AliasGuard::Extent(nest_, nest_.a, 1, nest_.k, true);
  b_bytes_ = AliasGuard::Extent(nest_, nest_.b, nest_.k, nest_.n, false);
  for (const op::TensorDesc& y : c.outputs) {
    const ByteRange touched = TouchedBytes(y.View(nullptr));
    output_bytes_.push_back(touched.end - touched.begin);
  }
  return OkStatus();
}

void PlainProduct::RunOne(const op::RunArgs& args, const void* a, const void* b, const Dims& at) const {
  gemm::PlainParams p = params_;
  p.a.data = static_cast<const char*>(a) + OuterOffset(nest_.a, at);
  p.b.data = static_cast<const char*>(b) + OuterOffset(nest_.b, at);
  std::array<vector::EpilogueArg, kMaxEpilogueArgs> bound;
  for (size_t i = 0; i < nest_.args.size(); ++i) {
    const LoopOperand& x = nest_.args[i];
    void* base = x.is_output ? args.outputs[x.index] : args.inputs[x.index];
    bound[i] = ToArg(x);
    bound[i].data = static_cast<char*>(base) + OuterOffset(x, at);
  }
  if (program_) {
    p.args = {bound.data(), nest_.args.size()};
  } else {
    p.c = bound[0].data;
  }
  gemm::RunPlain(p);
}

Status PlainProduct::Run(const op::RunArgs& args) const {
  return RunGuarded(nest_, args, a_bytes_, b_bytes_, output_bytes_,
                    [&](const void* a, const void* b, const Dims& at) { RunOne(args, a, b, at); });
}

}  // namespace

Result<op::KernelPtr> PlanPlainProduct(const ProductCall& call) {
  auto kernel = std::make_shared<PlainProduct>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(call));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
