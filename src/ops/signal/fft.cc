#include "ops/signal/fft.h"

#include <algorithm>
#include <cmath>

namespace opsnn::ops {

Fft::Fft(int64_t n) : n_(n), m_(1) {
  const bool power = (n & (n - 1)) == 0;
  while (m_ < (power ? n : 2 * n - 1)) m_ *= 2;
  for (int64_t k = 0; k < m_ / 2; ++k) {
    const double angle = -2 * M_PI * static_cast<double>(k) / static_cast<double>(m_);
    roots_.emplace_back(std::cos(angle), std::sin(angle));
  }
  if (power) return;
  filter_.assign(static_cast<size_t>(m_), 0);
  for (int64_t k = 0; k < n; ++k) {
    // k^2 modulo 2 n keeps the angle small: cos and sin of large arguments lose nothing then.
    const double angle = -M_PI * static_cast<double>(k * k % (2 * n)) / static_cast<double>(n);
    chirp_.emplace_back(std::cos(angle), std::sin(angle));
    filter_[static_cast<size_t>(k)] = std::conj(chirp_.back());
    if (k > 0) filter_[static_cast<size_t>(m_ - k)] = std::conj(chirp_.back());
  }
  PowerOfTwo(filter_.data());
}

void Fft::PowerOfTwo(Complex* x) const {
  for (int64_t i = 1, j = 0; i < m_; ++i) {  // bits of the index reversed
    int64_t bit = m_ >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (int64_t half = 1; half < m_; half *= 2) {
    const int64_t step = m_ / (2 * half);
    for (int64_t i = 0; i < m_; i += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const Complex a = x[i + k], b = x[i + k + half], w = roots_[static_cast<size_t>(k * step)];
        const Complex t(b.real() * w.real() - b.imag() * w.imag(), b.real() * w.imag() + b.imag() * w.real());
        x[i + k] = a + t;
        x[i + k + half] = a - t;
      }
    }
  }
}

void Fft::Chirped(Complex* x) const {
  Complex* y = x + n_;
  std::fill(y, y + m_, Complex(0));
  for (int64_t k = 0; k < n_; ++k) y[k] = x[k] * chirp_[static_cast<size_t>(k)];
  PowerOfTwo(y);
  // The inverse transform as the conjugate of the transform of the conjugate.
  for (int64_t k = 0; k < m_; ++k) y[k] = std::conj(y[k] * filter_[static_cast<size_t>(k)]);
  PowerOfTwo(y);
  for (int64_t k = 0; k < n_; ++k) {
    x[k] = std::conj(y[k]) * chirp_[static_cast<size_t>(k)] / static_cast<double>(m_);
  }
}

void Fft::Run(Complex* x, bool inverse) const {
  if (inverse) std::transform(x, x + n_, x, [](const Complex& v) { return std::conj(v); });
  if (chirp_.empty()) {
    PowerOfTwo(x);
  } else {
    Chirped(x);
  }
  if (!inverse) return;
  std::transform(x, x + n_, x, [n = static_cast<double>(n_)](const Complex& v) { return std::conj(v) / n; });
}

}  // namespace opsnn::ops
