#include "onnx/tensor_data.h"

#include <cstring>
#include <vector>

#include "onnx/model.h"
#include "onnx/onnx_fields.h"
#include "tensor/limits.h"

namespace opsnn::onnx {
namespace {

struct Raw {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0, location = 0;
  bool has_raw = false, segment = false;
  std::string_view raw;
  std::vector<int64_t> ints, longs;  // int32_data, int64_data
  std::vector<float> floats;
  std::vector<double> doubles;
  bool other_list = false;  // string_data or uint64_data, of types that tensors here do not have
  ExternalData external_data;

  bool external() const { return location == 1; }
};

[[noreturn]] void Fail(const Raw& t, const std::string& why) {
  throw ReadError{InvalidArgument("tensor \"%s\" %s.", t.name.c_str(), why.c_str())};
}

Raw ReadFields(Message m) {
  namespace f = field::TensorProto;
  Raw t;
  while (m.Next()) {
    switch (m.field()) {
      case f::dims:
        m.Append(&t.dims);
        break;
      case f::data_type:
        t.data_type = m.Int();
        break;
      case f::name:
        t.name = m.String();
        break;
      case f::raw_data:
        t.raw = m.Bytes(), t.has_raw = true;
        break;
      case f::int32_data:
        m.Append(&t.ints);
        break;
      case f::int64_data:
        m.Append(&t.longs);
        break;
      case f::float_data:
        m.Append(&t.floats);
        break;
      case f::double_data:
        m.Append(&t.doubles);
        break;
      case f::string_data:
      case f::uint64_data:
        t.other_list = true;
        break;
      case f::segment:
        t.segment = true;
        break;
      case f::data_location:
        t.location = m.Int();
        break;
      case f::external_data:
        t.external_data.ReadEntry(m.Sub());
        break;
      default:
        break;
    }
  }
  return t;
}

// Values come in one form: raw bytes, a list of the type's own, or a file.
void CheckForms(const Raw& t) {
  std::string forms;
  const auto add = [&](bool has, const char* name) {
    if (has) forms += (forms.empty() ? "" : " and ") + std::string(name);
  };
  add(t.external(), "external data");
  add(t.has_raw && !(t.raw.empty() && t.external()), "raw_data");  // some writers leave an empty one behind
  add(!t.ints.empty(), "int32_data");
  add(!t.longs.empty(), "int64_data");
  add(!t.floats.empty(), "float_data");
  add(!t.doubles.empty(), "double_data");
  add(t.other_list, "a list of strings or uint64");
  if (forms.find(" and ") != std::string::npos)
    Fail(t, "has its values in " + forms + "; allowed: one of them");
  if (t.segment) Fail(t, "is a segment of a larger one, which is not supported");
  if (t.location != 0 && t.location != 1)
    Fail(t, "has the data location " + std::to_string(t.location) +
                "; allowed: 0 (in the model), 1 (in a file)");
}

// Types of fewer bits are stored as 32-bit integers, halves as their bits.
void CheckRange(const Raw& t, DType dtype) {
  const int bits = static_cast<int>(SizeOf(dtype)) * 8;
  if (dtype == DType::kBool || bits > 32) return;
  const bool is_signed = dtype == DType::kS8 || dtype == DType::kS16 || dtype == DType::kS32;
  const int64_t lo = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t hi = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  for (int64_t v : t.ints)
    if (v < lo || v > hi)
      Fail(t, "has the value " + std::to_string(v) + "; allowed for " + Name(dtype) + ": " +
                  std::to_string(lo) + " to " + std::to_string(hi));
}

template <typename To, typename From>
void Store(const std::vector<From>& from, HostTensor* out) {
  for (size_t i = 0; i < from.size(); ++i) out->as<To>()[i] = static_cast<To>(from[i]);
}

// How many values the typed list that belongs to this dtype has; and copies them when out has room for them.
size_t StoreTyped(const Raw& t, DType dtype, HostTensor* out) {
  switch (dtype) {
    case DType::kF32:
      if (out) Store<float>(t.floats, out);
      return t.floats.size();
    case DType::kF64:
      if (out) Store<double>(t.doubles, out);
      return t.doubles.size();
    case DType::kS64:
      if (out) Store<int64_t>(t.longs, out);
      return t.longs.size();
    case DType::kS32:
      if (out) Store<int32_t>(t.ints, out);
      break;
    case DType::kF16:  // halves are stored as their bits
    case DType::kBF16:
    case DType::kS16:
      if (out) Store<uint16_t>(t.ints, out);
      break;
    case DType::kS8:
    case DType::kU8:
      if (out) Store<uint8_t>(t.ints, out);
      break;
    case DType::kBool:
      if (out)
        for (size_t i = 0; i < t.ints.size(); ++i) out->as<uint8_t>()[i] = t.ints[i] != 0;
      break;
  }
  return t.ints.size();
}

}  // namespace

std::pair<std::string, ConstTensor> ReadTensor(Message m, const DataFolder& folder) {
  Raw t = ReadFields(m);
  const auto dtype =
      t.data_type > 0 && t.data_type < 64 ? DTypeFromOnnx(static_cast<int>(t.data_type)) : std::nullopt;
  if (!dtype)
    Fail(t,
         "has data type " + DataTypeName(t.data_type) +
             "; supported are float, double, float16, bfloat16, int8, uint8, int16, int32, int64 and bool");
  if (t.dims.size() > kMaxRank)
    Fail(t, StrFormat("has rank %zu; at most %d is supported", t.dims.size(), kMaxRank));
  const Dims dims{std::span<const int64_t>(t.dims)};
  for (int64_t d : dims)
    if (d < 0) Fail(t, "has a negative size in its shape " + ToString(dims));
  const auto count = CheckedNumElements(dims);
  if (!count || !WithinLimits(dims)) Fail(t, "is too large: shape " + ToString(dims));

  // Sizes are checked against the data that is really there before anything is allocated.
  const uint64_t bytes = static_cast<uint64_t>(*count) * SizeOf(*dtype);
  CheckForms(t);
  CheckRange(t, *dtype);
  if (!t.external()) {
    if (t.has_raw ? t.raw.size() != bytes : StoreTyped(t, *dtype, nullptr) != static_cast<uint64_t>(*count))
      Fail(t, StrFormat("of shape %s has %zu %s of data, %llu expected", ToString(dims).c_str(),
                        t.has_raw ? t.raw.size() : StoreTyped(t, *dtype, nullptr),
                        t.has_raw ? "bytes" : "values",
                        static_cast<unsigned long long>(t.has_raw ? bytes : *count)));
  }
  auto out = std::make_shared<HostTensor>(*dtype, dims);
  if (!out->ok()) throw ReadError{Errorf(Code::kRuntime, "no memory for tensor \"%s\".", t.name.c_str())};
  if (t.external()) {
    if (Status s = CopyExternal(t.external_data, folder, bytes, out->data()); !s.ok()) Fail(t, s.message());
  } else if (!t.has_raw) {
    StoreTyped(t, *dtype, out.get());
  } else if (bytes && *dtype == DType::kBool) {
    for (size_t i = 0; i < t.raw.size(); ++i) out->as<uint8_t>()[i] = t.raw[i] != 0;
  } else if (bytes) {
    std::memcpy(out->data(), t.raw.data(), bytes);
  }
  return {std::move(t.name), std::move(out)};
}

}  // namespace opsnn::onnx
