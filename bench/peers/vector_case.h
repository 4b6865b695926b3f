// One operator that memory or the vector units bound, and those who compute it. All compute on the same
// memory, one after the other; every peer is a file of its own, compiled where its library is installed.
#ifndef OPSNN_BENCH_PEERS_VECTOR_CASE_H_
#define OPSNN_BENCH_PEERS_VECTOR_CASE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opsnn/dtype.h"

namespace opsnn::peers {

using Shape = std::vector<int64_t>;

enum class VectorOp : uint8_t {
  kRelu,
  kAdd,
  kGeluErf,
  kGeluTanh,
  kSoftmax,
  kLayerNorm,
  kBatchNormRelu,
  kMaxPool,
  kAvgPool,
  kTranspose,
  kColumnSum,
  kRowSum,
  kGather,
  kCrossEntropy,
  kCrossEntropyGrad,
  kLayerNormGrad,
  kBatchNormGrad,
  kMaxPoolGrad,
  kAvgPoolGrad,
  kScaleShiftRelu,
};

struct Operand {
  const char* name;
  DType dtype;
  Shape dims;
  bool constant = false;  // may be brought into any form beforehand
  int64_t below = 0;      // integers: values from 0 to this
  double low = -1, high = 1;
  int64_t size() const;
  size_t bytes() const { return static_cast<size_t>(size()) * SizeOf(dtype); }
};

struct VectorCase {
  std::string name;
  VectorOp op;
  std::vector<Operand> in, out;
  Shape perm;                               // kTranspose
  int64_t kernel = 0, stride = 0, pad = 0;  // pools, along both axes
  double read = 0, written = 0;             // bytes that the definition asks for; by default the operands'
};

std::vector<VectorCase> VectorCases();

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float f;
  std::memcpy(&f, &wide, sizeof f);
  return f;
}

struct VectorMemory {
  std::vector<void*> in, out;
};

struct VectorRun {
  std::string name;
  std::function<void()> run;
};
using VectorRuns = std::vector<VectorRun>;

// The case as an ONNX model; empty where ONNX has no such operator. Constants are taken from memory.
std::string OnnxBytes(const VectorCase& c, const VectorMemory& m);

// Each appends what it can compute of the case.
void AddOurs(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to);
void AddOneDnn(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to);
void AddTorch(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to);
void AddOnnxRuntime(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to);

// "oneDNN 3.7.1": what is linked.
std::string OneDnnVersion();
std::string TorchVersion();
std::string OnnxRuntimeVersion();

// Reads `read` bytes from `from` and writes `written` bytes to `to`, as fast as memory allows: with plain
// stores or past the caches, along one run of addresses or eight.
struct Stream {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t read = 0, written = 0;
  bool past_caches = false, many = false;
};
void RunStream(const Stream& s, int threads);

// Memory of its own in huge pages where the system gives them; lives as long as the object.
class Pages {
 public:
  explicit Pages(size_t bytes, bool huge = true);
  ~Pages();
  Pages(const Pages&) = delete;
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_VECTOR_CASE_H_
