// LSTM and GRU in layers and directions, against steps in double.
#include <cmath>
#include <memory>

#include "aclnnop/aclnn_gru.h"
#include "aclnnop/aclnn_lstm.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

double Sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

class Recurrent : public ApiTest {
 protected:
  using Tensors = std::vector<std::unique_ptr<ApiTensor>>;
  // A list of handles of its own over the memory of the tensors.
  static aclTensorList* ListOf(const Tensors& tensors) {
    std::vector<const aclTensor*> handles;
    for (const auto& t : tensors) {
      const Dims& d = t->dims();
      const Dims& s = t->memory().view().strides;
      handles.push_back(aclCreateTensor(d.data(), d.rank(), Acl(t->dtype()), s.data(), 0, ACL_FORMAT_ND,
                                        d.data(), d.rank(), t->memory().view().data));
    }
    return aclCreateTensorList(handles.data(), handles.size());
  }

  struct Problem {
    int64_t steps, batch, inputs, hidden, directions, layers, gates;
    bool biased, batch_first;
  };
  Problem Random(int64_t gates, int round) {
    return {rng_.Int(1, 6), rng_.Int(1, 4), rng_.Int(1, 9), rng_.Int(1, 9), 1 + round % 2,
            rng_.Int(1, 3), gates,          round % 3 != 0, round % 4 < 2};
  }
  Tensors Parameters(const Problem& p, DType t, int round) {
    Tensors list;
    for (int64_t l = 0; l < p.layers; ++l) {
      const int64_t width = l == 0 ? p.inputs : p.directions * p.hidden, rows = p.gates * p.hidden;
      for (int64_t d = 0; d < p.directions; ++d) {
        list.push_back(std::make_unique<ApiTensor>(t, Dims{rows, width}, &rng_, round % 5 == 1));
        list.push_back(std::make_unique<ApiTensor>(t, Dims{rows, p.hidden}, &rng_, round % 5 == 2));
        for (int b = 0; p.biased && b < 2; ++b) list.push_back(std::make_unique<ApiTensor>(t, Dims{rows}));
      }
    }
    for (auto& w : list) w->memory().FillRandom(rng_, -0.5, 0.5);
    return list;
  }

  // x and the results by [time][batch][value]; states by [layer and direction][batch][value].
  struct Run {
    std::vector<double> y, h, c;
  };
  // step(gates of the inputs, gates of the state, h, c): both kinds of gates with their biases.
  template <typename Step>
  static Run Reference(const Problem& p, std::vector<double> x, const Tensors& params, std::vector<double> h,
                       std::vector<double> c, Step step) {
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    for (int64_t l = 0; l < p.layers; ++l) {
      const int64_t width = l == 0 ? p.inputs : p.directions * p.hidden, out = p.directions * p.hidden;
      std::vector<double> y(at(p.steps * p.batch * out));
      for (int64_t d = 0; d < p.directions; ++d) {
        const size_t first = at((l * p.directions + d) * (p.biased ? 4 : 2));
        const auto w = params[first]->Get(), r = params[first + 1]->Get();
        const auto wb = p.biased ? params[first + 2]->Get() : std::vector<double>(at(p.gates * p.hidden));
        const auto rb = p.biased ? params[first + 3]->Get() : std::vector<double>(at(p.gates * p.hidden));
        for (int64_t b = 0; b < p.batch; ++b) {
          double* state = &h[at(((l * p.directions + d) * p.batch + b) * p.hidden)];
          double* cells = &c[at(((l * p.directions + d) * p.batch + b) * p.hidden)];
          for (int64_t i = 0; i < p.steps; ++i) {
            const int64_t t = d == 0 ? i : p.steps - 1 - i;
            std::vector<double> gx(wb), gh(rb);
            for (int64_t g = 0; g < p.gates * p.hidden; ++g) {
              for (int64_t k = 0; k < width; ++k)
                gx[at(g)] += w[at(g * width + k)] * x[at((t * p.batch + b) * width + k)];
              for (int64_t k = 0; k < p.hidden; ++k) gh[at(g)] += r[at(g * p.hidden + k)] * state[k];
            }
            for (int64_t k = 0; k < p.hidden; ++k) {
              const auto gate = [&](const std::vector<double>& all, int64_t g) {
                return all[at(g * p.hidden + k)];
              };
              step([&](int64_t g) { return gate(gx, g); }, [&](int64_t g) { return gate(gh, g); }, &state[k],
                   &cells[k]);
              y[at((t * p.batch + b) * out + d * p.hidden + k)] = state[k];
            }
          }
        }
      }
      x = y;
    }
    return {x, h, c};
  }

  // [time, batch, ..] out of the order that the tensor has.
  static std::vector<double> ByTime(const Problem& p, const ApiTensor& t) {
    const std::vector<double> v = t.Get();
    if (!p.batch_first) return v;
    const int64_t width = t.dims()[2];
    return Make({p.steps, p.batch, width}, [&](const Index& i) {
      return v[static_cast<size_t>((i[1] * p.steps + i[0]) * width + i[2])];
    });
  }
  static Dims Sequence(const Problem& p, int64_t width) {
    return p.batch_first ? Dims{p.batch, p.steps, width} : Dims{p.steps, p.batch, width};
  }
  // Layers are stored in the type and read again, with slopes of about 1 and sums of some values.
  static void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, DType t,
                         const char* what) {
    std::vector<double> tolerance(want.size(), t == DType::kF16 ? 64 * 0x1p-11 : 64 * 0x1p-24);
    EXPECT_EQ(Compare(got, want, tolerance), "") << what;
  }

  Rng rng_;
};

