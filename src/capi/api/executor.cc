// Repeatable executors: keep one alive and move its tensors between runs.
#include "capi/executor.h"

#include "capi/acl_exports.h"
#include "capi/boundary.h"
#include "runtime/last_error.h"

namespace opsnn::capi {
namespace {

constexpr int kInnerNull = 561103;  // documented for this group: a null executor or tensor
constexpr int kInvalid = static_cast<int>(Code::kInvalid);

enum class Which { kInputs, kOutputs, kAll };

std::shared_ptr<Executor> Find(const char* function, const aclOpExecutor* handle, int* code) {
  *code = 0;
  auto e = Table<Executor>().Find(handle);
  if (!e) {
    *code = Fail(function, handle ? kInvalid : kInnerNull,
                 handle ? "executor is used up or destroyed" : "executor is null; phase one gives it");
  }
  return e;
}

std::string Described(int acl_dtype, const std::vector<int64_t>& dims) {
  return AclTypeName(acl_dtype) + " " + ToString(Dims(std::span<const int64_t>(dims)));
}

// The tensor that an address is set for must be the one of phase one, or one like it. The executor does not
// need the handles, so one that was destroyed says nothing.
Status CheckLike(const char* function, const Executor& e, const Binding& b, const void* handle) {
  const auto t = Table<Tensor>().Find(handle);
  if (!t) {
    const HandleKind kind = runtime::KindOf(handle);
    if (kind == HandleKind::kNone || kind == HandleKind::kTensor) return OkStatus();
    return InvalidArgument("%s: tensor is an %s; allowed: an aclTensor", function, runtime::Name(kind));
  }
  const Tensor& planned = *b.object;
  // A call may have read it as blocks, as its bits, or in the size that an earlier call found.
  if (planned.format == ACL_FORMAT_FRACTAL_NZ) return OkStatus();
  const bool bits = t->acl_dtype == ACL_UINT64 && planned.acl_dtype == ACL_INT64;
  const bool same_type = t->acl_dtype == planned.acl_dtype || bits;
  if (same_type && (t->dims == planned.dims || t->Seen().first == planned.dims)) return OkStatus();
  return InvalidArgument("%s: tensor is %s; allowed: %s, as %s of %s was in phase one", function,
                         Described(t->acl_dtype, t->dims).c_str(),
                         Described(planned.acl_dtype, planned.dims).c_str(),
                         capi::NameOf(e.function->params[b.param].name, b.member).c_str(), e.function->api);
}

// The new address is held to its block as those of phase one were.
int SetAddress(const char* function, Executor* e, Binding* b, const void* tensor, void* address) {
  Status s = CheckLike(function, *e, *b, tensor);
  if (s.ok())
    s = HoldToBlock(function, e->function->params[b->param].name, b->member, address, &b->footprint);
  if (!s.ok()) {
    runtime::AddErrorMessage(s);
    return kInvalid;
  }
  b->data = address ? static_cast<char*>(address) + b->offset_bytes : nullptr;
  e->moved = true;
  return 0;
}

// By flat index: members of a list count one each, inputs first, then outputs.
int SetFlat(const char* function, aclOpExecutor* handle, size_t index, const void* tensor, void* address,
            Which which) {
  int code;
  auto e = Find(function, handle, &code);
  if (!e) return code;
  if (!tensor) return Fail(function, kInnerNull, "tensor is null");
  std::lock_guard lock(e->mutex);
  std::vector<Binding*> flat;
  for (bool outputs : {false, true}) {
    if (which != Which::kAll && outputs != (which == Which::kOutputs)) continue;
    for (Binding& b : e->tensors) {
      if (b.is_output == outputs) flat.push_back(&b);
    }
  }
  if (index >= flat.size()) {
    return Fail(function, kInvalid,
                StrFormat("index is %zu; allowed: below %zu, the number of tensors given in phase one", index,
                          flat.size()));
  }
  return SetAddress(function, e.get(), flat[index], tensor, address);
}

// The handle of a list's member; null where the list is too short or gone, and what is no list itself.
const void* MemberOf(const void* list, size_t member) {
  if (runtime::KindOf(list) != HandleKind::kTensorList) return list;
  const auto found = Table<TensorList>().Find(list);
  return found && member < found->members.size() ? found->members[member] : nullptr;
}

// By parameter and position in its list.
int SetDynamic(const char* function, aclOpExecutor* handle, size_t parameter, size_t member,
               const void* tensors, void* address, Which which) {
  int code;
  auto e = Find(function, handle, &code);
  if (!e) return code;
  if (!tensors) return Fail(function, kInnerNull, "tensors is null");
  std::lock_guard lock(e->mutex);
  std::vector<int> params;  // tensor parameters of the wanted direction, in order
  for (bool outputs : {false, true}) {
    if (which != Which::kAll && outputs != (which == Which::kOutputs)) continue;
    for (size_t p = 0; p < e->function->params.size(); ++p) {
      const Param& param = e->function->params[p];
      if (param.is_output() != outputs) continue;
      if (param.kind == ParamKind::kTensor || param.kind == ParamKind::kTensorList)
        params.push_back(static_cast<int>(p));
    }
  }
  for (Binding& b : e->tensors) {
    if (parameter < params.size() && b.param == params[parameter] && b.member == static_cast<int>(member)) {
      return SetAddress(function, e.get(), &b, MemberOf(tensors, member), address);
    }
  }
  return Fail(function, kInvalid,
              StrFormat("irIndex %zu with relativeIndex %zu is not a list member given in phase one",
                        parameter, member));
}

}  // namespace

OPSNN_ACL_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  int code;
  auto e = Find("aclSetAclOpExecutorRepeatable", executor, &code);
  if (!e) return code;
  std::lock_guard lock(e->mutex);
  e->repeatable = true;
  return 0;
}

