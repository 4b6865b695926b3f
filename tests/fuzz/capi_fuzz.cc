// Bytes as a call of any implemented aclnn function: handles, shapes, strides, dtypes and attributes are
// drawn from them. The call is refused with a documented code and a message that names the function, or runs.
// Sanitizers see what it writes where.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "capi/aclnn_entry.h"
#include "capi/function.h"
#include "capi/listing.h"
#include "fuzz/fuzz.h"
#include "fuzz/source.h"

namespace opsnn::fuzz {
namespace {

constexpr size_t kBlock = 16384;

class Call {
 public:
  Call(Source& s, const OpsnnFunction* f, char* block) : s_(s), f_(f), block_(block) {}
  ~Call() {
    for (const aclTensorList* l : lists_) aclDestroyTensorList(l);
    for (const aclTensor* t : tensors_) aclDestroyTensor(t);
    for (const aclScalar* v : scalars_) aclDestroyScalar(v);
    for (const aclIntArray* a : ints_) aclDestroyIntArray(a);
    for (const aclFloatArray* a : floats_) aclDestroyFloatArray(a);
    for (const aclBoolArray* a : bools_) aclDestroyBoolArray(a);
  }

  // True where the call was accepted.
  bool Run(aclrtStream stream) {
    rank_ = s_.Choice(5);
    for (int64_t& d : dims_) d = static_cast<int64_t>(s_.Choice(6));
    dtype_ = Dtype();
    std::vector<OpsnnArg> args;
    for (const capi::Param& p : f_->params) args.push_back(Pack(p));
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    int code = opsnn_aclnn_plan(f_, args.data(), static_cast<int>(args.size()), &bytes, &executor);
    if (!code) {
      void* workspace = nullptr;
      if (bytes)
        Require(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0, "workspace", f_->api);
      code = opsnn_aclnn_run(f_, workspace, bytes, executor, stream);
      if (!code) code = aclrtSynchronizeStream(stream);
      if (workspace) aclrtFree(workspace);
    }
    if (!code) return true;
    const char* message = aclGetRecentErrMsg();
    Require(message != nullptr, "a refused call leaves a message", f_->api);
    Require(code == 161001 || code == 161002 || code == 361001 || code == 561003, "a documented code",
            std::to_string(code) + " " + message);
    Require(std::string(message).find(f_->api) != std::string::npos, "the message names the function",
            message);
    return false;
  }

 private:
  aclDataType Dtype() {
    static constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT16, ACL_BF16,
                                             ACL_INT64, ACL_INT32, ACL_BOOL,    ACL_INT8,
                                             ACL_UINT8, ACL_INT16, ACL_DOUBLE,  ACL_UINT16};
    return kTypes[s_.Choice(std::size(kTypes))];
  }

  // Mostly tensors of one shape and dtype, so that calls get past the first checks.
  const aclTensor* Tensor() {
    const uint8_t mode = s_.Byte();
    if (mode % 32 == 31) return nullptr;
    std::vector<int64_t> dims(dims_, dims_ + rank_);
    if (mode & 64 && !dims.empty()) dims[s_.Choice(dims.size())] = static_cast<int64_t>(s_.Choice(7));
    if (mode % 16 == 3) dims.push_back(s_.Small());
    if (mode % 16 == 4 && !dims.empty()) dims.pop_back();
    std::vector<int64_t> strides(dims.size());
    int64_t step = 1;
    for (size_t i = dims.size(); i-- > 0;)
      strides[i] = step, step *= std::max<int64_t>(dims[i], 0) + (mode % 16 == 5);
    if (mode % 16 == 6 && !dims.empty()) strides[s_.Choice(dims.size())] = s_.Small();
    if (mode % 16 == 7) std::reverse(strides.begin(), strides.end());
    static constexpr aclFormat kFormats[] = {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCL};
    const aclFormat format = mode % 8 == 1 ? kFormats[s_.Choice(4)] : ACL_FORMAT_ND;
    const aclDataType type = mode & 128 ? Dtype() : dtype_;
    char* data = block_ + (mode % 16 == 9 ? 0 : 512 * (1 + tensors_.size() % 24));
    const int64_t offset = mode % 16 == 8 ? s_.Small() : 0;
    const aclTensor* t = aclCreateTensor(dims.data(), dims.size(), type, strides.data(), offset, format,
                                         dims.data(), dims.size(), mode % 32 == 30 ? nullptr : data);
    if (t) tensors_.push_back(t);
    return t;
  }

