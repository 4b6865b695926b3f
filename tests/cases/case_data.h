// The cases of tests/data/bug_cases.json as the runner sees them.
//
// A case is a list of checks; a check is one call (an ONNX operator or an aclnn function) or one small model
// with several runs. A check may hold "sweep": {"n": [...] or {"from", "to"}}: it then runs once for every
// combination, with the string "$n" replaced by the value wherever it stands. tests/data/README.md states the
// whole form.
#ifndef TESTS_CASES_CASE_DATA_H_
#define TESTS_CASES_CASE_DATA_H_

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "tensor/host_tensor.h"

namespace opsnn::cases {

using Json = nlohmann::json;

struct Case {
  std::string id, about;
  std::string elsewhere;  // a test of its own covers it: "Suite.Name"
  Json checks;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.id; }
};
const std::vector<Case>& AllCases();

// Every combination of the check's sweep; the check itself where it has none.
std::vector<Json> Expand(const Json& check);

// A tensor as written, or just its values.
struct Data {
  DType dtype = DType::kF32;
  Dims dims;
  std::vector<double> values;  // row-major
  std::vector<uint64_t> bits;  // instead of values, where given
  bool any_nan = false;        // bits that stand for any NaN are written as "nan"
};
Data ReadData(const Json& j, DType default_dtype = DType::kF32);
double Number(const Json& j);  // also "nan", "inf", "-inf"
DType TypeOf(const Json& j, DType default_dtype);
// The tensor's elements, rounded to its dtype.
std::shared_ptr<HostTensor> ToHost(const Data& d);

// "" where `got` (dims, dtype, elements in logical order) is what `want` says, else what differs. Tolerance:
// "abs" + |want| * ("rel" + "ulps" * unit roundoff), 0 by default.
std::string Mismatch(const Json& want, DType got_dtype, const Dims& got_dims, const std::vector<double>& got);

// What of the check the library does not have yet: "CumSum", "aclnnAddmm", "aclnnMatmul of bf16"; "" when it
// can run.
std::string MissingForOnnx(const Json& check);
std::string MissingForAclnn(const Json& check);

// Run one expanded check, with gtest expectations.
void RunOnnx(const Json& check);
void RunAclnn(const Json& check);

}  // namespace opsnn::cases

#endif  // TESTS_CASES_CASE_DATA_H_