TEST_F(Recurrent, Lstm) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 5 == 4 ? DType::kF16 : DType::kF32;
    const Problem p = Random(4, round);
    const bool given = round % 3 != 1;
    const Tensors params = Parameters(p, t, round);
    const Dims state = {p.layers * p.directions, p.batch, p.hidden};
    RandomTensor x(t, Sequence(p, p.inputs), rng_, round % 4 == 1, 1);
    Tensors first;
    for (int i = 0; i < 2; ++i) {
      first.push_back(std::make_unique<ApiTensor>(t, state));
      first.back()->memory().FillRandom(rng_, -1, 1);
    }
    ApiTensor y(t, Sequence(p, p.directions * p.hidden), &rng_, round % 4 == 2), hy(t, state), cy(t, state);
    aclTensorList *list = ListOf(params), *hx = given ? ListOf(first) : nullptr;
    ASSERT_EQ(CALL(aclnnLSTM, x, list, hx, nullptr, p.biased, p.layers, 0.0, false, p.directions == 2,
                   p.batch_first, y, hy, cy, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
              0)
        << aclGetRecentErrMsg();
    const std::vector<double> none(static_cast<size_t>(NumElements(state)));
    const Run want = Reference(p, ByTime(p, x), params, given ? first[0]->Get() : none,
                               given ? first[1]->Get() : none, [](auto gx, auto gh, double* h, double* c) {
                                 const auto g = [&](int64_t i) { return gx(i) + gh(i); };
                                 *c = Sigmoid(g(1)) * *c + Sigmoid(g(0)) * std::tanh(g(2));
                                 *h = Sigmoid(g(3)) * std::tanh(*c);
                               });
    ExpectNear(ByTime(p, y), want.y, t, "y");
    ExpectNear(hy.Get(), want.h, t, "h"), ExpectNear(cy.Get(), want.c, t, "c");
    ExpectGuards({&x, &y, &hy, &cy});
    aclDestroyTensorList(list);
    if (hx) aclDestroyTensorList(hx);
  }
}

TEST_F(Recurrent, Gru) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 5 == 4 ? DType::kF16 : DType::kF32;
    const Problem p = Random(3, round);
    const bool given = round % 3 != 1;
    const Tensors params = Parameters(p, t, round);
    const Dims state = {p.layers * p.directions, p.batch, p.hidden};
    RandomTensor x(t, Sequence(p, p.inputs), rng_, round % 4 == 1, 1);
    ApiTensor first(t, state), y(t, Sequence(p, p.directions * p.hidden), &rng_, round % 4 == 2),
        hy(t, state);
    first.memory().FillRandom(rng_, -1, 1);
    aclTensorList* list = ListOf(params);
    ASSERT_EQ(CALL(aclnnGRU, x, list, OrNull(given, first), nullptr, p.biased, p.layers, 0.0, false,
                   p.directions == 2, p.batch_first, y, hy, nullptr, nullptr, nullptr, nullptr, nullptr),
              0)
        << aclGetRecentErrMsg();
    const std::vector<double> none(static_cast<size_t>(NumElements(state)));
    const Run want = Reference(p, ByTime(p, x), params, given ? first.Get() : none, none,
                               [](auto gx, auto gh, double* h, double*) {
                                 const double r = Sigmoid(gx(0) + gh(0)), z = Sigmoid(gx(1) + gh(1));
                                 *h = (1 - z) * std::tanh(gx(2) + r * gh(2)) + z * *h;
                               });
    ExpectNear(ByTime(p, y), want.y, t, "y");
    ExpectNear(hy.Get(), want.h, t, "h");
    ExpectGuards({&x, &first, &y, &hy});
    aclDestroyTensorList(list);
  }
}

TEST_F(Recurrent, Refusals) {
  const Problem p = {2, 3, 4, 5, 1, 1, 3, true, false};
  const Tensors params = Parameters(p, DType::kF32, 0);
  ApiTensor x(DType::kF32, {2, 3, 4}), y(DType::kF32, {2, 3, 5}), wrong(DType::kF32, {2, 3, 6}),
      hy(DType::kF32, {1, 3, 5}), cy(DType::kF32, {1, 3, 5}), lengths(DType::kS64, {2});
  aclTensorList* list = ListOf(params);
  const auto gru = [&](aclTensor* sizes, bool biased, int64_t layers, bool train, aclTensor* out) {
    return CALL(aclnnGRU, x, list, nullptr, sizes, biased, layers, 0.0, train, false, false, out, hy, nullptr,
                nullptr, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(gru(nullptr, true, 1, false, y), 0) << aclGetRecentErrMsg();
  ExpectRefused(gru(nullptr, true, 1, true, y), 561003, {"aclnnGRU: train is true"});
  ExpectRefused(gru(lengths, true, 1, false, y), 561003, {"batchSizes is given"});
  ExpectRefused(gru(nullptr, false, 1, false, y), 161002, {"params is a list of 4", "allowed: 2"});
  ExpectRefused(gru(nullptr, true, 0, false, y), 161002, {"numLayers is 0"});
  ExpectRefused(gru(nullptr, true, 1, false, wrong), 161002, {"output has shape [2,3,6]", "[2,3,5]"});
  for (const double dropout : {2.0, -0.5, std::nan("")}) {
    ExpectRefused(CALL(aclnnGRU, x, list, nullptr, nullptr, true, 1, dropout, false, false, false, y, hy,
                       nullptr, nullptr, nullptr, nullptr, nullptr),
                  161002, {"aclnnGRU: dropout is ", "0 to 1"});
    ExpectRefused(CALL(aclnnLSTM, x, list, nullptr, nullptr, true, 1, dropout, false, false, false, y, hy, cy,
                       nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                  161002, {"aclnnLSTM: dropout is ", "0 to 1"});
  }
  aclDestroyTensorList(list);
}

}  // namespace
}  // namespace opsnn::capi
