// A model of one operator call, so that everything a Model answers (run, explain, verify, profile) can be
// asked of a single operator with its epilogue:
//
//   OpSpec spec{.op = "matmul"};
//   spec.ints = {{"m", {128}}, {"n", {768}}, {"k", {3072}}};
//   spec.epilogue = {"bias", "gelu"};
//   auto model = opsnn::MakeOperatorModel(spec, {});
#ifndef OPSNN_OPERATOR_MODEL_H_
#define OPSNN_OPERATOR_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "opsnn/export.h"
#include "opsnn/model.h"
#include "opsnn/status.h"

namespace opsnn {

struct OpSpec {
  std::string op;                                    // a name of OperatorModelNames()
  std::map<std::string, std::vector<int64_t>> ints;  // "m", "n", "k", "batch", "x", "w", "stride", "pad", ...
  DType dtype = DType::kF32;
  std::vector<std::string> epilogue;  // "bias", "relu", "gelu", "add", ... in order
  // For Plan and Explain only: large weights are inputs without values instead of constants, so that sizes
  // beyond this machine's memory can be asked about.
  bool plan_only = false;
};

struct OpSpecHelp {
  std::string op;
  std::string arguments;  // "--m --n --k [--batch] [--epilogue bias,gelu]"
};
OPSNN_API std::vector<OpSpecHelp> OperatorModelNames();
// Errors name the operator, the argument, what it got and what is allowed. Weights and biases are constants
// with fixed pseudo-random values; the model's inputs are the activations.
OPSNN_API Result<Model> MakeOperatorModel(const OpSpec& spec, const ModelOptions& options = {});
// "m=128 n=768 k=3072": what tables print.
OPSNN_API std::string DescribeShape(const OpSpec& spec);

}  // namespace opsnn

#endif  // OPSNN_OPERATOR_MODEL_H_
