// One product with its epilogue, and those who compute it. Every peer is a file of its own, compiled where
// its library is installed.
#ifndef OPSNN_BENCH_PEERS_CASE_H_
#define OPSNN_BENCH_PEERS_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace opsnn::peers {

enum class Act : uint8_t { kNone, kRelu, kGeluErf, kGeluTanh };
enum class Type : uint8_t { kF32, kBf16, kS8 };  // of both operands; results are f32, s32 for kS8
const char* Name(Act act);
const char* Name(Type type);

// y(b, m, n) = act(a(b, m, k) x w(k, n or b, k, n) + bias(n)), all row-major and contiguous. A product
// without bias has a null one. `constant` weights may be brought into any layout beforehand.
struct Case {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Act act = Act::kNone;
  Type type = Type::kF32;
  bool constant = false;
  int threads = 1;
  const void *a = nullptr, *w = nullptr;
  const float* bias = nullptr;
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual const char* name() const = 0;
  virtual void Run() = 0;
  virtual const void* result() const = 0;
};
using Contenders = std::vector<std::unique_ptr<Contender>>;

// Each appends what it can compute of the case; nothing when it cannot.
void AddOurs(const Case& c, Contenders& to);
void AddOneDnn(const Case& c, Contenders& to);
void AddOpenBlas(const Case& c, Contenders& to);
void AddTorch(const Case& c, Contenders& to);
void AddOnnxRuntime(const Case& c, Contenders& to);

// Prints what the first call on a shape costs us against a warm one.
void MeasureFirstCalls(int threads);

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_CASE_H_
