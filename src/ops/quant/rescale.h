// Sums of products of quantised values back to quantised values, which QLinearMatMul and QLinearConv share:
//   y = saturate(round((sum + bias) * (a_scale * b_scale / y_scale)) + y_zero), in f64
#ifndef OPSNN_OPS_QUANT_RESCALE_H_
#define OPSNN_OPS_QUANT_RESCALE_H_

#include "kernels/gemm/int8.h"
#include "op/operator.h"

namespace opsnn::ops {

// Where the operands are among the inputs.
struct Rescale {
  int a_scale, b_scale, y_scale, y_zero;
  int bias = -1;  // s32, may be absent
};

// Inputs: the sum, a_scale, b_scale, y_scale, y_zero and, where there is one, the bias.
Program RescaleProgram(DType y, bool has_bias);

// A scale or zero point: one value, or several along its only dim that is not 1.
struct QuantParam {
  int input = -1;  // below 0: absent
  DType dtype = DType::kF32;
  int64_t count = 0, stride = 0;
  static QuantParam Of(const op::PlanContext& c, int input);
  static QuantParam OfZero(const op::PlanContext& c, int input);  // absent where it is a constant of zeros
  // Element i of it, of the only one where there is one; 0 where it is absent.
  double At(const op::RunArgs& args, int64_t i) const;
};

// Zero points as kernels take them, in memory of ZeroBytes.
size_t ZeroBytes(const QuantParam& z);
gemm::ZeroPoints LoadZeros(const QuantParam& z, const op::RunArgs& args, int32_t* to);

// a_scale * b_scale / y_scale, one value, or as many as one of the two has.
class RescaleFactors {
 public:
  static RescaleFactors Of(const op::PlanContext& c, const Rescale& r);
  bool varies() const { return a_.count > 1 || b_.count > 1; }
  bool both_vary() const { return a_.count > 1 && b_.count > 1; }
  bool by_a() const { return a_.count > 1; }
  int64_t count() const { return a_.count > b_.count ? a_.count : b_.count; }
  void Load(const op::RunArgs& args, double* to) const;
  int32_t Zero(const op::RunArgs& args) const { return static_cast<int32_t>(zero_.At(args, 0)); }

 private:
  QuantParam a_, b_, y_, zero_;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_RESCALE_H_
