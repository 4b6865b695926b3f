// The slow reference of the vector engine's tests: one element at a time, in double, straight from the
// definition.
#ifndef OPSNN_VECTOR_REFERENCE_FOR_TEST_H_
#define OPSNN_VECTOR_REFERENCE_FOR_TEST_H_

#include <cmath>
#include <vector>

#include "program/program.h"
#include "tensor/shape.h"

namespace opsnn::vector {

inline double RefUnary(StageOp op, bool integer, double x, double i0, double i1) {
  auto clip = [](double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; };
  auto cast = [integer](double v) { return integer && !std::isnan(v) ? std::trunc(v) : integer ? 0.0 : v; };
  switch (op) {
    case StageOp::kCopy:
      return x;
    case StageOp::kNeg:
      return -x;
    case StageOp::kAbs:
      return std::fabs(x);
    case StageOp::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case StageOp::kSquare:
      return x * x;
    case StageOp::kReciprocal:
      return integer && x == 0 ? 0 : cast(1 / x);
    case StageOp::kSqrt:
      return cast(std::sqrt(x));
    case StageOp::kRsqrt:
      return cast(1 / std::sqrt(x));
    case StageOp::kExp:
      return cast(std::exp(x));
    case StageOp::kLog:
      return cast(std::log(x));
    case StageOp::kErf:
      return cast(std::erf(x));
    case StageOp::kTanh:
      return cast(std::tanh(x));
    case StageOp::kSigmoid:
      return cast(1 / (1 + std::exp(-x)));
    case StageOp::kSilu:
      return cast(x / (1 + std::exp(-x)));
    case StageOp::kGeluErf:
      return cast(x * std::erfc(-x / std::sqrt(2.0)) / 2);
    case StageOp::kGeluTanh:
      return cast(x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2);
    case StageOp::kRelu:
      return x < 0 ? 0 : x;
    case StageOp::kLeakyRelu:
      return x < 0 ? cast(i0 * x) : x;
    case StageOp::kClip:
      return clip(x, i0, i1);
    case StageOp::kHardSigmoid:
      return cast(clip(i0 * x + i1, 0, 1));
    case StageOp::kHardSwish:
      return cast(x * clip(i0 * x + i1, 0, 1));
    case StageOp::kElu:
      return x > 0 ? x : cast(i0 * std::expm1(x));
    case StageOp::kSoftplus:
      return cast(std::log1p(std::exp(x)));
    case StageOp::kMish:
      return cast(x * std::tanh(std::log1p(std::exp(x))));
    case StageOp::kFloor:
      return std::floor(x);
    case StageOp::kCeil:
      return std::ceil(x);
    case StageOp::kRound:
      return std::nearbyint(x);
    case StageOp::kTrunc:
      return std::trunc(x);
    case StageOp::kSin:
      return cast(std::sin(x));
    case StageOp::kCos:
      return cast(std::cos(x));
    case StageOp::kTan:
      return cast(std::tan(x));
    case StageOp::kAsin:
      return cast(std::asin(x));
    case StageOp::kAcos:
      return cast(std::acos(x));
    case StageOp::kAtan:
      return cast(std::atan(x));
    case StageOp::kSinh:
      return cast(std::sinh(x));
    case StageOp::kCosh:
      return cast(std::cosh(x));
    case StageOp::kAsinh:
      return cast(std::asinh(x));
    case StageOp::kAcosh:
      return cast(std::acosh(x));
    case StageOp::kAtanh:
      return cast(std::atanh(x));
    case StageOp::kAffine:
      return i0 * x + i1;
    case StageOp::kNot:
      return x == 0;
    case StageOp::kIsNan:
      return std::isnan(x);
    case StageOp::kIsInf:
      return std::isinf(x);
    default:
      return NAN;
  }
}

inline double RefStage(StageOp op, bool integer, double x, double y, double z, double i0, double i1) {
  if (Info(op).arity == 1) return RefUnary(op, integer, x, i0, i1);
  auto cast = [integer](double v) { return integer && !std::isnan(v) ? std::trunc(v) : integer ? 0.0 : v; };
  const bool nan = std::isnan(x) || std::isnan(y);
  auto whole = [](double v) { return static_cast<int>(v); };
  switch (op) {
    case StageOp::kAdd:
      return x + y;
    case StageOp::kSub:
      return x - y;
    case StageOp::kMul:
      return x * y;
    case StageOp::kDiv:
      return integer && y == 0 ? 0 : cast(x / y);
    case StageOp::kPow:
      return cast(std::pow(x, y));
    case StageOp::kMax:
      return nan ? NAN : std::fmax(x, y);
    case StageOp::kMin:
      return nan ? NAN : std::fmin(x, y);
    case StageOp::kMod:
      return !integer ? std::fmod(x, y) : y == 0 ? 0 : x - y * std::floor(x / y);
    case StageOp::kPRelu:
      return x >= 0 ? x : y * x;
    case StageOp::kBitAnd:
      return whole(x) & whole(y);
    case StageOp::kBitOr:
      return whole(x) | whole(y);
    case StageOp::kBitXor:
      return whole(x) ^ whole(y);
    case StageOp::kShiftLeft:
      return whole(y) < 0 || whole(y) >= 32 ? 0 : std::ldexp(whole(x), whole(y));
    case StageOp::kShiftRight:
      return whole(y) < 0 || whole(y) >= 32 ? 0 : std::floor(std::ldexp(whole(x), -whole(y)));
    case StageOp::kEqual:
      return x == y;
    case StageOp::kLess:
      return x < y;
    case StageOp::kLessEqual:
      return x <= y;
    case StageOp::kGreater:
      return x > y;
    case StageOp::kGreaterEqual:
      return x >= y;
    case StageOp::kAnd:
      return x != 0 && y != 0;
    case StageOp::kOr:
      return x != 0 || y != 0;
    case StageOp::kXor:
      return (x != 0) != (y != 0);
    case StageOp::kMulAdd:
      return x * y + z;
    case StageOp::kSelect:
      return x != 0 ? y : z;
    default:
      return NAN;
  }
}

inline std::vector<double> ReferenceStage(StageOp op, ComputeType type,
                                          const std::vector<std::vector<double>>& in, double i0, double i1) {
  const bool integer = type == ComputeType::kS32 || type == ComputeType::kS64;
  std::vector<double> out;
  for (size_t i = 0; i < in[0].size(); ++i) {
    out.push_back(
        RefStage(op, integer, in[0][i], in.size() > 1 ? in[1][i] : 0, in.size() > 2 ? in[2][i] : 0, i0, i1));
  }
  return out;
}

// Every slot of an all-f32 program over rows x cols; per-row slots hold their value cols times over.
inline std::vector<std::vector<double>> ReferenceSlots(const Program& p,
                                                       const std::vector<std::vector<double>>& inputs,
                                                       int64_t rows, int64_t cols) {
  std::vector<std::vector<double>> v(p.slots.size(), std::vector<double>(rows * cols));
  for (int i = 0; i < p.num_inputs; ++i) v[i] = inputs[i];
  for (const Stage& s : p.stages) {
    for (int64_t r = 0; r < rows; ++r) {
      double acc = s.op == StageOp::kRowProd  ? 1
                   : s.op == StageOp::kRowMax ? -INFINITY
                   : s.op == StageOp::kRowMin ? INFINITY
                                              : 0;
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t i = r * cols + c;
        const double x = Info(s.op).arity > 0 ? v[s.src[0]][i] : 0;
        switch (s.op) {
          case StageOp::kConst:
            v[s.dst][i] = s.imm[0];
            break;
          case StageOp::kRowSum:
          case StageOp::kRowMean:
            acc += x;
            break;
          case StageOp::kRowSumSquare:
            acc += x * x;
            break;
          case StageOp::kRowProd:
            acc *= x;
            break;
          case StageOp::kRowMax:
            acc = std::isnan(x) || std::isnan(acc) ? NAN : std::fmax(acc, x);
            break;
          case StageOp::kRowMin:
            acc = std::isnan(x) || std::isnan(acc) ? NAN : std::fmin(acc, x);
            break;
          default:
            v[s.dst][i] = RefStage(s.op, false, x, Info(s.op).arity > 1 ? v[s.src[1]][i] : 0,
                                   Info(s.op).arity > 2 ? v[s.src[2]][i] : 0, s.imm[0], s.imm[1]);
        }
      }
      if (!IsRowReduction(s.op)) continue;
      if (s.op == StageOp::kRowMean) acc /= static_cast<double>(cols);
      for (int64_t c = 0; c < cols; ++c) v[s.dst][r * cols + c] = acc;
      if (cols == 0) v[s.dst].push_back(acc);  // a reduction over nothing still has a value
    }
  }
  return v;
}

