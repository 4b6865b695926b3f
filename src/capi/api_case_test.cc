// The engine behind api_case.h.
#include "capi/api_case.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "capi/objects.h"
#include "op/declaration.h"

namespace opsnn::capi {
namespace {

using op::Contains;
using testing::ReadElement;
using testing::WriteElement;

// One call: objects for every argument, made from tensors and numbers.
class ApiCall {
 public:
  ApiCall(const OpsnnFunction& f, const ApiCase& k, DType t) : f_(f), k_(k), dtype_(t) {}
  ~ApiCall() {
    for (aclScalar* s : scalars_) aclDestroyScalar(s);
  }

  // Tensors in the order of the prototype.
  int Run(const std::vector<aclTensor*>& tensors, aclrtStream stream, int null_param = -1) {
    std::vector<OpsnnArg> args;
    size_t tensor = 0, number = 0;
    for (const Param& p : f_.params) {
      OpsnnArg a{};
      switch (p.kind) {
        case ParamKind::kTensor:
          a.p = tensors[tensor++];
          break;
        case ParamKind::kScalar:
          a.p = MakeScalar(Number(number++));
          break;
        case ParamKind::kDouble:
          a.d = Number(number++);
          break;
        case ParamKind::kString:
          a.p = k_.text;
          break;
        default:
          a.i = static_cast<int64_t>(Number(number++));
      }
      if (static_cast<int>(args.size()) == null_param) a.p = nullptr;
      args.push_back(a);
    }
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    int code = opsnn_aclnn_plan(&f_, args.data(), static_cast<int>(args.size()), &size, &executor);
    if (code) return code;
    void* workspace = nullptr;
    if (size) aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    code = opsnn_aclnn_run(&f_, workspace, size, executor, stream);
    if (!code) code = aclrtSynchronizeStream(stream);
    if (workspace) aclrtFree(workspace);
    return code;
  }

 private:
  double Number(size_t i) const {
    EXPECT_LT(i, k_.scalars.size()) << k_.api << ": the case has too few scalars";
    return i < k_.scalars.size() ? k_.scalars[i] : 0;
  }
  // Whole numbers go to integer tensors as integers.
  aclScalar* MakeScalar(double v) {
    int64_t whole = static_cast<int64_t>(v);
    float real = static_cast<float>(v);
    const bool integer = !IsFloat(dtype_) && static_cast<double>(whole) == v;
    scalars_.push_back(integer ? aclCreateScalar(&whole, ACL_INT64) : aclCreateScalar(&real, ACL_FLOAT));
    return scalars_.back();
  }

  const OpsnnFunction& f_;
  const ApiCase& k_;
  DType dtype_;
  std::vector<aclScalar*> scalars_;
};

double AsStored(DType t, double v) {
  char bytes[8];
  WriteElement(bytes, t, v);
  return ReadElement(bytes, t);
}

// Integer results wrap, as a C cast does.
double Wrapped(DType t, double x) {
  if (IsFloat(t) || t == DType::kBool || t == DType::kS64 || !std::isfinite(x)) return AsStored(t, x);
  const double range = std::ldexp(1.0, static_cast<int>(SizeOf(t)) * 8),
               low = Info(t).is_signed ? -range / 2 : 0;
  x = std::trunc(x);
  return x - range * std::floor((x - low) / range);
}

class Harness {
 public:
  Harness(const ApiCase& k, Rng& rng, aclrtStream stream) : k_(k), rng_(rng), stream_(stream) {}

  void Run() {
    const OpsnnFunction* f = opsnn_aclnn_find(k_.api);
    ASSERT_NE(f, nullptr) << k_.api << " is not implemented";
    RunFunction(*f, false);
    const std::string in_place = "aclnnInplace" + std::string(k_.api).substr(5);
    const OpsnnFunction* g = opsnn_aclnn_find(in_place.c_str());
    if (g && k_.in_place) RunFunction(*g, true);
  }

