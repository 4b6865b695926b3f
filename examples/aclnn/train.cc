// Training by hand: a classifier of two layers, its gradients summed over micro-batches, AdamW.
//   g++ train.cc -I P/include -L P/lib64 -lascendcl -lnnopbase -lopapi
#include <cmath>
#include <deque>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_apply_adam_w.h"
#include "aclnnop/aclnn_logsoftmax.h"
#include "aclnnop/aclnn_logsoftmax_backward.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_nll_loss.h"
#include "aclnnop/aclnn_nll_loss_backward.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_threshold_backward.h"
#include "common.h"

namespace {

constexpr int64_t kBatch = 64, kMicro = 4, kRows = kBatch / kMicro, kIn = 2, kHidden = 32, kClasses = 2;

// The same memory with rows and columns exchanged.
struct Transposed {
  aclTensor* tensor;
  explicit Transposed(const DeviceTensor& t) {
    const int64_t dims[] = {t.shape[1], t.shape[0]}, strides[] = {1, t.shape[1]};
    tensor = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, t.shape.data(), 2, t.address);
    Check(tensor ? 0 : 1, "aclCreateTensor");
  }
  Transposed(const Transposed&) = delete;
  ~Transposed() { aclDestroyTensor(tensor); }
};

struct Scalar {
  aclScalar* scalar;
  explicit Scalar(float value) : scalar(aclCreateScalar(&value, ACL_FLOAT)) {}
  Scalar(const Scalar&) = delete;
  ~Scalar() { aclDestroyScalar(scalar); }
};

// A parameter with its gradient and the moments of AdamW.
struct Parameter {
  DeviceTensor value, gradient, m, v;
  explicit Parameter(const std::vector<int64_t>& shape) : value(shape), gradient(shape), m(shape), v(shape) {
    std::vector<float> values(value.count);
    const float range = std::sqrt(2.0f / static_cast<float>(shape[0]));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = shape.size() > 1 ? range * std::sin(37.0f * static_cast<float>(i + 1)) : 0;
    value.Upload(values);
    m.Upload(std::vector<float>(value.count, 0));
    v.Upload(std::vector<float>(value.count, 0));
    ClearGradient();
  }
  void ClearGradient() { gradient.Upload(std::vector<float>(value.count, 0)); }
};

