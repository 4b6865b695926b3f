// Table-driven tests of aclnn functions whose result depends on one element of each operand.
//
//   {.api = "aclnnCelu", .f = [](const double* x, const double* s) { ... }, .scalars = {1.5}},
//
// x holds the tensors in the order of the prototype, s the other arguments. Every dtype the function allows
// is tried on random shapes and views, with special values, and so is its in-place form; then its checks:
// nulls, dtypes, shapes, empty tensors.
#ifndef OPSNN_CAPI_API_CASE_H_
#define OPSNN_CAPI_API_CASE_H_

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "capi/api_tester.h"
#include "capi/function.h"

namespace opsnn::capi {

struct ApiCase {
  const char* api;
  double (*f)(const double* x, const double* s);
  double lo = -4, hi = 4;            // values of the tensors
  std::vector<double> scalars = {};  // values of the other arguments, in order
  double ulps = 8;             // bound in units of f32's epsilon (f64's for f64), relative to the result
  double absolute = 0;         // the same as an absolute bound, where terms cancel
  bool broadcast = false;      // tensors after the first may be smaller
  bool special = true;         // f has the limits at Inf and NaN
  const char* text = nullptr;  // the argument that is a string
  // The dtype of the result from that of the first tensor; null: the same, or the only one that is allowed.
  DType (*result)(DType) = nullptr;
  // The bound at a result may depend on the operands, where the condition of f does.
  double (*condition)(const double* x, const double* s) = nullptr;
  bool scalar_operand = false;  // a scalar that takes part in the promotion
  bool bools = true;            // false: not for bools
  bool checks_shapes = true;    // the last tensor must have the shape of the others
  bool in_place = true;         // test the in-place form if there is one
};

// Runs a case; failures name function, dtype and shape.
void TestApi(const ApiCase& k, Rng& rng, aclrtStream stream);

// For functions of integers and bools that give f32.
inline DType FloatResult(DType t) { return IsFloat(t) ? t : DType::kF32; }
inline DType BoolResult(DType) { return DType::kBool; }

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_CASE_H_