 private:
  static std::vector<int> TensorParams(const OpsnnFunction& f) {
    std::vector<int> out;
    for (size_t i = 0; i < f.params.size(); ++i) {
      if (f.params[i].kind == ParamKind::kTensor) out.push_back(static_cast<int>(i));
    }
    return out;
  }

  void RunFunction(const OpsnnFunction& f, bool in_place) {
    const Param& first = f.params[static_cast<size_t>(TensorParams(f)[0])];
    int tried = 0;
    for (int i = 0; i < kNumDTypes; ++i) {
      const DType t = static_cast<DType>(i);
      if (first.has_dtypes && !Contains(first.dtypes, t)) continue;
      if (t == DType::kBool && !k_.bools) continue;
      const DType result = ResultType(f, t);
      if (in_place && result != t && !(k_.result == &BoolResult)) continue;
      ++tried;
      for (int round = 0; round < 3; ++round) Compute(f, t, in_place ? t : result, in_place);
      if (failed_) return;
    }
    EXPECT_GT(tried, 0) << f.api;
    Refusals(f, in_place);
  }

  DType ResultType(const OpsnnFunction& f, DType t) const {
    // A bool and an integer scalar meet in the scalar's type.
    if (t == DType::kBool && k_.scalar_operand) return DType::kS64;
    const DType wanted = k_.result ? k_.result(t) : t;
    for (int p : TensorParams(f)) {
      const Param& param = f.params[static_cast<size_t>(p)];
      if (param.dir != op::ParamDir::kOut) continue;
      if (!param.has_dtypes || Contains(param.dtypes, wanted)) return wanted;
      return Contains(param.dtypes, DType::kF32) ? DType::kF32 : FirstOf(param.dtypes);
    }
    return wanted;
  }

  std::vector<double> Values(DType t, int64_t n, int operand) {
    std::vector<double> v(static_cast<size_t>(n));
    const double lo = t == DType::kBool || t == DType::kU8 ? std::max(0.0, k_.lo) : k_.lo;
    for (double& x : v) x = AsStored(t, t == DType::kBool ? rng_.Int(k_.lo > 0, 1) : rng_.Real(lo, k_.hi));
    if (!IsFloat(t)) return v;
    if (!k_.special) return v;
    const double inf = std::numeric_limits<double>::infinity();
    const double specials[] = {inf, -inf, std::nan(""), 0.0, -0.0, 3, -3, 1};
    for (double& x : v) {
      const auto pick = static_cast<size_t>(rng_.Int(0, 19));
      if (pick >= std::size(specials)) continue;
      const double special = specials[pick];
      // One operand gets Inf and NaN, the others numbers: 0 * Inf is the limit of nothing.
      const bool fits = std::isfinite(special) ? special >= k_.lo && special <= k_.hi : operand == selected_;
      if (fits) x = special;
    }
    return v;
  }

