#include "onnx/tensor_data.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "onnx/mapped_file.h"
#include "onnx/model.h"
#include "onnx/onnx_fields.h"
#include "tensor/limits.h"

namespace opsnn::onnx {
namespace {

struct Raw {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  bool has_raw = false, external = false;
  std::string_view raw;
  std::vector<int64_t> ints;  // int32_data or int64_data
  std::vector<float> floats;
  std::vector<double> doubles;
  std::string location;  // of external data
  int64_t offset = 0, length = -1;
};

[[noreturn]] void Fail(const Raw& t, const std::string& why) {
  throw ReadError{InvalidArgument("tensor \"%s\" %s.", t.name.c_str(), why.c_str())};
}

void ReadExternalEntry(Message m, Raw* t) {
  std::string key, value;
  while (m.Next()) {
    if (m.field() == field::StringStringEntryProto::key) key = m.String();
    if (m.field() == field::StringStringEntryProto::value) value = m.String();
  }
  if (key == "location") t->location = value;
  if (key == "offset") t->offset = std::strtoll(value.c_str(), nullptr, 10);
  if (key == "length") t->length = std::strtoll(value.c_str(), nullptr, 10);
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
      case f::int64_data:
        m.Append(&t.ints);
        break;
      case f::float_data:
        m.Append(&t.floats);
        break;
      case f::double_data:
        m.Append(&t.doubles);
        break;
      case f::data_location:
        t.external = m.Int() == 1;
        break;
      case f::external_data:
        ReadExternalEntry(m.Sub(), &t);
        break;
      default:
        break;
    }
  }
  return t;
}

// External data lies in the model's own folder; a path that could leave it is refused.
void CopyExternal(const Raw& t, const std::string& folder, HostTensor* out) {
  if (folder.empty()) Fail(t, "keeps its data in a file, which a model given as bytes cannot have");
  if (t.location.empty() || t.location.find('/') != std::string::npos ||
      t.location.find('\\') != std::string::npos || t.location == ".." || t.location == ".")
    Fail(t,
         "names external data \"" + t.location + "\", which is not a plain file name in the model's folder");
  auto file = MappedFile::Open(folder + "/" + t.location);
  if (!file.ok()) Fail(t, "needs external data: " + file.status().message());
  const std::string_view bytes = file->bytes();
  const uint64_t need = out->bytes();
  const uint64_t offset = static_cast<uint64_t>(t.offset);
  if (t.offset < 0 || offset > bytes.size() || need > bytes.size() - offset ||
      (t.length >= 0 && static_cast<uint64_t>(t.length) != need))
    Fail(t, StrFormat("needs %llu bytes at offset %lld of \"%s\", which has %zu",
                      static_cast<unsigned long long>(need), static_cast<long long>(t.offset),
                      t.location.c_str(), bytes.size()));
  if (need) std::memcpy(out->data(), bytes.data() + offset, need);
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
      if (out) Store<int64_t>(t.ints, out);
      break;
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

std::pair<std::string, ConstTensor> ReadTensor(Message m, const std::string& folder) {
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
  if (!t.external) {
    if (t.has_raw ? t.raw.size() != bytes : StoreTyped(t, *dtype, nullptr) != static_cast<uint64_t>(*count))
      Fail(t, StrFormat("of shape %s has %zu %s of data, %llu expected", ToString(dims).c_str(),
                        t.has_raw ? t.raw.size() : StoreTyped(t, *dtype, nullptr),
                        t.has_raw ? "bytes" : "values",
                        static_cast<unsigned long long>(t.has_raw ? bytes : *count)));
  }
  auto out = std::make_shared<HostTensor>(*dtype, dims);
  if (!out->ok()) throw ReadError{Errorf(Code::kRuntime, "no memory for tensor \"%s\".", t.name.c_str())};
  if (t.external) {
    CopyExternal(t, folder, out.get());
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
