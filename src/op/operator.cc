#include "op/operator.h"

#include <algorithm>
#include <cstdio>

#include "base/knobs.h"
#include "op/attrs.h"
#include "op/declaration.h"
#include "op/empty_kernel.h"
#include "tensor/limits.h"

namespace opsnn::op {

TensorView TensorDesc::View(void* data) const {
  const Dims stored = StoredDims(dims, layout);
  return {data, dtype, stored, strides.empty() ? ContiguousStrides(stored) : strides};
}

double Attrs::Float(std::string_view name, double fallback) const {
  auto it = values_.find(name);
  if (it == values_.end()) return fallback;
  if (const double* f = std::get_if<double>(&it->second)) return *f;
  if (const int64_t* i = std::get_if<int64_t>(&it->second)) return static_cast<double>(*i);
  return fallback;
}

std::string ToString(DTypeMask mask) {
  std::string out;
  for (int i = 0; i < kNumDTypes; ++i) {
    if (!Contains(mask, static_cast<DType>(i))) continue;
    if (!out.empty()) out += ", ";
    out += Name(static_cast<DType>(i));
  }
  return out;
}

const char* Name(AttrType t) {
  static constexpr const char* kNames[] = {"int", "float", "string", "ints", "floats", "strings", "tensor"};
  return kNames[static_cast<int>(t)];
}

const AttrDecl* Declaration::FindAttr(std::string_view attr) const {
  for (const AttrDecl& a : attrs) {
    if (attr == a.name) return &a;
  }
  return nullptr;
}

namespace {

std::string Describe(const TensorDesc* x) {
  if (x == nullptr) return "-";
  std::string text = std::string(Name(x->dtype)) + ToString(x->dims);
  if (x->layout != Layout{}) text += ":" + ToString(x->layout);
  return x->IsContiguous() ? text : text + " strided";
}

// OPSNN_VERBOSE=plan: one line per planned call, with the variant chosen or the reason why there is none.
void PrintPlan(const OpDef& def, const PlanContext& c, const Result<KernelPtr>& kernel) {
  std::string line = "plan: " + def.name;
  for (const TensorDesc* x : c.inputs) line += " " + Describe(x);
  line += " ->";
  for (const TensorDesc& y : c.outputs) line += " " + Describe(&y);
  if (c.tail != nullptr) line += "; tail " + c.tail->program.ToString();
  line += "; " + (kernel.ok() ? (*kernel)->variant() : "refused: " + kernel.status().message());
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

Status Infer(const OpDef& def, InferContext& c) {
  OPSNN_RETURN_IF_ERROR(Check(def, c));
  if (!def.infer) return Errorf(Code::kInternal, "%s: the operator has no shape inference", def.name.c_str());
  for (const TensorDesc* x : c.inputs) {  // strides of 0 make any size cheap, and bytes of copies overflow
    if (x == nullptr || !x->known_rank || WithinLimits(x->dims)) continue;
    return InvalidArgument("%s: an input of shape %s is too large; allowed: sizes to 2^40, 2^53 elements",
                           def.name.c_str(), ToString(x->dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(def.infer(c));
  for (const TensorDesc& y : c.outputs) {
    if (y.known_rank && !WithinLimits(y.dims)) {
      return InvalidArgument("%s: the output shape %s is too large; allowed: sizes to 2^40, 2^53 elements",
                             def.name.c_str(), ToString(y.dims).c_str());
    }
  }
  return OkStatus();
}

Result<KernelPtr> Plan(const OpDef& def, const PlanContext& c) {
  if (!def.plan) return Errorf(Code::kInternal, "%s: the operator has no plan", def.name.c_str());
  if (c.tail != nullptr && !def.takes_tail && !def.tail_is_program) {
    return Errorf(Code::kInternal, "%s: the operator takes no fused tail", def.name.c_str());
  }
  auto kernel = def.plan(c);
  // What has no elements takes no time, however large the other dims are.
  const bool empty = !c.outputs.empty() && std::all_of(c.outputs.begin(), c.outputs.end(), [](const auto& y) {
    return NumElements(y.dims) == 0;
  });
  if (kernel.ok() && empty) kernel = MakeEmptyKernel();
  if (VerboseHas("plan")) PrintPlan(def, c, kernel);
  return kernel;
}

}  // namespace opsnn::op