// Labels lie in memory of their own type.
struct Labels {
  void* address = nullptr;
  aclTensor* tensor = nullptr;
  explicit Labels(const std::vector<int64_t>& labels) {
    const size_t bytes = labels.size() * sizeof(int64_t);
    const auto n = static_cast<int64_t>(labels.size());
    Check(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    Check(aclrtMemcpy(address, bytes, labels.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    tensor = aclCreateTensor(&n, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, &n, 1, address);
  }
  Labels(const Labels&) = delete;
  ~Labels() {
    aclDestroyTensor(tensor);
    aclrtFree(address);
  }
};

class Network {
 public:
  Network() : w1_({kIn, kHidden}), b1_({kHidden}), w2_({kHidden, kClasses}), b2_({kClasses}) {}

  // Adds `share` of the gradients of the mean loss over these rows; returns the loss.
  float Learn(const std::vector<float>& inputs, const std::vector<int64_t>& labels, float share) {
    const auto rows = static_cast<int64_t>(labels.size());
    DeviceTensor x({rows, kIn}), hidden({rows, kHidden}), active({rows, kHidden}), logits({rows, kClasses});
    DeviceTensor scores({rows, kClasses}), weights({kClasses}), loss({1}), total({1}), one({1});
    const Labels target(labels);
    const Scalar unit(1), zero(0), part(share);
    x.Upload(inputs);
    weights.Upload({1, 1});
    one.Upload({1});
    RUN(aclnnAddmm, b1_.value.tensor, x.tensor, w1_.value.tensor, unit.scalar, unit.scalar, hidden.tensor, 0);
    RUN(aclnnRelu, hidden.tensor, active.tensor);
    RUN(aclnnAddmm, b2_.value.tensor, active.tensor, w2_.value.tensor, unit.scalar, unit.scalar,
        logits.tensor, 0);
    RUN(aclnnLogSoftmax, logits.tensor, -1, scores.tensor);
    RUN(aclnnNLLLoss, scores.tensor, target.tensor, weights.tensor, kMean, kIgnored, loss.tensor,
        total.tensor);

    DeviceTensor d_scores({rows, kClasses}), d_logits({rows, kClasses}), d_active({rows, kHidden}),
        d_hidden({rows, kHidden});
    RUN(aclnnNLLLossBackward, one.tensor, scores.tensor, target.tensor, weights.tensor, kMean, kIgnored,
        total.tensor, d_scores.tensor);
    RUN(aclnnLogSoftmaxBackward, d_scores.tensor, scores.tensor, -1, d_logits.tensor);
    RUN(aclnnMm, d_logits.tensor, Transposed(w2_.value).tensor, d_active.tensor, 0);
    RUN(aclnnThresholdBackward, d_active.tensor, hidden.tensor, zero.scalar, d_hidden.tensor);
    AddGradients(x, d_hidden, part, &w1_, &b1_);
    AddGradients(active, d_logits, part, &w2_, &b2_);
    return loss.Download()[0];
  }

  // One step of AdamW with the gradients that were added up; step counts from 1.
  void Step(int step) {
    const float beta1 = 0.9f, beta2 = 0.999f;
    const float values[] = {std::pow(beta1, static_cast<float>(step - 1)),
                            std::pow(beta2, static_cast<float>(step - 1)),
                            0.02f,
                            0.0f,
                            beta1,
                            beta2,
                            1e-8f};
    std::deque<DeviceTensor> s;
    for (const float v : values) s.emplace_back(std::vector<int64_t>{1}).Upload({v});
    for (Parameter* p : All()) {
      RUN(aclnnApplyAdamW, p->value.tensor, p->m.tensor, p->v.tensor, s[0].tensor, s[1].tensor, s[2].tensor,
          s[3].tensor, s[4].tensor, s[5].tensor, s[6].tensor, p->gradient.tensor, nullptr, false, false);
      p->ClearGradient();
    }
  }

  std::vector<float> Gradients() {
    std::vector<float> all;
    for (Parameter* p : All()) {
      const std::vector<float> g = p->gradient.Download();
      all.insert(all.end(), g.begin(), g.end());
    }
    return all;
  }
  void ClearGradients() {
    for (Parameter* p : All()) p->ClearGradient();
  }

 private:
  static constexpr int64_t kMean = 1, kIgnored = -100;

  // Of y = x W + b: the gradient of W is x^T dy, that of b the sum of the rows of dy.
  static void AddGradients(const DeviceTensor& x, const DeviceTensor& dy, const Scalar& share, Parameter* w,
                           Parameter* b) {
    DeviceTensor dw(w->value.shape), db(b->value.shape);
    RUN(aclnnMm, Transposed(x).tensor, dy.tensor, dw.tensor, 0);
    const int64_t first = 0;
    aclIntArray* rows = aclCreateIntArray(&first, 1);
    RUN(aclnnReduceSum, dy.tensor, rows, false, ACL_FLOAT, db.tensor);
    Check(aclDestroyIntArray(rows), "aclDestroyIntArray");
    RUN(aclnnInplaceAdd, w->gradient.tensor, dw.tensor, share.scalar);
    RUN(aclnnInplaceAdd, b->gradient.tensor, db.tensor, share.scalar);
  }
  std::vector<Parameter*> All() { return {&w1_, &b1_, &w2_, &b2_}; }

  Parameter w1_, b1_, w2_, b2_;
};

bool Train() {
  // Two half circles, one around the end of the other.
  std::vector<float> points;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kBatch; ++i) {
    const float angle = 3.14159f * static_cast<float>(i / 2) / (kBatch / 2 - 1);
    const bool second = i % 2;
    points.push_back(second ? 1 - std::cos(angle) : std::cos(angle));
    points.push_back(second ? 0.5f - std::sin(angle) : std::sin(angle));
    labels.push_back(second);
  }
  Network network;
  network.Learn(points, labels, 1);
  const std::vector<float> whole = network.Gradients();
  network.ClearGradients();
  float loss = 0, first = 0, off = 0;
  for (int step = 1; step <= 200; ++step) {
    loss = 0;
    for (int64_t part = 0; part < kMicro; ++part) {
      const auto row = static_cast<std::ptrdiff_t>(part * kRows);
      loss += network.Learn({points.begin() + row * kIn, points.begin() + (row + kRows) * kIn},
                            {labels.begin() + row, labels.begin() + row + kRows}, 1.0f / kMicro) /
              kMicro;
    }
    if (step == 1) {
      first = loss;
      const std::vector<float> added = network.Gradients();
      for (size_t i = 0; i < whole.size(); ++i) off = std::fmax(off, std::fabs(added[i] - whole[i]));
    }
    network.Step(step);
  }
  std::printf(
      "train: loss %.3f at first, %.4f after 200 steps; %lld micro-batches differ from the batch by %.1e\n",
      first, loss, static_cast<long long>(kMicro), off);
  return loss < 0.02f && first > 0.3f && off < 1e-5f;
}

}  // namespace

int main() {
  const Device device;
  const bool right = Train();
  return right ? 0 : 1;
}
