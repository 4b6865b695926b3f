// Gradient checks: what a backward function gives is held against finite differences of the forward in double
// precision. A check names the inputs of the forward, the function that computes it, what is handed on (saved
// results, numbers), and which parameter holds the gradient of which input. tools/check_gradients.py asks for
// a check of every backward function, in a file src/capi/gradients/*_test.cc.
#ifndef OPSNN_CAPI_GRADIENTS_GRADIENT_TESTER_H_
#define OPSNN_CAPI_GRADIENTS_GRADIENT_TESTER_H_

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/aclnn_tester.h"
#include "capi/function.h"

namespace opsnn::capi {

// A tensor in double precision.
struct Array {
  Dims dims;
  std::vector<double> v;
  DType dtype = DType::kF32;

  double& operator[](int64_t i) { return v[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return v[static_cast<size_t>(i)]; }
  double at(const Index& i) const { return v[static_cast<size_t>(Linear(dims, i))]; }
  double& at(const Index& i) { return v[static_cast<size_t>(Linear(dims, i))]; }
  int64_t size() const { return static_cast<int64_t>(v.size()); }
};
using Arrays = std::map<std::string, Array>;
// The results of a forward, one after the other, in the order of `upstream`.
using Forward = std::function<std::vector<double>(const Arrays&)>;

class Gradient {
 public:
  Gradient(std::string api, Rng& rng) : api_(std::move(api)), rng_(rng) {}

  // A random array. Its values are odd multiples of 2^-12: f32 holds them, and the kinks that formulas have,
  // at multiples of larger powers, are further away than the step.
  Array Random(const Dims& dims, double lo = -2, double hi = 2) {
    Array a{dims, {}, DType::kF32};
    for (int64_t i = 0; i < NumElements(dims); ++i)
      a.v.push_back((2 * std::floor(rng_.Real(lo, hi) * 0x1p11) + 1) * 0x1p-12);
    return a;
  }
  // An input of the forward; with a parameter, also one of the backward function.
  Gradient& Input(const std::string& name, const Array& a) {
    inputs_[name] = a;
    return *this;
  }
  // Hands an input of the forward on as a parameter of the same name.
  Gradient& Pass(const std::string& name) { return Tensor(name, inputs_[name]); }
  Gradient& Tensor(const std::string& param, Array a) {
    tensors_[param] = std::move(a);
    return *this;
  }
  // The parameter of the gradient by a result of these dims; several in the order of the results.
  Gradient& Upstream(const std::string& param, const Dims& dims) {
    upstream_.push_back(param);
    tensors_[param] = Random(dims);
    return *this;
  }
  // The result parameter that holds the gradient by input `name`.
  Gradient& Gives(const std::string& param, const std::string& name) {
    results_.emplace_back(param, name);
    return *this;
  }
  // The same, given as whole numbers of `step`.
  Gradient& GivesRounded(const std::string& param, const std::string& name, double step) {
    steps_[param] = step;
    return Gives(param, name);
  }
  // A result that is not looked at.
  Gradient& Ignored(const std::string& param, const Dims& dims) {
    ignored_[param] = dims;
    return *this;
  }
  Gradient& Number(const std::string& param, double v) {
    numbers_[param] = v;
    return *this;
  }
  Gradient& Ints(const std::string& param, std::vector<int64_t> v) {
    ints_[param] = std::move(v);
    return *this;
  }
  Gradient& Bools(const std::string& param, std::vector<int> v) {
    bools_[param] = std::move(v);
    return *this;
  }
  Gradient& Text(const std::string& param, const char* v) {
    texts_[param] = v;
    return *this;
  }
  // Factor on the rounding of f32 that every contribution to a gradient may carry.
  Gradient& Ulps(double v) {
    ulps_ = v;
    return *this;
  }
  // No strided views: the function takes none of some operand.
  Gradient& Dense() {
    dense_ = true;
    return *this;
  }
  const Arrays& inputs() const { return inputs_; }

  // Calls the function and compares.
  void Check(const Forward& forward, aclrtStream stream) {
    std::vector<std::unique_ptr<ApiTensor>> memory;
    std::map<std::string, ApiTensor*> given;
    const auto hold = [&](const std::string& param, const Array& a, bool strided) {
      memory.push_back(std::make_unique<ApiTensor>(a.dtype, a.dims, &rng_, strided));
      if (!a.v.empty()) memory.back()->Set(a.v);
      given[param] = memory.back().get();
    };
    for (const auto& [param, a] : tensors_) hold(param, a, !dense_ && rng_.Chance(0.3));
    for (const auto& [param, dims] : ignored_) hold(param, {dims, {}, DType::kF32}, false);
    for (const auto& [param, name] : results_)
      hold(param, {inputs_[name].dims, {}, steps_.count(param) > 0 ? DType::kS8 : inputs_[name].dtype},
           !dense_ && rng_.Chance(0.3));
    ASSERT_EQ(Run(given, stream), 0) << api_ << ": " << aclGetRecentErrMsg();
    for (const auto& [param, name] : results_) Compare(forward, name, given[param]->Get(), param);
    for (const auto& m : memory) EXPECT_TRUE(m->memory().GuardsIntact()) << api_;
  }