// The outputs; per-row outputs as one value per row.
inline std::vector<std::vector<double>> ReferenceProgram(const Program& p,
                                                         const std::vector<std::vector<double>>& inputs,
                                                         int64_t rows, int64_t cols) {
  const auto v = ReferenceSlots(p, inputs, rows, cols);
  std::vector<std::vector<double>> out;
  for (SlotId o : p.outputs) {
    if (!p.slots[o].per_row) {
      out.push_back(v[o]);
      continue;
    }
    std::vector<double> values;
    for (int64_t r = 0; r < rows; ++r) values.push_back(v[o][cols == 0 ? r : r * cols]);
    out.push_back(values);
  }
  return out;
}

// Tolerances scaled, element by element, by the largest value that any slot takes there.
inline std::vector<double> ScaledTolerance(const Program& p, const std::vector<std::vector<double>>& inputs,
                                           std::vector<double> tol, int64_t n) {
  const auto v = ReferenceSlots(p, inputs, 1, n);
  for (int64_t i = 0; i < n; ++i) {
    double largest = 1;
    for (const auto& slot : v) largest = std::fmax(largest, std::fabs(slot[i]));
    tol[i] *= largest * largest;
  }
  return tol;
}

inline std::vector<double> BroadcastValues(const std::vector<double>& v, const Dims& from, const Dims& to) {
  std::vector<double> out;
  const int64_t n = NumElements(to);
  const int pad = to.rank() - from.rank();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0, scale = 1;
    for (int d = to.rank() - 1; d >= 0; --d) {
      const int64_t index = rest % to[d];
      rest /= to[d];
      if (d < pad) continue;
      if (from[d - pad] != 1) at += index * scale;
      scale *= from[d - pad];
    }
    out.push_back(v[at]);
  }
  return out;
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_REFERENCE_FOR_TEST_H_
