// Every implemented function with arguments that make little sense: random dtypes, ranks, shapes, views,
// lists, numbers and nulls. Each call must be refused with a message or run; nothing may crash or write out
// of bounds.
#include <cctype>
#include <cmath>
#include <memory>
#include <thread>

#include "capi/api_tester.h"
#include "capi/function.h"
#include "capi/listing.h"

namespace opsnn::capi {
namespace {

// Arguments of one call and the objects behind them.
class RandomArguments {
 public:
  explicit RandomArguments(Rng& rng) : rng_(rng) {
    // Shapes that calls are likely to agree on, so that many get past the checks.
    base_ = rng.Shape(0, 4, 60, true);
    dtype_ = static_cast<DType>(rng.Int(0, kNumDTypes - 1));
    if (rng.Chance(0.4)) dtype_ = DType::kF32;
  }
  ~RandomArguments() {
    for (aclTensorList* l : lists_) aclDestroyTensorList(l);
    for (aclTensor* t : tensors_) aclDestroyTensor(t);
    for (aclScalar* s : scalars_) aclDestroyScalar(s);
    for (aclIntArray* a : ints_) aclDestroyIntArray(a);
    for (aclFloatArray* a : floats_) aclDestroyFloatArray(a);
    for (aclBoolArray* a : bools_) aclDestroyBoolArray(a);
  }

  OpsnnArg Make(const Param& p) {
    OpsnnArg a{};
    const bool null = rng_.Chance(p.optional ? 0.4 : 0.01);
    switch (p.kind) {
      case ParamKind::kTensor:
        if (!null) tensors_.push_back(Tensor(p)), a.p = tensors_.back();
        return a;
      case ParamKind::kTensorList:
        a.p = null ? nullptr : List(p);
        return a;
      case ParamKind::kScalar:
        a.p = null ? nullptr : Scalar();
        return a;
      case ParamKind::kIntArray:
        a.p = null ? nullptr : Ints();
        return a;
      case ParamKind::kFloatArray: {
        const float values[] = {0.5f, 2.0f, -1.0f};
        floats_.push_back(aclCreateFloatArray(values, static_cast<uint64_t>(rng_.Int(0, 3))));
        a.p = floats_.back();
        return a;
      }
      case ParamKind::kBoolArray: {
        const bool values[] = {true, false, true};
        bools_.push_back(aclCreateBoolArray(values, static_cast<uint64_t>(rng_.Int(0, 3))));
        a.p = bools_.back();
        return a;
      }
      case ParamKind::kString: {
        static const char* const kTexts[] = {"none", "tanh", "static", "dynamic", "rint",
                                             "BSND", "BNSD", "x",      ""};
        a.p = kTexts[rng_.Int(0, 8)];
        return a;
      }
      case ParamKind::kDouble:
        a.d = rng_.Chance(0.1) ? std::nan("") : rng_.Real(-2, 4);
        return a;
      case ParamKind::kInt:
        a.i = rng_.Chance(0.05) ? INT64_MIN + rng_.Int(0, 1) * INT64_MAX : rng_.Int(-3, 6);
        return a;
      case ParamKind::kScalarList:
      case ParamKind::kPointer:
        return a;
    }
    return a;
  }

  bool GuardsIntact() const {
    for (const auto& m : memory_) {
      if (!m->GuardsIntact()) return false;
    }
    return true;
  }

 private:
  DType RandomDType(const Param& p) {
    if (rng_.Chance(0.85) && (!p.has_dtypes || op::Contains(p.dtypes, dtype_))) return dtype_;
    if (p.has_dtypes && rng_.Chance(0.9)) {
      for (int tries = 0; tries < 40; ++tries) {
        const DType t = static_cast<DType>(rng_.Int(0, kNumDTypes - 1));
        if (op::Contains(p.dtypes, t)) return t;
      }
    }
    return static_cast<DType>(rng_.Int(0, kNumDTypes - 1));
  }
  Dims RandomDims() {
    if (rng_.Chance(0.75)) return base_;
    if (rng_.Chance(0.5)) return rng_.Shape(0, 5, 60, true);
    Dims d = base_;
    if (d.rank() > 0 && rng_.Chance(0.5)) d.erase(static_cast<int>(rng_.Int(0, d.rank() - 1)));
    if (d.rank() > 0) d[static_cast<int>(rng_.Int(0, d.rank() - 1))] = rng_.Int(0, 4);
    return d;
  }
  aclTensor* Tensor(const Param& p) {
    const DType t = RandomDType(p);
    memory_.push_back(std::make_unique<GuardedTensor>(t, RandomDims(), &rng_, rng_.Chance(0.3)));
    GuardedTensor& m = *memory_.back();
    // Small numbers: some functions take them as positions.
    m.FillRandom(rng_, t == DType::kU8 ? 0 : -2, 3);
    const TensorView& v = m.view();
    return aclCreateTensor(v.dims.data(), static_cast<uint64_t>(v.rank()),
                           static_cast<aclDataType>(Info(t).acl), v.strides.data(), 0, ACL_FORMAT_ND,
                           v.dims.data(), static_cast<uint64_t>(v.rank()), v.data);
  }
  aclTensorList* List(const Param& p) {
    std::vector<aclTensor*> members;
    for (int64_t i = rng_.Int(0, 3); i > 0; --i) members.push_back(Tensor(p));
    lists_.push_back(aclCreateTensorList(members.data(), members.size()));
    return lists_.back();
  }
  aclScalar* Scalar() {
    float real = static_cast<float>(rng_.Real(-2, 4));
    int64_t whole = rng_.Int(-3, 6);
    scalars_.push_back(rng_.Chance(0.5) ? aclCreateScalar(&real, ACL_FLOAT)
                                        : aclCreateScalar(&whole, ACL_INT64));
    return scalars_.back();
  }
  aclIntArray* Ints() {
    std::vector<int64_t> v;
    for (int64_t i = rng_.Int(0, 5); i > 0; --i) v.push_back(rng_.Chance(0.02) ? INT64_MAX : rng_.Int(-2, 4));
    ints_.push_back(aclCreateIntArray(v.data(), v.size()));
    return ints_.back();
  }

