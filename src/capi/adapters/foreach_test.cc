// Functions over lists of tensors, against double arithmetic.
#include <cmath>
#include <memory>

#include "aclnnop/aclnn_foreach_add_list.h"
#include "aclnnop/aclnn_foreach_add_scalar_list.h"
#include "aclnnop/aclnn_foreach_non_finite_check_and_unscale.h"
#include "aclnnop/aclnn_foreach_norm.h"
#include "aclnnop/aclnn_foreach_zero_inplace.h"
#include "capi/aclnn_tester.h"
#include "capi/function.h"

namespace opsnn::capi {
namespace {

// x: the members of the lists at one element; s: the factor.
struct ForeachCase {
  const char* api;
  double (*f)(const double* x, double s);
  double lo = -4, hi = 4, factor = 0.5;
  double ulps = 8;
};

double RoundedBy(double x, double mode) {
  const double down = std::floor(x), rest = x - down;
  if (mode == 2) return down;
  if (mode == 3) return std::ceil(x);
  if (mode == 4) return std::round(x);
  if (mode == 5) return std::trunc(x);
  if (mode == 6 && rest == 0.5) return std::fmod(down, 2) == 0 ? down + 1 : down;
  return std::nearbyint(x);
}

#define X0(expression) [](const double* x, double) -> double { return expression; }
#define XS(expression) [](const double* x, double s) -> double { return expression; }
const ForeachCase kCases[] = {
    {"Abs", X0(std::abs(x[0]))},
    {"Acos", X0(std::acos(x[0])), -1, 1},
    {"ACosInplace", X0(std::acos(x[0])), -1, 1},
    {"Asin", X0(std::asin(x[0])), -1, 1},
    {"Atan", X0(std::atan(x[0]))},
    {"Cos", X0(std::cos(x[0]))},
    {"Cosh", X0(std::cosh(x[0]))},
    {"Erf", X0(std::erf(x[0]))},
    {"Erfc", X0(std::erfc(x[0])), -2, 2, 0, 64},
    {"Exp", X0(std::exp(x[0]))},
    {"Expm1", X0(std::expm1(x[0]))},
    {"Log", X0(std::log(x[0])), 1, 9},
    {"LogInplace", X0(std::log(x[0])), 1, 9},
    {"Log10", X0(std::log10(x[0])), 1, 9},
    {"Log1p", X0(std::log1p(x[0])), 0, 9},
    {"Log2", X0(std::log2(x[0])), 1, 9},
    {"Neg", X0(-x[0])},
    {"Reciprocal", X0(1 / x[0]), 1, 9},
    {"Sigmoid", X0(1 / (1 + std::exp(-x[0])))},
    {"Sign", X0((x[0] > 0) - (x[0] < 0))},
    {"Sin", X0(std::sin(x[0]))},
    {"Sinh", X0(std::sinh(x[0]))},
    {"Tan", X0(std::tan(x[0])), -1, 1},
    {"Tanh", X0(std::tanh(x[0]))},
    {"Sqrt", X0(std::sqrt(x[0])), 0, 9},
    {"Copy", X0(x[0])},
    {"AddList", XS(x[0] + s * x[1])},
    {"AddListV2", XS(x[0] + s * x[1])},
    {"AddListInplace", XS(x[0] + s * x[1])},
    {"AddScalar", XS(x[0] + s)},
    {"AddScalarV2", XS(x[0] + s)},
    {"AddScalarList", XS(x[0] + s)},
    {"SubList", XS(x[0] - s * x[1])},
    {"SubListV2", XS(x[0] - s * x[1])},
    {"SubListInplace", XS(x[0] - s * x[1])},
    {"SubScalar", XS(x[0] - s)},
    {"SubScalarV2", XS(x[0] - s)},
    {"SubScalarList", XS(x[0] - s)},
    {"SubScalarInplace", XS(x[0] - s)},
    {"MulList", X0(x[0] * x[1])},
    {"MulListInplace", X0(x[0] * x[1])},
    {"MulScalar", XS(x[0] * s)},
    {"MulScalarV2", XS(x[0] * s)},
    {"MulScalarInplace", XS(x[0] * s)},
    {"MulScalarList", XS(x[0] * s)},
    {"DivList", X0(x[0] / x[1]), 1, 9},
    {"DivListInplace", X0(x[0] / x[1]), 1, 9},
    {"DivScalar", XS(x[0] / s)},
    {"DivScalarV2", XS(x[0] / s)},
    {"DivScalarList", XS(x[0] / s)},
    {"MaximumList", X0(std::max(x[0], x[1]))},
    {"MaximumScalar", XS(std::max(x[0], s))},
    {"MaximumScalarV2", XS(std::max(x[0], s))},
    {"MaximumScalarList", XS(std::max(x[0], s))},
    {"MinimumList", X0(std::min(x[0], x[1]))},
    {"MinimumScalar", XS(std::min(x[0], s))},
    {"MinimumScalarV2", XS(std::min(x[0], s))},
    {"MinimumScalarList", XS(std::min(x[0], s))},
    {"PowList", X0(std::pow(x[0], x[1])), 1, 3, 0, 64},
    {"PowScalar", XS(std::pow(x[0], s)), 1, 4, 2, 64},
    {"PowScalarV2", XS(std::pow(x[0], s)), 1, 4, 2, 64},
    {"PowScalarList", XS(std::pow(x[0], s)), 1, 4, 2, 64},
    {"PowScalarAndTensor", XS(std::pow(s, x[0])), 1, 4, 2, 64},
    {"LerpList", X0(x[0] + x[2] * (x[1] - x[0])), 0, 1},
    {"LerpScalar", XS(x[0] + s * (x[1] - x[0])), 0, 4},
    {"AddcmulScalar", XS(x[0] + s * x[1] * x[2]), 0, 4},
    {"AddcmulScalarV2", XS(x[0] + s * x[1] * x[2]), 0, 4},
    {"AddcmulScalarList", XS(x[0] + s * x[1] * x[2]), 0, 4},
    {"AddcmulList", XS(x[0] + s * x[1] * x[2]), 0, 4},
    {"AddcdivScalar", XS(x[0] + s * x[1] / x[2]), 1, 4},
    {"AddcdivScalarV2", XS(x[0] + s * x[1] / x[2]), 1, 4},
    {"AddcdivScalarList", XS(x[0] + s * x[1] / x[2]), 1, 4},
    {"AddcdivList", XS(x[0] + s * x[1] / x[2]), 1, 4},
    {"RoundOffNumber", XS(RoundedBy(x[0], s)), -4, 4, 1},
    {"RoundOffNumber", XS(RoundedBy(x[0], s)), -4, 4, 4},
    {"RoundOffNumberV2", XS(RoundedBy(x[0], s)), -4, 4, 2},
    {"RoundOffNumberV2", XS(RoundedBy(x[0], s)), -4, 4, 3},
    {"RoundOffNumberV2", XS(RoundedBy(x[0], s)), -4, 4, 5},
    {"RoundOffNumberV2", XS(RoundedBy(x[0], s)), -4, 4, 6},
};

using Tensors = std::vector<std::unique_ptr<ApiTensor>>;

// The same list again for every call: destroying a list destroys its members, so tests make their own
// tensors.
aclTensorList* ListOf(const Tensors& tensors) {
  std::vector<aclTensor*> handles;
  for (const auto& t : tensors) handles.push_back(*t);
  return aclCreateTensorList(handles.data(), handles.size());
}

class Foreach : public ApiTest {
 protected:
  Tensors MakeList(DType t, const std::vector<Dims>& shapes, double lo, double hi, bool strided) {
    Tensors list;
    for (const Dims& d : shapes) {
      list.push_back(std::make_unique<ApiTensor>(t, d, &rng_, strided && d.rank() > 0));
      list.back()->memory().FillRandom(rng_, lo, hi);
    }
    return list;
  }