OPSNN_ACL_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  int code;
  if (!Find("aclDestroyAclOpExecutor", executor, &code)) return code;
  Table<Executor>().Remove(executor);
  return 0;
}

OPSNN_ACL_API aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                aclTensor* tensor, void* addr) {
  return SetFlat("aclSetInputTensorAddr", executor, index, tensor, addr, Which::kInputs);
}
OPSNN_ACL_API aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                 aclTensor* tensor, void* addr) {
  return SetFlat("aclSetOutputTensorAddr", executor, index, tensor, addr, Which::kOutputs);
}
OPSNN_ACL_API aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                           void* addr) {
  return SetFlat("aclSetTensorAddr", executor, index, tensor, addr, Which::kAll);
}
OPSNN_ACL_API aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                       const size_t relativeIndex, aclTensorList* tensors,
                                                       void* addr) {
  return SetDynamic("aclSetDynamicInputTensorAddr", executor, irIndex, relativeIndex, tensors, addr,
                    Which::kInputs);
}
OPSNN_ACL_API aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList* tensors,
                                                        void* addr) {
  return SetDynamic("aclSetDynamicOutputTensorAddr", executor, irIndex, relativeIndex, tensors, addr,
                    Which::kOutputs);
}
OPSNN_ACL_API aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                  const size_t relativeIndex, aclTensorList* tensors,
                                                  void* addr) {
  return SetDynamic("aclSetDynamicTensorAddr", executor, irIndex, relativeIndex, tensors, addr, Which::kAll);
}

// The capitalised names are the same functions.
OPSNN_ACL_API aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                aclTensor* tensor, void* addr) {
  return SetFlat("AclSetInputTensorAddr", executor, index, tensor, addr, Which::kInputs);
}
OPSNN_ACL_API aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                 aclTensor* tensor, void* addr) {
  return SetFlat("AclSetOutputTensorAddr", executor, index, tensor, addr, Which::kOutputs);
}
OPSNN_ACL_API aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                           void* addr) {
  return SetFlat("AclSetTensorAddr", executor, index, tensor, addr, Which::kAll);
}
OPSNN_ACL_API aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                       const size_t relativeIndex, aclTensorList* tensors,
                                                       void* addr) {
  return SetDynamic("AclSetDynamicInputTensorAddr", executor, irIndex, relativeIndex, tensors, addr,
                    Which::kInputs);
}
OPSNN_ACL_API aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList* tensors,
                                                        void* addr) {
  return SetDynamic("AclSetDynamicOutputTensorAddr", executor, irIndex, relativeIndex, tensors, addr,
                    Which::kOutputs);
}
OPSNN_ACL_API aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                  const size_t relativeIndex, aclTensorList* tensors,
                                                  void* addr) {
  return SetDynamic("AclSetDynamicTensorAddr", executor, irIndex, relativeIndex, tensors, addr, Which::kAll);
}

}  // namespace opsnn::capi