  void Compute(const OpsnnFunction& f, DType t, DType result, bool in_place) {
    const Dims dims = rng_.Shape(0, 5, 600, true);
    std::vector<std::unique_ptr<ApiTensor>> tensors;
    std::vector<aclTensor*> handles;
    std::vector<std::vector<double>> inputs;
    ApiTensor* out = nullptr;
    int num_inputs = 0;
    for (int p : TensorParams(f)) num_inputs += f.params[static_cast<size_t>(p)].dir != op::ParamDir::kOut;
    // Special values in one operand at a time.
    selected_ = static_cast<int>(rng_.Int(0, num_inputs - 1));
    for (int p : TensorParams(f)) {
      const Param& param = f.params[static_cast<size_t>(p)];
      const bool is_out = param.dir == op::ParamDir::kOut;
      const bool narrow = param.has_dtypes && !Contains(param.dtypes, t);
      DType own = is_out ? result : t;
      if (!is_out && narrow) own = FirstOf(param.dtypes);
      Dims d = dims;
      if (!is_out && k_.broadcast && !inputs.empty() && rng_.Chance(0.4)) {
        for (int i = 0; i < d.rank(); ++i) d[i] = rng_.Chance(0.3) ? 1 : d[i];
      }
      tensors.push_back(std::make_unique<ApiTensor>(own, d, &rng_, rng_.Chance(0.5)));
      handles.push_back(*tensors.back());
      if (is_out) {
        if (!out) out = tensors.back().get();
        continue;
      }
      if (in_place && !out) out = tensors.back().get();
      tensors.back()->Set(Values(own, NumElements(d), static_cast<int>(inputs.size())));
      inputs.push_back(Spread(tensors.back()->Get(), d, dims));
    }
    ApiCall call(f, k_, t);
    const std::string what = std::string(f.api) + " " + Name(t) + " " + ToString(dims);
    const int code = call.Run(handles, stream_);
    failed_ = failed_ || code != 0;
    ASSERT_EQ(code, 0) << what << ": " << Message();
    ASSERT_NE(out, nullptr) << what;
    std::vector<double> want, tolerance;
    std::vector<double> x(inputs.size());
    for (int64_t i = 0; i < NumElements(dims); ++i) {
      for (size_t j = 0; j < inputs.size(); ++j) x[j] = inputs[j][static_cast<size_t>(i)];
      const double exact = k_.f(x.data(), k_.scalars.data());
      want.push_back(Wrapped(result, exact));
      tolerance.push_back(Bound(exact, result, k_.condition ? k_.condition(x.data(), k_.scalars.data()) : 1));
    }
    const std::string differs = testing::Compare(out->Get(), want, tolerance);
    failed_ = failed_ || !differs.empty();
    EXPECT_EQ(differs, "") << what << Operands(inputs, differs);
    for (const auto& tensor : tensors) EXPECT_TRUE(tensor->memory().GuardsIntact()) << what;
  }

  double Bound(double exact, DType result, double condition) const {
    if (!std::isfinite(exact) || (!IsFloat(result) && k_.ulps == 0)) return 0;
    const double eps = result == DType::kF64 ? 0x1p-52 : 0x1p-23;
    const double computed = (k_.ulps * std::fabs(exact) + k_.absolute) * eps * condition;
    // An error before truncation moves an integer by one.
    if (!IsFloat(result)) return result == DType::kBool ? 0 : computed > 0 ? 1 : 0;
    const double smallest = result == DType::kF16 ? 0x1p-24 : result == DType::kF64 ? 1e-300 : 0x1p-126;
    const double rounding = IsHalf(result) ? 2 * testing::Epsilon(result) * std::fabs(exact) : 0;
    return computed + rounding + (k_.ulps > 0 ? smallest : 0);
  }

