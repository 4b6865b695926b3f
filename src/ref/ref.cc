#include "ref/ref.h"

#include <algorithm>
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

const Entry* Find(std::string_view op) {
  for (auto table :
       {PointwiseTable, PointwiseMathTable, ContractionTable, PoolTable, NormTable, ReduceTable, DataTable,
        IndexTable, ResizeTable, QuantTable, LossTable, EinsumTable, SelectTable, ImageTable}) {
    for (const Entry& e : table()) {
      if (e.op == op) return &e;
    }
  }
  return nullptr;
}

// Integer arithmetic is modulo 2^bits; a bool is 0 or 1. For what doubles hold exactly.
double Wrap(double v, DType t) {
  if (IsFloat(t) || SizeOf(t) == 8 || !std::isfinite(v)) return v;
  if (t == DType::kBool) return v != 0;
  const int bits = static_cast<int>(SizeOf(t)) * 8;
  const double lo = Info(t).is_signed ? -std::ldexp(1, bits - 1) : 0, span = std::ldexp(1, bits);
  if (v >= lo && v < lo + span) return v;
  const double r = std::fmod(v - lo, span);
  return lo + (r < 0 ? r + span : r);
}

}  // namespace

Tensor Tensor::Make(DType dtype, const Dims& dims, double fill) {
  Tensor t;
  t.dtype = dtype;
  t.dims = dims;
  t.v.assign(static_cast<size_t>(NumElements(dims)), fill);
  return t;
}

bool Has(std::string_view op) { return Find(op) != nullptr || HasExact(op); }

Status Evaluate(Call& call) {
  call.outputs.clear();
  call.abs_sum.clear();
  call.steps.clear();
  call.reduction_length = 1;
  if (const Entry* exact = FindExact(call)) return exact->run(call);
  const Entry* e = Find(call.op);
  if (!e) {
    return Errorf(Code::kNotImplemented, "%.*s: no double-precision reference",
                  static_cast<int>(call.op.size()), call.op.data());
  }
  OPSNN_RETURN_IF_ERROR(e->run(call));
  if (!call.outputs.empty()) {
    OPSNN_RETURN_IF_ERROR(MakeExact(*e, call));
    call.outputs[0].dtype = call.output_dtype;
    for (double& v : call.outputs[0].v) v = Wrap(v, call.output_dtype);
  }
  return OkStatus();
}

Tensor FromHost(const HostTensor& t) {
  Tensor r;
  r.dtype = t.dtype();
  r.dims = t.dims();
  r.v = ToDoubles(t);
  if (t.dtype() == DType::kS64 &&
      std::any_of(r.v.begin(), r.v.end(), [](double v) { return std::fabs(v) >= kExactBelow; }))
    r.exact.assign(t.as<int64_t>(), t.as<int64_t>() + t.size());
  return r;
}

bool Next(std::vector<int64_t>& index, const Dims& dims) {
  for (int i = dims.rank() - 1; i >= 0; --i) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

int64_t Offset(const std::vector<int64_t>& index, const Dims& dims) {
  int64_t off = 0;
  for (int i = 0; i < dims.rank(); ++i) off = off * dims[i] + index[i];
  return off;
}

int64_t BroadcastOffset(const std::vector<int64_t>& index, const Dims& dims) {
  const int shift = static_cast<int>(index.size()) - dims.rank();
  int64_t off = 0;
  for (int i = 0; i < dims.rank(); ++i) off = off * dims[i] + (dims[i] == 1 ? 0 : index[i + shift]);
  return off;
}

int NormAxis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

std::vector<int64_t> Ints(const Tensor& t) {
  std::vector<int64_t> r(t.v.size());
  for (size_t i = 0; i < r.size(); ++i) r[i] = static_cast<int64_t>(t.v[i]);
  return r;
}

}  // namespace opsnn::ref
