// Checks that call an aclnn function by name through both phases, as the generated C functions do.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "base/parallel.h"
#include "capi/aclnn_entry.h"
#include "capi/function.h"
#include "cases/case_data.h"
#include "tensor/element.h"

namespace opsnn::cases {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr char kGuard = 0x5A;

// The block that a tensor argument lies in, with guards around it.
struct Block {
  std::vector<char> bytes, before;
  DType dtype = DType::kF32;
  char* data() { return bytes.data() + kGuardBytes; }
  size_t elements() const { return (bytes.size() - 2 * kGuardBytes) / SizeOf(dtype); }
  bool GuardsIntact() const {
    for (size_t i = 0; i < kGuardBytes; ++i)
      if (bytes[i] != kGuard || bytes[bytes.size() - 1 - i] != kGuard) return false;
    return true;
  }
};

// A tensor argument: a view on a block of its own, or of another argument ("same_as").
struct View {
  std::shared_ptr<Block> block;
  DType dtype = DType::kF32;
  Dims dims, strides;
  int64_t offset = 0;
  std::vector<double> Get() const {
    std::vector<double> v;
    const Dims order = ContiguousStrides(dims);
    for (int64_t i = 0, n = NumElements(dims); i < n; ++i) {
      int64_t at = offset;
      for (int d = 0; d < dims.rank(); ++d) at += i / order[d] % dims[d] * strides[d];
      v.push_back(ReadElement(block->data() + at * static_cast<int64_t>(SizeOf(dtype)), dtype));
    }
    return v;
  }
};

class Caller {
 public:
  explicit Caller(const Json& check) : check_(check), function_(opsnn_aclnn_find(Api().c_str())) {}
  ~Caller() {
    for (const aclTensor* t : tensors_) aclDestroyTensor(t);
    for (const aclScalar* s : scalars_) aclDestroyScalar(s);
    for (const aclIntArray* a : arrays_) aclDestroyIntArray(a);
    for (const aclBoolArray* a : bools_) aclDestroyBoolArray(a);
    for (const aclTensorList* l : lists_) aclDestroyTensorList(l);
  }

