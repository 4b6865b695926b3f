// Table-driven tests of pointwise operators: every dtype the declaration lists, random shapes, broadcasting,
// strided and aliased operands, special values; against the double-precision reference. For tests.
#ifndef OPSNN_OP_POINTWISE_TESTER_H_
#define OPSNN_OP_POINTWISE_TESTER_H_

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "op/op_tester.h"
#include "op/pointwise.h"
#include "ref/ref.h"

namespace opsnn::op {

struct PointwiseCase {
  const char* op;
  int arity = 1;
  double lo = -4, hi = 4;  // operand values; integers are drawn from the same range
  double ulps = 4;         // bound on the f32 stage, in units of f32's epsilon
  double absolute = 0;     // the same as an absolute bound, where terms of that size cancel
  Attrs attrs;
  bool first_is_bool = false;       // Where's condition
  bool limit_at_minus_inf = false;  // 0 at -Inf, where the textbook formula in doubles says -Inf * 0
};

inline Attrs MakeAttrs(std::initializer_list<std::pair<const char*, AttrValue>> values) {
  Attrs a;
  for (const auto& [name, v] : values) a.Set(name, v);
  return a;
}

// `x` as dtype `t` stores it.
inline double RoundTo(DType t, double x) {
  double bits = 0;
  testing::WriteElement(&bits, t, x);
  return testing::ReadElement(&bits, t);
}

// Integer results wrap, as a C cast does.
inline double WrapTo(DType t, double x) {
  if (IsFloat(t) || t == DType::kBool || t == DType::kS64 || !std::isfinite(x)) return RoundTo(t, x);
  const double range = std::ldexp(1.0, static_cast<int>(SizeOf(t)) * 8),
               low = Info(t).is_signed ? -range / 2 : 0;
  x = std::trunc(x);
  return x - range * std::floor((x - low) / range);
}

// The smallest positive value of a float dtype: what an underflow may lose.
inline double SmallestValue(DType t) {
  switch (t) {
    case DType::kF64:
      return std::numeric_limits<double>::denorm_min();
    case DType::kF32:
      return 0x1p-149;
    case DType::kF16:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-133;
    default:
      return 0;
  }
}

inline ref::Tensor ToRef(const testing::GuardedTensor& t) { return {t.view().dtype, t.view().dims, t.Get()}; }

struct Reference {
  std::vector<ref::Tensor> outputs;
  std::vector<double> abs_sum;
  int64_t reduction_length = 1;
};

inline Reference Evaluate(const char* op, const Attrs& attrs, const std::vector<ref::Tensor>& in,
                          DType out_dtype, int num_outputs = 1) {
  std::vector<const ref::Tensor*> pointers;
  for (const auto& t : in) pointers.push_back(&t);
  ref::Call call;
  call.op = op;
  call.attrs = &attrs;
  call.inputs = pointers;
  call.num_outputs = num_outputs;
  call.output_dtype = out_dtype;
  const Status s = ref::Evaluate(call);
  EXPECT_TRUE(s.ok()) << s.message();
  return {std::move(call.outputs), std::move(call.abs_sum), call.reduction_length};
}

// An operand shape that broadcasts to `out`.
inline Dims BroadcastableTo(testing::Rng& rng, const Dims& out) {
  Dims d;
  const int drop = rng.Chance(0.3) ? static_cast<int>(rng.Int(0, out.rank())) : 0;
  for (int i = drop; i < out.rank(); ++i) d.push_back(rng.Chance(0.2) ? 1 : out[i]);
  return d;
}

inline std::vector<double> SpecialValues(DType t) {
  if (!IsFloat(t)) return {0, 1, 2, 3, 5};
  const double inf = std::numeric_limits<double>::infinity();
  return {0.0, -0.0, 1.0, -1.0, inf, -inf, std::nan(""), SmallestValue(t), -SmallestValue(t), 0.5, -2.5, 3.0};
}

// Reference, rounded to the result's dtype, with a bound per element.
inline void ExpectMatches(const PointwiseCase& k, const std::vector<ref::Tensor>& in, DType out_dtype,
                          const std::vector<double>& got, const std::string& what) {
  std::vector<double> want = Evaluate(k.op, k.attrs, in, out_dtype).outputs[0].v, tolerance;
  // f64 stages chain calls of the C library and roundings between them: twice the bound of the fused f32
  // forms.
  const double ulps = k.ulps * (out_dtype == DType::kF64 ? 2 : 1);
  const double eps = testing::Epsilon(out_dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  for (size_t i = 0; i < want.size(); ++i) {
    double& w = want[i];
    if (k.limit_at_minus_inf && in[0].v[i] == -std::numeric_limits<double>::infinity()) w = 0;
    w = IsFloat(in[0].dtype) ? RoundTo(out_dtype, w) : WrapTo(out_dtype, w);
    // Where the stage's error moves the value over a rounding boundary the result is one step away.
    const double step = k.ulps == 0 ? 0 : IsHalf(out_dtype) ? 2 * testing::Epsilon(out_dtype) : 0;
    const double lost = k.ulps == 0 ? 0 : k.ulps * SmallestValue(out_dtype);
    tolerance.push_back(std::isfinite(w) ? (ulps * eps + step) * std::fabs(w) + k.absolute * eps + lost : 0);
  }
  EXPECT_EQ("", testing::Compare(got, want, tolerance)) << k.op << " " << what;
}

inline void RunRandom(const PointwiseCase& k, DType t, testing::Rng& rng) {
  const Dims out = rng.Shape(0, 5, 3000, true);
  const bool in_place = k.arity > 0 && rng.Chance(0.3) && !k.first_is_bool;
  std::vector<testing::GuardedTensor> operands;
  std::vector<ref::Tensor> refs;
  for (int i = 0; i < k.arity; ++i) {
    const DType dtype = k.first_is_bool && i == 0 ? DType::kBool : t;
    // The first operand has the whole shape, so that the result has it too.
    const Dims dims = i == (k.first_is_bool ? 1 : 0) ? out : BroadcastableTo(rng, out);
    operands.emplace_back(dtype, dims, &rng, rng.Chance(0.5));
    operands.back().FillRandom(rng, dtype == DType::kU8 ? std::max(k.lo, 0.0) : k.lo, k.hi);
    refs.push_back(ToRef(operands.back()));
  }
  OpTester call(k.op);
  for (const auto& x : operands) call.In(x);
  for (const auto& [name, v] : k.attrs.all()) call.Attr(name, v);
  if (rng.Chance(0.5)) call.StridedOutputs(rng);
  ASSERT_TRUE(call.Infer().ok()) << k.op << ": " << call.status().message();
  const bool aliased = in_place && call.OutDesc().dtype == t;
  if (aliased) call.InPlace(0);
  ASSERT_TRUE(call.Run().ok()) << k.op << ": " << call.status().message();
  EXPECT_EQ(call.OutDesc().dims, out);
  ExpectMatches(k, refs, call.OutDesc().dtype, aliased ? operands[0].Get() : call.Out().Get(),
                StrFormat("%s %s%s", Name(t), ToString(out).c_str(), aliased ? " in place" : ""));
}

// All pairs of special values at once, long enough for vectors and tails.
inline void RunSpecials(const PointwiseCase& k, DType t) {
  const std::vector<double> values = SpecialValues(t);
  const int64_t n = static_cast<int64_t>(values.size());
  std::vector<testing::GuardedTensor> operands;
  std::vector<ref::Tensor> refs;
  for (int i = 0; i < k.arity; ++i) {
    const bool condition = k.first_is_bool && i == 0;
    operands.emplace_back(condition ? DType::kBool : t, Dims{n * n + 3});
    std::vector<double> v;
    for (int64_t j = 0; j < n * n + 3; ++j) {
      v.push_back(condition ? static_cast<double>(j % 3 == 0)
                            : values[static_cast<size_t>(i == 0 ? j % n : j / n % n)]);
    }
    operands.back().Set(v);
    refs.push_back(ToRef(operands.back()));
  }
  OpTester call(k.op);
  for (const auto& x : operands) call.In(x);
  for (const auto& [name, v] : k.attrs.all()) call.Attr(name, v);
  ASSERT_TRUE(call.Run().ok()) << k.op << ": " << call.status().message();
  ExpectMatches(k, refs, call.OutDesc().dtype, call.Out().Get(), StrFormat("%s specials", Name(t)));
}

inline void TestPointwise(const PointwiseCase& k, testing::Rng& rng, int milliseconds = 15) {
  const OpDef* def = FindOperator(k.op);
  ASSERT_NE(def, nullptr) << k.op;
  const DTypeMask dtypes = def->declaration->inputs[k.first_is_bool ? 1 : 0].dtypes;
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    if (!Contains(dtypes, t)) continue;
    RunSpecials(k, t);
    for (auto _ : testing::FuzzFor(milliseconds)) {
      RunRandom(k, t, rng);
      if (::testing::Test::HasFailure()) return;  // one report is enough
    }
  }
}

}  // namespace opsnn::op

#endif  // OPSNN_OP_POINTWISE_TESTER_H_
