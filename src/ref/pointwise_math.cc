// Trigonometric and hyperbolic functions, and activations that are not in pointwise.cc.
#include <algorithm>
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

template <double (*kFn)(double)>
Status Function(Call& c) {
  Tensor y = Tensor::Make(c.in(0).dtype, c.in(0).dims);
  for (int64_t i = 0; i < y.size(); ++i) y.v[i] = kFn(c.in(0).v[i]);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

template <typename F>
Status Each(Call& c, F f) {
  Tensor y = Tensor::Make(c.in(0).dtype, c.in(0).dims);
  for (int64_t i = 0; i < y.size(); ++i) y.v[i] = f(c.in(0).v[i]);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Selu(Call& c) {
  const double alpha = c.attrs->Float("alpha", 1.67326319217681884765625);
  const double gamma = c.attrs->Float("gamma", 1.05070102214813232421875);
  return Each(c, [=](double x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

Status Celu(Call& c) {
  const double alpha = c.attrs->Float("alpha", 1.0);
  return Each(c, [=](double x) { return x > 0 ? x : alpha * std::expm1(x / alpha); });
}

Status ThresholdedRelu(Call& c) {
  const double alpha = c.attrs->Float("alpha", 1.0);
  return Each(c, [=](double x) { return x > alpha ? x : 0.0; });
}

Status Shrink(Call& c) {
  const double bias = c.attrs->Float("bias", 0), lambd = c.attrs->Float("lambd", 0.5);
  const bool whole = !IsFloat(c.in(0).dtype);
  return Each(c, [=](double x) {
    const double y = x < -lambd ? x + bias : x > lambd ? x - bias : 0;
    return whole ? std::trunc(y) : y;
  });
}

constexpr Entry kTable[] = {
    {"Acos", Function<std::acos>},
    {"Acosh", Function<std::acosh>},
    {"Asin", Function<std::asin>},
    {"Asinh", Function<std::asinh>},
    {"Atan", Function<std::atan>},
    {"Atanh", Function<std::atanh>},
    {"Cosh", Function<std::cosh>},
    {"Sinh", Function<std::sinh>},
    {"Tan", Function<std::tan>},
    {"Selu", Selu},
    {"Celu", Celu},
    {"Softsign", [](Call& c) { return Each(c, [](double x) { return x / (1 + std::fabs(x)); }); }},
    {"ThresholdedRelu", ThresholdedRelu},
    {"Shrink", Shrink},
};

}  // namespace

std::span<const Entry> PointwiseMathTable() { return kTable; }

}  // namespace opsnn::ref