  void Run(const ForeachCase& k, DType t, bool strided) {
    const std::string api = std::string("aclnnForeach") + k.api;
    const OpsnnFunction* f = opsnn_aclnn_find(api.c_str());
    ASSERT_NE(f, nullptr) << api;
    std::vector<Dims> shapes;
    for (int64_t i = rng_.Int(1, 4); i > 0; --i) shapes.push_back(rng_.Shape(0, 4, 700));
    const double factor = IsFloat(t) ? k.factor : std::max(1.0, k.factor);
    std::vector<Tensors> inputs;
    Tensors result;
    const Tensors* written = &result;
    std::vector<OpsnnArg> args;
    std::vector<std::unique_ptr<ApiTensor>> factor_tensors;
    std::vector<aclScalar*> scalars;
    inputs.reserve(4);
    auto scalar = [&] {
      float real = static_cast<float>(factor);
      int64_t whole = static_cast<int64_t>(factor);
      return IsFloat(t) ? aclCreateScalar(&real, ACL_FLOAT) : aclCreateScalar(&whole, ACL_INT64);
    };
    for (const Param& p : f->params) {
      OpsnnArg a{};
      if (p.kind == ParamKind::kTensorList && p.dir == op::ParamDir::kOut) {
        result = MakeList(t, shapes, 0, 1, strided);
        a.p = ListOf(result);
      } else if (p.kind == ParamKind::kTensorList) {
        inputs.push_back(MakeList(t, shapes, k.lo, k.hi, strided && inputs.size() % 2 == 0));
        a.p = ListOf(inputs.back());
        if (p.is_output()) written = &inputs.back();
      } else if (p.kind == ParamKind::kTensor) {
        const bool each = std::string(p.name) == "scalars";
        const DType type = std::string(p.name) == "roundMode" ? DType::kS8
                           : IsFloat(t)                       ? DType::kF32
                                                              : DType::kS32;
        factor_tensors.push_back(
            std::make_unique<ApiTensor>(type, Dims{each ? static_cast<int64_t>(shapes.size()) : 1}, &rng_));
        factor_tensors.back()->Set(std::vector<double>(each ? shapes.size() : 1, factor));
        a.p = static_cast<aclTensor*>(*factor_tensors.back());
      } else if (p.kind == ParamKind::kScalar) {
        scalars.push_back(scalar());
        a.p = scalars.back();
      } else {
        std::vector<aclScalar*> all;
        for (size_t i = 0; i < shapes.size(); ++i) all.push_back(scalar());
        a.p = aclCreateScalarList(all.data(), all.size());
      }
      args.push_back(a);
    }
    std::vector<std::vector<std::vector<double>>> values;
    for (const Tensors& list : inputs) {
      values.emplace_back();
      for (const auto& x : list) values.back().push_back(x->Get());
    }
    const int code = this->Finish(
        opsnn_aclnn_plan(f, args.data(), static_cast<int>(args.size()), &workspace_size_, &executor_),
        [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) { return opsnn_aclnn_run(f, w, n, e, s); });
    ASSERT_EQ(code, 0) << api << " " << Name(t) << ": " << aclGetRecentErrMsg();
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<double> want;
      for (size_t e = 0; e < values[0][i].size(); ++e) {
        double x[4] = {};
        for (size_t l = 0; l < values.size(); ++l) x[l] = values[l][i][e];
        want.push_back(k.f(x, factor));
      }
      std::vector<double> tolerance = PointwiseTolerance(want, t, k.ulps);
      for (double& v : tolerance) v += IsFloat(t) ? 0x1p-20 : 0;  // terms cancel
      EXPECT_EQ(Compare((*written)[i]->Get(), want, tolerance), "") << api << " " << Name(t) << " " << i;
      EXPECT_TRUE((*written)[i]->memory().GuardsIntact());
    }
    for (aclScalar* s : scalars) aclDestroyScalar(s);
  }

