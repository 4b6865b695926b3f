#include "cases/case_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "tensor/element.h"
#include "testing/testing.h"

namespace opsnn::cases {
namespace {

// Replaces the string "$name" everywhere.
Json Substitute(const Json& j, const std::string& name, const Json& value) {
  if (j.is_string()) return j.get<std::string>() == name ? value : j;
  if (!j.is_structured()) return j;
  Json r = j;
  for (auto& element : r) element = Substitute(element, name, value);
  return r;
}

// Dims and values of nested lists; a number has no dims.
void Flatten(const Json& j, int depth, std::vector<int64_t>* dims, std::vector<double>* values) {
  if (!j.is_array()) {
    values->push_back(Number(j));
    return;
  }
  if (static_cast<int>(dims->size()) == depth) dims->push_back(static_cast<int64_t>(j.size()));
  for (const Json& e : j) Flatten(e, depth + 1, dims, values);
}

// Keeps the elements that a view of these dims and strides sees.
void Take(const Json& view, Data* d) {
  const Dims dims(view.at("dims").get<std::vector<int64_t>>());
  const Dims strides(view.at("strides").get<std::vector<int64_t>>()), order = ContiguousStrides(dims);
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(dims); ++i) {
    int64_t at = 0;
    for (int k = 0; k < dims.rank(); ++k) at += i / order[k] % dims[k] * strides[k];
    values.push_back(d->values[static_cast<size_t>(at)]);
  }
  d->dims = dims;
  d->values = std::move(values);
}

double FromBits(uint64_t bits, DType t) { return ReadElement(&bits, t); }

}  // namespace

const std::vector<Case>& AllCases() {
  static const std::vector<Case>* all = [] {
    auto* list = new std::vector<Case>;
    std::ifstream file(OPSNN_CASES_FILE);
    const Json j = Json::parse(file);
    for (const Json& c : j.at("cases"))
      list->push_back(
          {c.at("id"), c.at("about"), c.value("elsewhere", ""), c.value("checks", Json::array())});
    return list;
  }();
  return *all;
}

std::vector<Json> Expand(const Json& check) {
  std::vector<Json> list = {check};
  if (!check.contains("sweep")) return list;
  list[0].erase("sweep");
  for (const auto& [name, range] : check["sweep"].items()) {
    std::vector<Json> values;
    if (range.is_array()) {
      values.assign(range.begin(), range.end());
    } else {
      for (int64_t v = range.at("from"); v <= range.at("to"); ++v) values.push_back(v);
    }
    std::vector<Json> next;
    for (const Json& c : list)
      for (const Json& v : values) next.push_back(Substitute(c, "$" + name, v));
    list = std::move(next);
  }
  return list;
}

double Number(const Json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number()) return j.get<double>();
  const std::string s = j.get<std::string>();
  if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (s == "inf") return std::numeric_limits<double>::infinity();
  if (s == "-inf") return -std::numeric_limits<double>::infinity();
  ADD_FAILURE() << "not a number: " << s;
  return 0;
}

DType TypeOf(const Json& j, DType default_dtype) {
  if (!j.is_object() || !j.contains("dtype")) return default_dtype;
  const auto t = DTypeFromName(j["dtype"].get<std::string>());
  if (!t) ADD_FAILURE() << "unknown dtype in " << j;
  return t.value_or(default_dtype);
}

Data ReadData(const Json& j, DType default_dtype) {
  Data d;
  d.dtype = TypeOf(j, default_dtype);
  std::vector<int64_t> dims;
  const Json values = j.is_object() ? j.value("values", Json()) : j;
  if (!values.is_null()) Flatten(values, 0, &dims, &d.values);
  if (j.is_object() && j.contains("bits")) {
    for (const Json& b : j["bits"]) {
      const bool nan = b == "nan";
      d.any_nan |= nan;
      d.bits.push_back(nan ? 0 : std::strtoull(b.get<std::string>().c_str(), nullptr, 16));
      d.values.push_back(nan ? Number("nan") : FromBits(d.bits.back(), d.dtype));
    }
    dims = {static_cast<int64_t>(d.bits.size())};
  }
  if (j.is_object() && j.contains("dims")) dims = j["dims"].get<std::vector<int64_t>>();
  d.dims = Dims(dims);
  const size_t size = static_cast<size_t>(NumElements(d.dims));
  if (j.is_object() && j.contains("fill")) d.values.assign(size, Number(j["fill"]));
  if (j.is_object() && j.contains("cycle")) {
    const Json& cycle = j["cycle"];
    const int64_t n = static_cast<int64_t>(cycle.size());
    const int64_t shift = j.value("shift", int64_t{0}), each = j.value("each", int64_t{1});
    for (int64_t i = 0; i < static_cast<int64_t>(size); ++i)
      d.values.push_back(Number(cycle[static_cast<size_t>(((i / each - shift) % n + n) % n)]));
  }
  // [start, step], optionally [start, step, modulus]: start + (i * step) mod modulus
  if (j.is_object() && j.contains("iota")) {
    const auto s = j["iota"].get<std::vector<double>>();
    for (size_t i = 0; i < size; ++i) {
      const double at = static_cast<double>(i) * s[1];
      d.values.push_back(s[0] + (s.size() > 2 ? std::fmod(at, s[2]) : at));
    }
  }
  if (j.is_object() && j.contains("upper")) {
    for (int64_t i = 0; i < static_cast<int64_t>(size); ++i)
      d.values.push_back(i % d.dims.back() > i / d.dims.back());
  }
  if (j.is_object() && j.contains("set")) {
    for (const Json& s : j["set"]) d.values.at(s[0].get<size_t>()) = Number(s[1]);
  }
  if (d.values.size() != size)
    ADD_FAILURE() << d.values.size() << " values for " << size << " elements in " << j;
  d.values.resize(size);
  if (j.is_object() && j.contains("take")) Take(j["take"], &d);
  return d;
}

std::shared_ptr<HostTensor> ToHost(const Data& d) {
  auto t = std::make_shared<HostTensor>(d.dtype, d.dims);
  char* p = static_cast<char*>(t->data());
  for (size_t i = 0; i < d.values.size(); ++i, p += SizeOf(d.dtype)) {
    if (d.bits.empty()) {
      WriteElement(p, d.dtype, d.values[i]);
    } else {
      std::memcpy(p, &d.bits[i], SizeOf(d.dtype));
    }
  }
  return t;
}

std::string Mismatch(const Json& want, DType got_dtype, const Dims& got_dims,
                     const std::vector<double>& got) {
  if (want.is_object() && want.value("finite", false)) {
    if (Dims(want.at("dims").get<std::vector<int64_t>>()) != got_dims) return "shape " + ToString(got_dims);
    for (double v : got)
      if (!std::isfinite(v)) return "not finite";
    return "";
  }
  const Data d = ReadData(want, got_dtype);
  if (d.dtype != got_dtype) return StrFormat("dtype %s, expected %s", Name(got_dtype), Name(d.dtype));
  if (d.dims != got_dims) return "shape " + ToString(got_dims) + ", expected " + ToString(d.dims);
  double abs = 0, rel = 0;
  if (want.is_object()) {
    abs = want.value("abs", 0.0);
    rel = want.value("rel", 0.0) + want.value("ulps", 0.0) * testing::Epsilon(got_dtype);
  }
  return testing::Compare(got, d.values, abs, rel);
}

}  // namespace opsnn::cases
