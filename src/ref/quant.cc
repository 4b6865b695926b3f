// Quantisation: x = (q - zero_point) * scale. Where a quotient lies so close to a tie that the rounding of
// f32 decides it, either neighbour is right: `steps` says so.
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// Roundings on the way to a quotient: of a product of scales, of its quotient, of the result.
constexpr double kQuotientEps = 4 * 0x1p-24;

double Range(DType t, bool high) {
  const int bits = static_cast<int>(SizeOf(t)) * 8;
  if (!high) return Info(t).is_signed ? -std::ldexp(1, bits - 1) : 0;
  return std::ldexp(1, Info(t).is_signed ? bits - 1 : bits) - 1;
}

// saturate(round(v) + zero) as element i of y.
void Store(double v, double zero, Tensor& y, int64_t i, std::vector<double>& steps) {
  const double lo = Range(y.dtype, false), hi = Range(y.dtype, true);
  const double q = std::nearbyint(v) + zero;
  y.v[static_cast<size_t>(i)] =
      std::isnan(v) ? std::min(std::max(zero, lo), hi) : std::min(std::max(q, lo), hi);
  const double to_tie = std::fabs(std::fabs(v - std::floor(v)) - 0.5);
  steps[static_cast<size_t>(i)] = to_tie <= kQuotientEps * std::fabs(v) ? 1 : 0;
}

// One value for all, or one per slice along `axis`.
double Param(const Call& c, int input, const Dims& dims, int axis, int64_t i) {
  if (!c.has(input)) return 0;
  const Tensor& p = c.in(input);
  if (p.size() == 1) return p.v[0];
  int64_t inner = 1;
  for (int d = axis + 1; d < dims.rank(); ++d) inner *= dims[d];
  return p.v[static_cast<size_t>(i / inner % dims[axis])];
}

Status QuantizeLinear(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", 1), x.dims.rank());
  Tensor y = Tensor::Make(c.output_dtype, x.dims);
  c.steps.assign(y.v.size(), 0);
  for (int64_t i = 0; i < y.size(); ++i)
    Store(x.v[static_cast<size_t>(i)] / Param(c, 1, x.dims, axis, i), Param(c, 2, x.dims, axis, i), y, i,
          c.steps);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status DequantizeLinear(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", 1), x.dims.rank());
  Tensor y = Tensor::Make(c.output_dtype, x.dims);
  for (int64_t i = 0; i < y.size(); ++i)
    y.v[static_cast<size_t>(i)] =
        (x.v[static_cast<size_t>(i)] - Param(c, 2, x.dims, axis, i)) * Param(c, 1, x.dims, axis, i);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// The scale is rounded to f32 before x is divided by it.
Status DynamicQuantizeLinear(Call& c) {
  const Tensor& x = c.in(0);
  double lo = 0, hi = 0;
  for (double v : x.v) lo = std::min(lo, v), hi = std::max(hi, v);
  const float scale = hi == lo ? 1.0f : (static_cast<float>(hi) - static_cast<float>(lo)) / 255.0f;
  Tensor y = Tensor::Make(DType::kU8, x.dims), zero = Tensor::Make(DType::kU8, {});
  std::vector<double> of_zero(1);
  Store(-lo / scale, 0, zero, 0, of_zero);
  c.steps.assign(y.v.size(), 0);
  for (int64_t i = 0; i < y.size(); ++i) Store(x.v[static_cast<size_t>(i)] / scale, zero.v[0], y, i, c.steps);
  c.outputs.push_back(std::move(y));
  c.outputs.push_back(Tensor::Make(DType::kF32, {}, scale));
  c.outputs.push_back(std::move(zero));
  return OkStatus();
}

// The operand less its zero point, which is one value or one per slice along `axis`.
Tensor Centred(const Call& c, int operand, int zero, int axis) {
  Tensor t = c.in(operand);
  t.dtype = DType::kF64;
  for (int64_t i = 0; i < t.size(); ++i) t.v[static_cast<size_t>(i)] -= Param(c, zero, t.dims, axis, i);
  return t;
}

// The operator `op` on two tensors, exact in doubles.
Result<Tensor> Product(const Call& c, const char* op, const Tensor& a, const Tensor& b) {
  const Tensor* const inputs[] = {&a, &b};
  Call product = c;
  product.op = op;
  product.inputs = inputs;
  product.num_outputs = 1;
  product.output_dtype = DType::kF64;
  OPSNN_RETURN_IF_ERROR(Evaluate(product));
  return std::move(product.outputs[0]);
}

Status ConvInteger(Call& c) {
  OPSNN_ASSIGN_OR_RETURN(Tensor y, Product(c, "Conv", Centred(c, 0, 2, 0), Centred(c, 1, 3, 0)));
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status QLinearConv(Call& c) {
  OPSNN_ASSIGN_OR_RETURN(const Tensor sum, Product(c, "Conv", Centred(c, 0, 2, 0), Centred(c, 3, 5, 0)));
  Tensor y = Tensor::Make(c.output_dtype, sum.dims);
  c.steps.assign(y.v.size(), 0);
  for (int64_t i = 0; i < y.size(); ++i) {
    const double bias = Param(c, 8, sum.dims, 1, i);
    const double scale = c.in(1).v[0] * Param(c, 4, sum.dims, 1, i) / c.in(6).v[0];
    Store((sum.v[static_cast<size_t>(i)] + bias) * scale, c.in(7).v[0], y, i, c.steps);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status QLinearMatMul(Call& c) {
  const int rows = c.in(0).dims.rank() - 2, cols = c.in(3).dims.rank() - 1;
  OPSNN_ASSIGN_OR_RETURN(const Tensor sum,
                         Product(c, "MatMul", Centred(c, 0, 2, std::max(rows, 0)), Centred(c, 3, 5, cols)));
  const int rank = sum.dims.rank();
  Tensor y = Tensor::Make(c.output_dtype, sum.dims);
  c.steps.assign(y.v.size(), 0);
  for (int64_t i = 0; i < y.size(); ++i) {
    const double scale = Param(c, 1, sum.dims, std::max(rank - 2, 0), i) * Param(c, 4, sum.dims, rank - 1, i);
    Store(sum.v[static_cast<size_t>(i)] * scale / c.in(6).v[0], c.in(7).v[0], y, i, c.steps);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"QuantizeLinear", QuantizeLinear},
                            {"DequantizeLinear", DequantizeLinear},
                            {"DynamicQuantizeLinear", DynamicQuantizeLinear},
                            {"ConvInteger", ConvInteger},
                            {"QLinearConv", QLinearConv},
                            {"QLinearMatMul", QLinearMatMul}};

}  // namespace

std::span<const Entry> QuantTable() { return kTable; }

}  // namespace opsnn::ref