  OpsnnArg Pack(const capi::Param& p) {
    OpsnnArg arg{};
    if (p.optional && s_.Choice(2)) return arg;
    switch (p.kind) {
      case capi::ParamKind::kTensor:
        arg.p = Tensor();
        break;
      case capi::ParamKind::kTensorList: {
        std::vector<const aclTensor*> members;
        for (size_t n = s_.Choice(4); n > 0; --n) {
          if (const aclTensor* t = Tensor()) members.push_back(t), tensors_.pop_back();
        }
        arg.p = aclCreateTensorList(members.data(), members.size());
        if (arg.p) lists_.push_back(static_cast<const aclTensorList*>(arg.p));
        break;
      }
      case capi::ParamKind::kScalar: {
        float f[4] = {static_cast<float>(s_.Real()), 0, 0, 0};
        const aclScalar* v = aclCreateScalar(f, s_.Choice(8) ? ACL_FLOAT : Dtype());
        if (v) scalars_.push_back(v);
        arg.p = v;
        break;
      }
      case capi::ParamKind::kIntArray: {
        std::vector<int64_t> v(s_.Choice(6));
        for (int64_t& x : v) x = s_.Small();
        ints_.push_back(aclCreateIntArray(v.data(), v.size()));
        arg.p = ints_.back();
        break;
      }
      case capi::ParamKind::kFloatArray: {
        std::vector<float> v(s_.Choice(4));
        for (float& x : v) x = static_cast<float>(s_.Real());
        floats_.push_back(aclCreateFloatArray(v.data(), v.size()));
        arg.p = floats_.back();
        break;
      }
      case capi::ParamKind::kBoolArray: {
        bool v[4] = {s_.Choice(2) == 0, s_.Choice(2) == 0, s_.Choice(2) == 0, true};
        bools_.push_back(aclCreateBoolArray(v, s_.Choice(5)));
        arg.p = bools_.back();
        break;
      }
      case capi::ParamKind::kInt:
        arg.i = s_.Small();
        break;
      case capi::ParamKind::kDouble:
        arg.d = s_.Real();
        break;
      case capi::ParamKind::kString: {
        static constexpr const char* kWords[] = {"mean", "sum", "none", "rint", "BNSD", "nearest", ""};
        arg.p = kWords[s_.Choice(std::size(kWords))];
        break;
      }
      default:
        break;  // null
    }
    return arg;
  }

  Source& s_;
  const OpsnnFunction* f_;
  char* block_;
  size_t rank_ = 0;
  int64_t dims_[4] = {};
  aclDataType dtype_ = ACL_FLOAT;
  std::vector<const aclTensor*> tensors_;
  std::vector<const aclTensorList*> lists_;
  std::vector<const aclScalar*> scalars_;
  std::vector<const aclIntArray*> ints_;
  std::vector<const aclFloatArray*> floats_;
  std::vector<const aclBoolArray*> bools_;
};

const std::vector<const OpsnnFunction*>& Functions() {
  static const auto* all = [] {
    auto* list = new std::vector<const OpsnnFunction*>;
    // Helpers of a single phase have no operator.
    for (const capi::ApiRow& row : capi::ApiRows()) {
      if (!row.implemented || !*row.op) continue;
      list->push_back(opsnn_aclnn_find(row.api));
      Require(list->back() != nullptr, "an implemented function can be found", row.api);
    }
    return list;
  }();
  return *all;
}

struct Device {
  Device() {
    aclInit(nullptr);
    Require(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0, "a device and a stream");
    Require(aclrtMalloc(reinterpret_cast<void**>(&memory), kBlock, ACL_MEM_MALLOC_HUGE_FIRST) == 0, "memory");
  }
  ~Device() { std::printf("%lld calls accepted, %lld refused\n", accepted, refused); }
  aclrtStream stream = nullptr;
  char* memory = nullptr;
  long long accepted = 0, refused = 0;
};

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < Functions().size(); ++i) {
    // Function, then rank 2 of 3 x 4 in f32 and plain arguments; and the same of rank 4.
    for (const char rank : {2, 4}) {
      std::string s{static_cast<char>(i & 255), static_cast<char>(i >> 8), rank, 3, 4, 2, 2, 0};
      s.append(40, '\0');
      for (size_t k = 9; k < s.size(); k += 3) s[k] = static_cast<char>(k % 5);
      seeds.push_back(s);
    }
  }
  return seeds;
}

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn::fuzz;  // NOLINT
  static Device device;
  Source s(data, size);
  size_t index = s.Byte();
  index += size_t{s.Byte()} << 8;
  const auto& functions = Functions();
  std::memset(device.memory, 0, kBlock);
  const bool ran = Call(s, functions[index % functions.size()], device.memory).Run(device.stream);
  ++(ran ? device.accepted : device.refused);
  aclGetRecentErrMsg();
  return 0;
}
