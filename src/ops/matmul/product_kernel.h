// The two kernels behind PlanProduct: f32 accumulation (f32, f16, bf16) and the plain one (f64, s32), both
// with the post program on blocks that are still on chip.
#ifndef OPSNN_OPS_MATMUL_PRODUCT_KERNEL_H_
#define OPSNN_OPS_MATMUL_PRODUCT_KERNEL_H_

#include <vector>

#include "op/operator.h"
#include "ops/matmul/geometry.h"

namespace opsnn::ops {

// The whole post program of a call and its operands.
struct PostProgram {
  bool any = false;
  Program program;           // input 0 is the product
  std::vector<int> indices;  // RunArgs input of program input i + 1
  std::vector<const op::TensorDesc*> descs;
};

struct ProductCall {
  const char* name = "";
  const op::PlanContext* context = nullptr;
  ProductShape shape;
  bool trans_a = false, trans_b = false;
  const StripWeight* strips = nullptr;  // B is in FRACTAL_NZ
  PostProgram post;
};

// What an epilogue's argument table holds beside the block.
inline constexpr size_t kMaxEpilogueArgs = 31;
Status CheckEpilogueArgs(const char* name, size_t count);

Result<op::KernelPtr> PlanF32Product(const ProductCall& call);
Result<op::KernelPtr> PlanPlainProduct(const ProductCall& call);

// Inputs of a run whose memory may be an output's: copied first.
class AliasGuard {
 public:
  // Bytes of `x` from its pointer on, under the loops' sizes.
  static int64_t Extent(const LoopNest& nest, const LoopOperand& x, int64_t rows, int64_t cols, bool has_m);
  // `data`, or a copy of its `bytes` bytes where they overlap an output. Null when there is no memory for it.
  const void* Protect(const void* data, int64_t bytes, const op::RunArgs& args,
                      const std::vector<int64_t>& outputs);

 private:
  std::vector<AlignedBuffer> copies_;
};

// Runs every product of the nest with its operands' memory guarded.
Status RunGuarded(const LoopNest& nest, const op::RunArgs& args, int64_t a_bytes, int64_t b_bytes,
                  const std::vector<int64_t>& outputs,
                  FunctionRef<void(const void* a, const void* b, const Dims& at)> run_one);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_MATMUL_PRODUCT_KERNEL_H_