  Rng rng_;
};

TEST_F(Foreach, AgainstDoubles) {
  for (const ForeachCase& k : kCases) {
    const std::string api = std::string("aclnnForeach") + k.api;
    const OpsnnFunction* f = opsnn_aclnn_find(api.c_str());
    ASSERT_NE(f, nullptr) << api;
    const auto& first = f->params[f->params[0].kind == ParamKind::kTensorList ? 0 : 1];
    int tried = 0;
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kS32, DType::kS16}) {
      if (!op::Contains(first.dtypes, t) || !op::Contains(f->op->declaration->inputs[0].dtypes, t)) continue;
      if (!IsFloat(t) && std::string(k.api).find("Lerp") == 0) continue;
      ++tried;
      for (int round = 0; round < 2; ++round) Run(k, t, round);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(tried, 2) << api;
  }
}

TEST_F(Foreach, NormOfEachMember) {
  for (double p : {0.0, 1.0, 2.0, 3.0, HUGE_VAL}) {
    for (DType t : kFloats) {
      const std::vector<Dims> shapes = {{3, 5}, {}, {7}, {0}};
      Tensors x = MakeList(t, shapes, -2, 2, true), y = MakeList(t, {{}, {1}, {}, {}}, 0, 1, false);
      if (std::isinf(p)) x.pop_back(), y.pop_back();  // nothing is the largest of none
      ApiScalar order(static_cast<float>(p));
      ASSERT_EQ(CALL(aclnnForeachNorm, ListOf(x), order, ListOf(y)), 0) << aclGetRecentErrMsg();
      for (size_t i = 0; i < x.size(); ++i) {
        double sum = 0;
        for (double v : x[i]->Get()) {
          sum =
              std::isinf(p) ? std::max(sum, std::abs(v)) : sum + (p == 0 ? v != 0 : std::pow(std::abs(v), p));
        }
        const std::vector<double> want = {p == 0 || std::isinf(p) ? sum : std::pow(sum, 1 / p)};
        EXPECT_EQ(Compare(y[i]->Get(), want, PointwiseTolerance(want, t, 64)), "") << p << " " << Name(t);
      }
    }
  }
}