  Rng& rng_;
  Dims base_;
  DType dtype_;
  std::vector<std::unique_ptr<GuardedTensor>> memory_;
  std::vector<aclTensor*> tensors_;
  std::vector<aclTensorList*> lists_;
  std::vector<aclScalar*> scalars_;
  std::vector<aclIntArray*> ints_;
  std::vector<aclFloatArray*> floats_;
  std::vector<aclBoolArray*> bools_;
};

// Runs the call; 0, or the code of the phase that refused it.
int CallOn(aclrtStream stream, const OpsnnFunction& f, const std::vector<OpsnnArg>& args) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  int code = opsnn_aclnn_plan(&f, args.data(), static_cast<int>(args.size()), &size, &executor);
  if (code) return code;
  constexpr uint64_t kTooMuch = uint64_t{1} << 28;
  if (size > kTooMuch) return aclDestroyAclOpExecutor(executor), 0;
  void* workspace = nullptr;
  if (size) aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
  code = opsnn_aclnn_run(&f, workspace, size, executor, stream);
  // Work may fail as well: positions that are out of range are known only now.
  if (!code) code = aclrtSynchronizeStream(stream);
  if (workspace) aclrtFree(workspace);
  return code;
}

struct Count {
  int calls = 0, ran = 0;
};

// Does a refusal speak of the function and its parameters, and not of the operators that serve it?
bool SpeaksOfTheFunction(std::string_view message, const OpsnnFunction& f) {
  const std::string_view run = "aclrtSynchronizeStream: ";
  if (message.substr(0, run.size()) == run) message = message.substr(run.size());
  const std::string start = std::string(f.api) + ": ";
  if (message.substr(0, start.size()) != start) return false;
  message = message.substr(start.size());
  const std::string_view word = message.substr(0, message.find_first_of(" :,["));
  if (f.Find(word) >= 0) return true;
  if (op::FindOperator(word) != nullptr && message.substr(word.size(), 1) == ":") return false;
  if (word.size() > 0 && std::isupper(static_cast<unsigned char>(word[0]))) return false;  // X, A, W
  return word != "input" && word != "output" && word != "attribute";
}

// One call of every function; false after a failure.
bool CallAll(Rng& rng, aclrtStream stream, Count* count) {
  for (const ApiRow& row : ApiRows()) {
    const OpsnnFunction* f = row.implemented ? opsnn_aclnn_find(row.api) : nullptr;
    if (!f) continue;
    RandomArguments random(rng);
    std::vector<OpsnnArg> args;
    for (const Param& p : f->params) args.push_back(random.Make(p));
    const int code = CallOn(stream, *f, args);
    ++count->calls;
    count->ran += code == 0;
    if (code != 0) {
      const char* said = aclGetRecentErrMsg();
      EXPECT_NE(said, nullptr) << f->api << " gives " << code << " without a message";
      if (said) {
        EXPECT_TRUE(SpeaksOfTheFunction(said, *f)) << said;
      }
    }
    EXPECT_TRUE(random.GuardsIntact()) << f->api;
    if (::testing::Test::HasFailure()) return false;
  }
  return true;
}

class RandomCallTest : public ApiTest {};

TEST_F(RandomCallTest, NothingCrashes) {
  Rng rng;
  Count count;
  for (auto _ : testing::FuzzFor(3000)) {
    if (!CallAll(rng, stream_, &count)) return;
  }
  EXPECT_GT(count.ran * 20, count.calls) << "of " << count.calls;
}

TEST_F(RandomCallTest, NothingCrashesOnManyThreads) {
  Rng rng;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([seed = static_cast<uint64_t>(rng.Int(1, 1 << 30))] {
      Rng own(seed);
      aclrtStream stream = nullptr;
      ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
      ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
      Count count;
      for (int round = 0; round < 3; ++round) {
        if (!CallAll(own, stream, &count)) break;
      }
      aclrtDestroyStream(stream);
      aclrtResetDevice(0);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace opsnn::capi
