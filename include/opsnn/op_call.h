// OpCall: one operator with its shapes, run or explained without a model. What `opsnn bench matmul ...` and
// `opsnn explain conv2d ...` do, a program can do.
#ifndef OPSNN_OP_CALL_H_
#define OPSNN_OP_CALL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "opsnn/decision.h"
#include "opsnn/export.h"
#include "opsnn/status.h"
#include "opsnn/tensor.h"

namespace opsnn {

// operator: matmul, conv2d, softmax, layernorm, rmsnorm, relu, gelu, add, mul, maxpool, transpose, ... (OpCall::Names()).
struct OpSpec {
  std::string op;
  std::map<std::string, std::vector<int64_t>> ints;   // "m", "n", "k", "batch", "x", "w", "stride", "pad", ...
  DType dtype = DType::kF32;
  std::vector<std::string> epilogue;                  // "bias", "relu", "gelu", ... in order
  std::string profile;                                // device profile for explain, "" = the knob's
};

struct OpTiming {
  double first_ms = 0;
  std::vector<double> fused_ms, unfused_ms;           // in turns; unfused is empty without an epilogue
  int64_t peak_bytes = 0, bytes_moved = 0;
  double flops = 0;
};

class OPSNN_API OpCall {
 public:
  // Checks the specification; errors name operator, argument, got and allowed.
  static Result<OpCall> Make(const OpSpec& spec);
  OpCall(OpCall&&) noexcept;
  OpCall& operator=(OpCall&&) noexcept;
  ~OpCall();
  Result<std::vector<plan::Decision>> Explain() const;
  Result<OpTiming> Bench(int runs, uint64_t seed);
  std::string shape() const;
  static std::vector<std::string> Names();

 private:
  struct Impl;
  explicit OpCall(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opsnn

#endif  // OPSNN_OP_CALL_H_
