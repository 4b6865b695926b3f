// Recurrent layers against their formulas in double precision, gate by gate.
#include <gtest/gtest.h>

#include <cmath>

#include "op/op_tester.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;
using testing::Rng;

double Sig(double x) { return 1 / (1 + std::exp(-x)); }

struct Sizes {
  int64_t times, batch, inputs, hidden, directions, gates;
};

class Reference {
 public:
  Reference(const std::string& op, const Sizes& s, bool linear) : op_(op), s_(s), linear_(linear) {}
  std::vector<double> x, w, r, b, h0, c0, p;
  std::vector<int64_t> lengths;
  std::vector<double> y, last_h, last_c;

  void Run(bool reverse) {
    y.assign(static_cast<size_t>(s_.times * s_.directions * s_.batch * s_.hidden), 0);
    last_h = h0, last_c = c0;
    for (int64_t d = 0; d < s_.directions; ++d)
      for (int64_t n = 0; n < s_.batch; ++n) Sequence(d, n, reverse || d == 1);
  }

 private:
  // Row `gate * hidden + j` of the products of a step; the part of the input, then that of the state.
  double FromInput(int64_t d, int64_t n, int64_t t, int64_t row) const {
    const int64_t rows = s_.gates * s_.hidden;
    double sum = b[static_cast<size_t>(2 * d * rows + row)];
    for (int64_t i = 0; i < s_.inputs; ++i)
      sum += w[static_cast<size_t>((d * rows + row) * s_.inputs + i)] *
             x[static_cast<size_t>((t * s_.batch + n) * s_.inputs + i)];
    return sum;
  }
  double FromState(int64_t d, const std::vector<double>& h, int64_t row) const {
    const int64_t rows = s_.gates * s_.hidden;
    double sum = b[static_cast<size_t>((2 * d + 1) * rows + row)];
    for (int64_t i = 0; i < s_.hidden; ++i)
      sum += r[static_cast<size_t>((d * rows + row) * s_.hidden + i)] * h[static_cast<size_t>(i)];
    return sum;
  }

  void Sequence(int64_t d, int64_t n, bool backwards) {
    const int64_t size = s_.hidden, first = (d * s_.batch + n) * size;
    std::vector<double> h(h0.begin() + first, h0.begin() + first + size),
        c(c0.begin() + first, c0.begin() + first + size);
    const int64_t length = lengths[static_cast<size_t>(n)];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = backwards ? length - 1 - i : i;
      std::vector<double> next = h;
      for (int64_t j = 0; j < size; ++j) {
        const auto gate = [&](int64_t g) {
          return FromInput(d, n, t, g * size + j) + FromState(d, h, g * size + j);
        };
        const auto k = static_cast<size_t>(j);
        if (op_ == "RNN") {
          next[k] = std::tanh(gate(0));
        } else if (op_ == "LSTM") {
          const auto peep = [&](int64_t g) { return p[static_cast<size_t>((d * 3 + g) * size + j)]; };
          const double in = Sig(gate(0) + peep(0) * c[k]), forget = Sig(gate(2) + peep(2) * c[k]);
          c[k] = forget * c[k] + in * std::tanh(gate(3));
          next[k] = Sig(gate(1) + peep(1) * c[k]) * std::tanh(c[k]);
        } else {
          const double update = Sig(gate(0)), reset = Sig(gate(1));
          std::vector<double> state = h;
          if (!linear_) {
            for (int64_t m = 0; m < size; ++m)
              state[static_cast<size_t>(m)] *= Sig(FromInput(d, n, t, size + m) + FromState(d, h, size + m));
          }
          const double recurrent = FromState(d, state, 2 * size + j) * (linear_ ? reset : 1);
          next[k] = (1 - update) * std::tanh(FromInput(d, n, t, 2 * size + j) + recurrent) + update * h[k];
        }
      }
      h = next;
      std::copy(h.begin(), h.end(), y.begin() + ((t * s_.directions + d) * s_.batch + n) * size);
    }
    std::copy(h.begin(), h.end(), last_h.begin() + first);
    std::copy(c.begin(), c.end(), last_c.begin() + first);
  }

  std::string op_;
  Sizes s_;
  bool linear_;
};

TEST(RecurrentTest, RandomLayers) {
  Rng rng;
  for (int round = 0; round < 36; ++round) {
    const std::string name = round % 3 == 0 ? "RNN" : round % 3 == 1 ? "LSTM" : "GRU";
    const DType t = round % 4 == 3 ? DType::kF64 : round % 5 == 4 ? DType::kF16 : DType::kF32;
    const int way = static_cast<int>(rng.Int(0, 2));
    const Sizes s = {rng.Int(1, 5), rng.Int(1, 3),    rng.Int(1, 4),
                     rng.Int(1, 5), way == 2 ? 2 : 1, name == "RNN" ? 1 : name == "LSTM" ? 4 : 3};
    const bool linear = rng.Chance(0.5), strided = rng.Chance(0.3);
    const int64_t rows = s.gates * s.hidden;
    const Dims state = {s.directions, s.batch, s.hidden};
    GuardedTensor x(t, {s.times, s.batch, s.inputs}, &rng, strided), w(t, {s.directions, rows, s.inputs}),
        r(t, {s.directions, rows, s.hidden}), b(t, {s.directions, 2 * rows}), lengths(DType::kS32, {s.batch}),
        h0(t, state), c0(t, state), p(t, {s.directions, 3 * s.hidden});
    for (GuardedTensor* g : {&x, &w, &r, &b, &h0, &c0, &p}) g->FillRandom(rng, -1, 1);
    Reference want(name, s, linear);
    std::vector<double> counts;
    for (int64_t n = 0; n < s.batch; ++n) {
      want.lengths.push_back(rng.Int(0, s.times));
      counts.push_back(static_cast<double>(want.lengths.back()));
    }
    lengths.Set(counts);
    want.x = x.Get(), want.w = w.Get(), want.r = r.Get(), want.b = b.Get(), want.h0 = h0.Get();
    want.c0 = c0.Get(), want.p = p.Get();
    want.Run(way == 1);
    OpTester test(name.c_str());
    test.In(x).In(w).In(r).In(b).In(lengths).In(h0);
    if (name == "LSTM") test.In(c0).In(p);
    if (name == "GRU") test.Attr("linear_before_reset", int64_t{linear});
    test.Attr("hidden_size", s.hidden);
    test.Attr("direction", std::string(way == 0 ? "forward" : way == 1 ? "reverse" : "bidirectional"));
    test.Outputs(name == "LSTM" ? 3 : 2);
    ASSERT_TRUE(test.Run().ok()) << test.status().message();
    const std::vector<double>* results[] = {&want.y, &want.last_h, &want.last_c};
    for (int i = 0; i < (name == "LSTM" ? 3 : 2); ++i) {
      std::vector<double> tolerance;
      for (double v : *results[i])
        tolerance.push_back(std::abs(v) * testing::Epsilon(t) + (t == DType::kF64 ? 0x1p-48 : 0x1p-25));
      EXPECT_EQ(testing::Compare(test.Out(i).Get(), *results[i], tolerance), "") << name << i << Name(t);
    }
  }
}

}  // namespace
}  // namespace opsnn::ops