  void Refusals(const OpsnnFunction& f, bool in_place) {
    const std::vector<int> params = TensorParams(f);
    const Param& first = f.params[static_cast<size_t>(params[0])];
    DType t = DType::kF32;
    if (first.has_dtypes && !Contains(first.dtypes, t)) t = FirstOf(first.dtypes);
    const DType result = in_place ? t : ResultType(f, t);
    auto make = [&](const Dims& dims, int other_param, DType other, const Dims& other_dims) {
      std::vector<std::unique_ptr<ApiTensor>> made;
      for (int p : params) {
        const Param& param = f.params[static_cast<size_t>(p)];
        DType own = param.dir == op::ParamDir::kOut ? result : t;
        if (param.has_dtypes && !Contains(param.dtypes, own)) own = FirstOf(param.dtypes);
        made.push_back(std::make_unique<ApiTensor>(p == other_param ? other : own,
                                                   p == other_param ? other_dims : dims));
      }
      return made;
    };
    auto handles = [](const std::vector<std::unique_ptr<ApiTensor>>& made) {
      std::vector<aclTensor*> h;
      for (const auto& m : made) h.push_back(*m);
      return h;
    };
    ApiCall call(f, k_, t);
    const Dims dims{2, 3};
    {
      const auto made = make(Dims{2, 0, 3}, -1, t, dims);
      EXPECT_EQ(call.Run(handles(made), stream_), 0) << f.api << " on empty tensors: " << Message();
    }
    for (size_t p = 0; p < f.params.size(); ++p) {
      const Param& param = f.params[p];
      const bool pointer = param.kind == ParamKind::kTensor || param.kind == ParamKind::kScalar;
      if (!pointer || param.optional) continue;
      const auto made = make(dims, -1, t, dims);
      ExpectRefused(call.Run(handles(made), stream_, static_cast<int>(p)), 161001,
                    {f.api, param.name, "null"});
    }
    for (int p : params) {
      const Param& param = f.params[static_cast<size_t>(p)];
      if (!param.has_dtypes) continue;
      for (int i = 0; i < kNumDTypes; ++i) {
        const DType bad = static_cast<DType>(i);
        if (Contains(param.dtypes, bad)) continue;
        const auto made = make(dims, p, bad, dims);
        ExpectRefused(call.Run(handles(made), stream_), 161002, {f.api, param.name, Name(bad), "allowed"});
        break;
      }
    }
    const auto made = make(dims, params.back(),
                           in_place && params.size() == 1 ? t : LastType(f, params, t, result), Dims{2, 4});
    if (params.size() > 1 && k_.checks_shapes) {
      const int code = call.Run(handles(made), stream_);
      EXPECT_EQ(code, 161002) << f.api << ": a shape that does not fit";
      const std::string message = Message();
      EXPECT_NE(message.find(f.api), std::string::npos) << message;
      EXPECT_NE(message.find(f.params[static_cast<size_t>(params.back())].name), std::string::npos)
          << message;
    }
  }

  static DType FirstOf(op::DTypeMask mask) {
    for (int i = 0; i < kNumDTypes; ++i) {
      if (Contains(mask, static_cast<DType>(i))) return static_cast<DType>(i);
    }
    return DType::kF32;
  }
  DType LastType(const OpsnnFunction& f, const std::vector<int>& params, DType t, DType result) const {
    const Param& last = f.params[static_cast<size_t>(params.back())];
    const DType own = last.dir == op::ParamDir::kOut ? result : t;
    return last.has_dtypes && !Contains(last.dtypes, own) ? FirstOf(last.dtypes) : own;
  }

  static std::string Message() {
    const char* m = aclGetRecentErrMsg();
    return m ? m : "(no message)";
  }

  // The operands at the place that Compare names.
  static std::string Operands(const std::vector<std::vector<double>>& inputs, const std::string& differs) {
    const size_t digit = differs.find_first_of("0123456789");
    if (digit == std::string::npos) return "";
    const auto at = static_cast<size_t>(std::stoll(differs.substr(digit)));
    std::string text = " at operands";
    for (const auto& v : inputs) {
      if (at < v.size()) text += StrFormat(" %.9g", v[at]);
    }
    return text;
  }

  static std::vector<double> Spread(const std::vector<double>& v, const Dims& from, const Dims& to) {
    std::vector<double> out;
    const int64_t n = NumElements(to);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (int d = to.rank() - 1; d >= 0; --d) {
        const int64_t index = rest % to[d];
        rest /= to[d];
        if (from[d] != 1) at += index * step;
        step *= from[d];
      }
      out.push_back(v[static_cast<size_t>(at)]);
    }
    return out;
  }

  const ApiCase& k_;
  Rng& rng_;
  aclrtStream stream_;
  int selected_ = 0;
  bool failed_ = false;  // one report of a function is enough
};

}  // namespace

void TestApi(const ApiCase& k, Rng& rng, aclrtStream stream) { Harness(k, rng, stream).Run(); }

}  // namespace opsnn::capi
