// What this machine can do, measured just before it is compared with: multiply-adds by type and reading.
#ifndef OPSNN_BENCH_PEERS_LIMITS_H_
#define OPSNN_BENCH_PEERS_LIMITS_H_

#include "base/buffer.h"
#include "bench/peers/case.h"

namespace opsnn::peers {

// Measures for so many threads and prints.
void PrintLimits(int threads);
// The shortest time for the products of the case.
double ProductSeconds(const Case& c);

// Reads as many bytes as the weights have, by all threads. It takes its turns like everybody else, so that it
// finds the shared cache as they do.
class Reader : public Contender {
 public:
  explicit Reader(const Case& c);
  const char* name() const override { return "reading"; }
  void Run() override;
  const void* result() const override { return nullptr; }

 private:
  AlignedBuffer buffer_;
};
// Weights that the caches of the cores cannot hold.
bool Streams(const Case& c);

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_LIMITS_H_
