// Sums and differences with a factor: out = self + alpha * other. alpha's type must be one that casts to the
// promoted type.
#include "capi/plan.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

// Binds, checks alpha and takes it times `sign`: a difference is a sum with the negative factor.
Status BindSum(const Call& call, OpCall& out, int sign) {
  const char* api = call.function().api;
  OPSNN_RETURN_IF_ERROR(BindFromDeclaration(call, out));
  std::vector<DType> types;
  for (const Operand& o : out.inputs) types.push_back(o.desc.dtype);
  const DType promoted = op::PromoteTypes(types);
  const Scalar& alpha = call.ScalarOf("alpha");
  const auto alpha_type = DTypeFromAcl(alpha.acl_dtype);
  // A bool takes any integer as its factor.
  const DType factor = promoted == DType::kBool ? DType::kS64 : promoted;
  if (!alpha_type || !CanCast(*alpha_type, factor)) {
    return InvalidArgument(
        "%s: alpha has dtype %s; allowed: types that cast to %s, to which both operands promote", api,
        AclTypeName(alpha.acl_dtype).c_str(), Name(factor));
  }
  // Integers keep all their bits: a double holds 53.
  if (IsFloat(promoted)) {
    out.attrs.Set("alpha", *alpha.ToDouble() * sign);
  } else {
    out.attrs.Set("alpha",
                  static_cast<int64_t>(static_cast<uint64_t>(*alpha.ToInt()) * static_cast<uint64_t>(sign)));
  }
  out.converts_output = true;
  return OkStatus();
}

}  // namespace

Status Adapt_Add(const Call& call, OpCall& out) { return BindSum(call, out, 1); }

Status Adapt_Sub(const Call& call, OpCall& out) { return BindSum(call, out, -1); }

// out = other - alpha * self: the operands the other way round.
Status Adapt_Rsub(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(Adapt_Sub(call, out));
  std::swap(out.inputs[0], out.inputs[1]);
  return OkStatus();
}

}  // namespace opsnn::capi
