// Calls of aclnn functions with right arguments, drawn from short descriptions, and their right results.
#ifndef TESTS_SOAK_CASE_H_
#define TESTS_SOAK_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "capi/aclnn_entry.h"
#include "testing/testing.h"

namespace opsnn::soak {

// A function with the description of its arguments, one word each:
//   x:a,2b  an input of the call's float type whose dims are the sizes a and twice b; a letter is one random
//           size throughout the call, a number stands for itself, nothing behind the colon is a scalar tensor
//   f: h: l: k: c: q:  the same in f32, f16, s64, s32, s8 and bool; l:a<b holds numbers below the size b
//   capital letters (X: F: H: L: C: Q:)  outputs; z: g:  an input that is the output as well, of the call's
//   type or f32
//   i:3  an integer; i:a  a size; d:0.5  a number; s:1.5  an aclScalar; v:1,a  an aclIntArray; b:1,0  an
//   aclBoolArray; w:mean  text; t:a,b+a,b  an aclTensorList of inputs, T: one of outputs; n  null
struct Row {
  const char* api;
  const char* args;
  double lo = -2, hi = 2;  // of input values
  // What the first output is in double precision, element by element, where that is cheap to say.
  double (*unary)(double) = nullptr;
  double (*binary)(double, double) = nullptr;
};
const std::vector<Row>& Rows();

struct Operand {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  bool input = false, output = false;
  std::string bytes;  // of an input
  std::string want;   // of an output
};

struct Argument {
  enum Kind : uint8_t { kTensor, kList, kScalar, kInts, kBools, kInt, kReal, kText, kNull } kind = kNull;
  std::vector<int64_t> values;  // operands, integers, truth values
  std::string text;
  double real = 0;
};

struct Case {
  const Row* row = nullptr;
  const OpsnnFunction* function = nullptr;
  std::vector<Operand> operands;
  std::vector<Argument> arguments;
};

// A random call of the row; ends the process when the row makes no sense.
Case Draw(const Row& row, testing::Rng& rng);

// The call on device memory: operand k lies at addresses[k].
class Call {
 public:
  Call(const Case& c, const std::vector<void*>& addresses);
  ~Call();
  Call(const Call&) = delete;
  // Phase one; the code.
  int Plan();
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  aclOpExecutor* executor() const { return executor_; }
  // Phase two.
  int Run(void* workspace, aclrtStream stream);

 private:
  const Case& case_;
  std::vector<aclTensor*> tensors_;  // by operand; null where a list owns it
  std::vector<aclTensorList*> lists_;
  std::vector<aclScalar*> scalars_;
  std::vector<aclIntArray*> ints_;
  std::vector<aclBoolArray*> bools_;
  std::vector<OpsnnArg> args_;
  uint64_t workspace_bytes_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

// Compares the first output of a row that has a reference with it; "" or where it is wrong.
std::string CheckReference(const Case& c);

}  // namespace opsnn::soak

#endif  // TESTS_SOAK_CASE_H_