  void Run() {
    ASSERT_NE(function_, nullptr);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    aclGetRecentErrMsg();
    std::vector<OpsnnArg> args;
    for (const capi::Param& p : function_->params) args.push_back(Pack(p));
    for (const auto& [name, v] : check_["args"].items())
      EXPECT_GE(function_->Find(name), 0) << Api() << " has no parameter " << name;
    for (auto& [name, v] : views_) v.block->before = v.block->bytes;
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    int code =
        opsnn_aclnn_plan(function_, args.data(), static_cast<int>(args.size()), &workspace_size, &executor);
    if (!code) {
      void* workspace = nullptr;
      if (workspace_size) {
        ASSERT_EQ(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
      }
      code = opsnn_aclnn_run(function_, workspace, workspace_size, executor, stream_);
      if (!code) code = aclrtSynchronizeStream(stream_);
      if (workspace) aclrtFree(workspace);
    }
    CheckResult(code);
    EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
  }

  std::vector<std::vector<char>> Blocks() const {
    std::vector<std::vector<char>> all;
    for (const auto& [name, v] : views_) all.push_back(v.block->bytes);
    return all;
  }

 private:
  std::string Api() const { return check_["aclnn"]; }

  OpsnnArg Pack(const capi::Param& p) {
    OpsnnArg arg{};
    const Json given = check_["args"].value(p.name, Json());
    if (given.is_null()) return arg;
    switch (p.kind) {
      case capi::ParamKind::kTensor:
        arg.p = Tensor(p.name, given);
        break;
      case capi::ParamKind::kTensorList: {
        std::vector<const aclTensor*> members;
        for (size_t i = 0; i < given.size(); ++i)
          members.push_back(Tensor(p.name + ("[" + std::to_string(i) + "]"), given[i]));
        lists_.push_back(aclCreateTensorList(members.data(), members.size()));
        // The list owns its members now.
        tensors_.resize(tensors_.size() - members.size());
        arg.p = lists_.back();
        break;
      }
      case capi::ParamKind::kScalar: {
        const Data d = ReadData(given);
        scalars_.push_back(aclCreateScalar(ToHost(d)->data(), static_cast<aclDataType>(Info(d.dtype).acl)));
        arg.p = scalars_.back();
        break;
      }
      case capi::ParamKind::kIntArray: {
        const auto v = given.get<std::vector<int64_t>>();
        arrays_.push_back(aclCreateIntArray(v.data(), v.size()));
        arg.p = arrays_.back();
        break;
      }
      case capi::ParamKind::kBoolArray: {
        const auto v = given.get<std::vector<bool>>();
        const std::unique_ptr<bool[]> copy(new bool[v.size()]);
        std::copy(v.begin(), v.end(), copy.get());
        bools_.push_back(aclCreateBoolArray(copy.get(), v.size()));
        arg.p = bools_.back();
        break;
      }
      case capi::ParamKind::kDouble:
        arg.d = Number(given);
        break;
      case capi::ParamKind::kString:
        strings_.push_back(std::make_unique<std::string>(given.get<std::string>()));
        arg.p = strings_.back()->c_str();
        break;
      case capi::ParamKind::kInt:
        // A dtype stands by name.
        arg.i = given.is_string() ? Info(*DTypeFromName(given.get<std::string>())).acl
                                  : static_cast<int64_t>(Number(given));
        break;
      default:
        ADD_FAILURE() << Api() << ": parameter " << p.name << " cannot be written in a case";
    }
    return arg;
  }

  // "storage" are the elements of the block, where the view is not all of it.
  const aclTensor* Tensor(const std::string& name, const Json& j) {
    View v;
    if (j.is_object() && j.contains("same_as")) {
      v.block = views_.at(j["same_as"]).block;
      v.dtype = v.block->dtype;
    } else {
      const Data d = ReadData(j.is_object() && j.contains("storage") ? j["storage"] : j);
      const auto host = ToHost(d);
      v.dtype = d.dtype;
      v.block = std::make_shared<Block>();
      v.block->dtype = d.dtype;
      v.block->bytes.assign(host->bytes() + 2 * kGuardBytes, kGuard);
      std::memcpy(v.block->data(), host->data(), host->bytes());
      v.dims = d.dims;
    }
    if (j.is_object() && j.contains("dims")) v.dims = Dims(j["dims"].get<std::vector<int64_t>>());
    v.strides = ContiguousStrides(v.dims);
    if (j.is_object() && j.contains("strides")) v.strides = Dims(j["strides"].get<std::vector<int64_t>>());
    if (j.is_object()) v.offset = j.value("offset", int64_t{0});
    const std::string format = j.is_object() ? j.value("format", "ND") : "ND";
    const aclFormat f = format == "NCHW"   ? ACL_FORMAT_NCHW
                        : format == "NHWC" ? ACL_FORMAT_NHWC
                        : format == "NCL"  ? ACL_FORMAT_NCL
                                           : ACL_FORMAT_ND;
    const int64_t elements = static_cast<int64_t>(v.block->elements());
    tensors_.push_back(aclCreateTensor(v.dims.data(), v.dims.rank(),
                                       static_cast<aclDataType>(Info(v.dtype).acl), v.strides.data(),
                                       v.offset, f, &elements, 1, v.block->data()));
    views_[name] = v;
    return tensors_.back();
  }

  void CheckResult(int code) {
    const char* text = aclGetRecentErrMsg();
    const std::string message = text ? text : "";
    if (check_.value("status", Json(0)) == "error") {
      ASSERT_NE(code, 0) << "accepted, although it is an error";
    } else {
      ASSERT_EQ(code, check_.value("status", 0)) << message;
    }
    if (check_.contains("message")) {
      EXPECT_NE(message.find(Api()), std::string::npos) << message;
      for (const Json& part : check_["message"])
        EXPECT_NE(message.find(part.get<std::string>()), std::string::npos)
            << "no " << part << " in: " << message;
    }
    for (const auto& [name, v] : views_) {
      EXPECT_TRUE(v.block->GuardsIntact()) << name << ": bytes around it were written";
      if (code) {
        EXPECT_EQ(v.block->bytes, v.block->before) << name << ": written by a call that failed";
      }
    }
    if (code) return;
    for (const auto& [name, expected] : check_["expect"].items()) {
      const View& v = views_.at(name);
      EXPECT_EQ("", Mismatch(expected, v.dtype, v.dims, v.Get())) << name;
    }
    if (!check_.contains("expect_storage")) return;
    for (const auto& [name, expected] : check_["expect_storage"].items()) {
      View v = views_.at(name);
      v.dims = {static_cast<int64_t>(v.block->elements())};
      v.strides = {1};
      v.offset = 0;
      EXPECT_EQ("", Mismatch(expected, v.dtype, v.dims, v.Get())) << "the block of " << name;
    }
  }

  const Json& check_;
  const OpsnnFunction* function_;
  std::map<std::string, View> views_;
  std::vector<const aclTensor*> tensors_;
  std::vector<const aclScalar*> scalars_;
  std::vector<const aclIntArray*> arrays_;
  std::vector<const aclBoolArray*> bools_;
  std::vector<const aclTensorList*> lists_;
  std::vector<std::unique_ptr<std::string>> strings_;
  aclrtStream stream_ = nullptr;
};

}  // namespace

std::string MissingForAclnn(const Json& check) {
  const std::string api = check["aclnn"];
  const OpsnnFunction* f = opsnn_aclnn_find(api.c_str());
  if (!f) return api;
  if (check.contains("status")) return "";
  for (const auto& [name, v] : check["args"].items()) {
    const int i = f->Find(name);
    if (i < 0 || f->params[i].kind != capi::ParamKind::kTensor || v.is_null()) continue;
    if (v.is_object() && v.contains("same_as")) continue;
    const Json& typed = v.is_object() && v.contains("storage") ? v["storage"] : v;
    const DType t = TypeOf(typed, DType::kF32);
    if (f->params[i].has_dtypes && !op::Contains(f->params[i].dtypes, t)) return api + " of " + Name(t);
  }
  return "";
}

void RunAclnn(const Json& check) {
  if (!check.contains("same_for_threads")) return Caller(check).Run();
  std::vector<std::vector<char>> first;
  for (const int threads : check["same_for_threads"].get<std::vector<int>>()) {
    SCOPED_TRACE(StrFormat("%d threads", threads));
    SetNumThreads(threads);
    Caller c(check);
    c.Run();
    if (first.empty()) first = c.Blocks();
    EXPECT_EQ(c.Blocks(), first) << "depends on the number of threads";
  }
  SetNumThreads(0);
}

}  // namespace opsnn::cases