TEST_F(Foreach, ZeroAndUnscale) {
  Tensors zero = MakeList(DType::kF16, {{3}, {2, 2}, {}}, 1, 2, true);
  ASSERT_EQ(CALL(aclnnForeachZeroInplace, ListOf(zero)), 0) << aclGetRecentErrMsg();
  for (const auto& z : zero) EXPECT_EQ(z->Get(), std::vector<double>(z->Get().size(), 0));
  for (const double bad : {0.0, HUGE_VAL, std::nan("")}) {
    for (DType t : kFloats) {
      Tensors grads = MakeList(t, {{40}, {2, 3}, {0}}, -4, 4, false);
      auto values = grads[1]->Get();
      values[4] = bad;
      grads[1]->Set(values);
      const std::vector<double> before = grads[0]->Get();
      ApiTensor found(DType::kF32, {1}), scale(DType::kF32, {1});
      found.Set({0});
      scale.Set({0.25});
      ASSERT_EQ(CALL(aclnnForeachNonFiniteCheckAndUnscale, ListOf(grads), found, scale), 0)
          << aclGetRecentErrMsg();
      EXPECT_EQ(found.Get()[0], bad != 0 ? 1 : 0) << bad;
      std::vector<double> want;
      for (double v : before) want.push_back(v * 0.25);
      EXPECT_EQ(Compare(grads[0]->Get(), want, PointwiseTolerance(want, t, 2)), "");
    }
  }
}

TEST_F(Foreach, Refuses) {
  const std::vector<Dims> shapes = {{2, 3}, {4}};
  Tensors x = MakeList(DType::kF32, shapes, 0, 1, false), y = MakeList(DType::kF32, shapes, 0, 1, false);
  Tensors halves = MakeList(DType::kF16, shapes, 0, 1, false),
          few = MakeList(DType::kF32, {{2, 3}}, 0, 1, false);
  Tensors other = MakeList(DType::kF32, {{2, 3}, {5}}, 0, 1, false);
  ApiTensor alpha(DType::kF32, {1}), two(DType::kF32, {2});
  ExpectRefused(CALL(aclnnForeachAddList, ListOf(x), ListOf(halves), alpha, ListOf(y)), 161002,
                {"x2[0] has dtype f16", "f32"});
  ExpectRefused(CALL(aclnnForeachAddList, ListOf(x), ListOf(few), alpha, ListOf(y)), 161002,
                {"x2 has 1 tensors", "2"});
  ExpectRefused(CALL(aclnnForeachAddList, ListOf(x), ListOf(y), alpha, ListOf(other)), 161002,
                {"out[1] has shape [5]", "[4]"});
  ExpectRefused(CALL(aclnnForeachAddList, ListOf(x), ListOf(y), two, ListOf(y)), 161002,
                {"alpha is of 2 elements"});
  ExpectRefused(CALL(aclnnForeachAddList, ListOf(x), nullptr, alpha, ListOf(y)), 161001, {"x2 is null"});
  float v = 1;
  aclScalar* one[] = {aclCreateScalar(&v, ACL_FLOAT)};
  ExpectRefused(CALL(aclnnForeachAddScalarList, ListOf(x), aclCreateScalarList(one, 1), ListOf(y)), 161002,
                {"scalars is a list of 1", "2"});
}

}  // namespace
}  // namespace opsnn::capi
