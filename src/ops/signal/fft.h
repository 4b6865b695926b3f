// Discrete Fourier transforms of any length, in f64.
#ifndef OPSNN_OPS_SIGNAL_FFT_H_
#define OPSNN_OPS_SIGNAL_FFT_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace opsnn::ops {

using Complex = std::complex<double>;

// Powers of two by halving; other lengths as a convolution with a chirp (Bluestein), whose transforms are of
// the next power of two above twice the length. O(n log n) either way. Shared between threads.
class Fft {
 public:
  explicit Fft(int64_t n);
  // x[k] = sum of x[j] e^(-2 pi i j k / n); the inverse has the other sign and divides by n. `x` has room for
  // n values and, behind them, scratch() more.
  void Run(Complex* x, bool inverse) const;
  int64_t size() const { return n_; }
  int64_t scratch() const { return chirp_.empty() ? 0 : m_; }
  // Room for one Run, zeroed; null when there is no memory.
  std::unique_ptr<Complex[]> Buffer() const {
    return std::unique_ptr<Complex[]>(new (std::nothrow) Complex[static_cast<size_t>(n_ + scratch())]);
  }

 private:
  void PowerOfTwo(Complex* x) const;  // of length m_
  void Chirped(Complex* x) const;

  int64_t n_, m_;
  std::vector<Complex> roots_;           // e^(-2 pi i k / m_), the first half
  std::vector<Complex> chirp_, filter_;  // Bluestein's factors and the transform of their conjugates
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_SIGNAL_FFT_H_