 private:
  int Run(const std::map<std::string, ApiTensor*>& given, aclrtStream stream) {
    const OpsnnFunction* f = opsnn_aclnn_find(api_.c_str());
    EXPECT_NE(f, nullptr) << api_;
    if (f == nullptr) return -1;
    std::vector<OpsnnArg> args;
    std::vector<std::unique_ptr<ApiInts>> ints;
    std::vector<std::unique_ptr<ApiScalar>> scalars;
    std::vector<aclBoolArray*> bools;
    for (const Param& p : f->params) {
      OpsnnArg a{};
      const auto number = numbers_.find(p.name);
      const auto tensor = given.find(p.name);
      if (p.kind == ParamKind::kTensor) {
        if (tensor != given.end()) a.p = static_cast<aclTensor*>(*tensor->second);
      } else if (p.kind == ParamKind::kInt) {
        a.i = number != numbers_.end() ? static_cast<int64_t>(number->second) : 0;
      } else if (p.kind == ParamKind::kDouble) {
        a.d = number != numbers_.end() ? number->second : 0;
      } else if (p.kind == ParamKind::kScalar && number != numbers_.end()) {
        scalars.push_back(std::make_unique<ApiScalar>(static_cast<float>(number->second)));
        a.p = static_cast<const aclScalar*>(*scalars.back());
      } else if (p.kind == ParamKind::kIntArray && ints_.count(p.name) > 0) {
        ints.push_back(std::make_unique<ApiInts>(ints_[p.name]));
        a.p = static_cast<const aclIntArray*>(*ints.back());
      } else if (p.kind == ParamKind::kBoolArray && bools_.count(p.name) > 0) {
        const std::vector<int>& v = bools_[p.name];
        std::unique_ptr<bool[]> copy(new bool[v.size() + 1]);
        for (size_t i = 0; i < v.size(); ++i) copy[i] = v[i] != 0;
        bools.push_back(aclCreateBoolArray(copy.get(), v.size()));
        a.p = bools.back();
      } else if (p.kind == ParamKind::kString && texts_.count(p.name) > 0) {
        a.p = texts_[p.name];
      }
      args.push_back(a);
    }
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    int code = opsnn_aclnn_plan(f, args.data(), static_cast<int>(args.size()), &size, &executor);
    void* workspace = nullptr;
    if (code == 0 && size > 0) code = aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code == 0) code = opsnn_aclnn_run(f, workspace, size, executor, stream);
    if (code == 0) code = aclrtSynchronizeStream(stream);
    if (workspace != nullptr) aclrtFree(workspace);
    for (aclBoolArray* b : bools) aclDestroyBoolArray(b);
    return code;
  }

  // The loss is the sum of upstream * result; d of it by every element of `name`.
  void Compare(const Forward& forward, const std::string& name, std::vector<double> got,
               const std::string& param) {
    std::vector<double> weights;
    for (const std::string& u : upstream_) {
      const Array& a = tensors_[u];
      weights.insert(weights.end(), a.v.begin(), a.v.end());
    }
    constexpr double kTermUlps = 16;
    Arrays moved = inputs_;
    std::vector<double> want, tolerance;
    for (int64_t i = 0; i < inputs_[name].size(); ++i) {
      const auto difference = [&](double step, double* rounding) {
        const double x = inputs_[name][i];
        moved[name][i] = x + step;
        const std::vector<double> high = forward(moved);
        moved[name][i] = x - step;
        const std::vector<double> low = forward(moved);
        moved[name][i] = x;
        EXPECT_EQ(high.size(), weights.size()) << api_ << ": results of the forward";
        double sum = 0;
        *rounding = 0;
        for (size_t k = 0; k < std::min(weights.size(), high.size()); ++k) {
          const double part = weights[k] * (high[k] - low[k]) / (2 * step);
          sum += part;
          *rounding += ulps_ * std::abs(part) + (part != 0 ? kTermUlps * std::abs(weights[k]) : 0);
        }
        return sum;
      };
      constexpr double kStep = 0x1p-15;
      double rounding, unused;
      const double near = difference(kStep, &rounding), far = difference(2 * kStep, &unused);
      want.push_back(near);
      // The error of a central difference is a third of what doubling the step changes; cancellation in
      // doubles loses 2^-52 / step. f32 rounds every contribution, and what is saved, a few times; a
      // derivative is a sum of terms around 1 that may cancel.
      tolerance.push_back(std::abs(far - near) + rounding * (0x1p-24 + 0x1p-36) +
                          std::abs(near) * testing::Epsilon(inputs_[name].dtype) + 0x1p-30);
    }
    if (const auto step = steps_.find(param); step != steps_.end()) {
      for (double& v : got) v *= step->second;
      for (double& t : tolerance) t += step->second / 2;
    }
    EXPECT_EQ(testing::Compare(got, want, tolerance), "") << api_ << ": " << param << " by " << name;
  }

  std::string api_;
  Rng& rng_;
  Arrays inputs_, tensors_;
  std::vector<std::string> upstream_;
  std::vector<std::pair<std::string, std::string>> results_;
  std::map<std::string, double> steps_;
  std::map<std::string, Dims> ignored_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::vector<int64_t>> ints_;
  std::map<std::string, std::vector<int>> bools_;
  std::map<std::string, const char*> texts_;
  double ulps_ = 64;
  bool dense_ = false;
};

class GradientTest : public ApiTest {
 protected:
  Rng rng_;
};

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_GRADIENTS_GRADIENT_TESTER_H_
