// What fuzz targets draw their choices from.
#ifndef TESTS_FUZZ_SOURCE_H_
#define TESTS_FUZZ_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace opsnn::fuzz {

// Numbers from the input; 0 when it is used up.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : p_(data), end_(data + size) {}
  bool empty() const { return p_ >= end_; }
  uint8_t Byte() { return p_ < end_ ? *p_++ : 0; }
  size_t Choice(size_t n) { return Byte() % n; }
  // Mostly 0 to 4, else anything, also far out.
  int64_t Small() {
    const uint8_t b = Byte();
    return b < 200 ? b % 5 : static_cast<int8_t>(b) * (b & 1 ? 1 : 1000003);
  }
  double Real() {
    static constexpr double kValues[] = {0, 1, 0.5, -1, 1e-5, 2, 1e30, -1e-30, 3.5, 0.0 / 1};
    return kValues[Choice(std::size(kValues))];
  }

 private:
  const uint8_t* p_;
  const uint8_t* end_;
};

}  // namespace opsnn::fuzz

#endif  // TESTS_FUZZ_SOURCE_H_
