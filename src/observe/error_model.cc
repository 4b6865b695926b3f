#include "observe/error_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "op/advice.h"

namespace opsnn::observe {
namespace {

// Operators that move elements: the error tensor moves along.
bool Moves(std::string_view op) {
  static const std::set<std::string_view> kOps = {
      "Transpose", "Reshape", "Flatten",        "Squeeze",      "Unsqueeze",
      "Concat",    "Split",   "Slice",          "Expand",       "Tile",
      "Pad",       "Gather",  "GatherND",       "DepthToSpace", "SpaceToDepth",
      "Identity",  "Dropout", "GatherElements", "Trilu",        "ReverseSequence"};
  return kOps.count(op) > 0;
}

bool IsContraction(std::string_view op) {
  return op == "MatMul" || op == "Gemm" || op == "Conv" || op == "ConvTranspose";
}

// Every output element depends on a whole row of the first operand, and no more strongly than on its largest
// error.
bool IsRowOperator(std::string_view op) {
  return op == "Softmax" || op == "LogSoftmax" || op == "LayerNormalization" || op == "RMSNormalization" ||
         op == "GroupNormalization" || op == "InstanceNormalization" || op == "LpNormalization" ||
         op == "MeanVarianceNormalization" || op == "SoftmaxCrossEntropyLoss";
}

// Outputs are bounded combinations of the window: errors combine as the values do.
bool IsAveraging(std::string_view op) {
  return op == "ReduceMean" || op == "AveragePool" || op == "GlobalAveragePool" || op == "ReduceMax" ||
         op == "ReduceMin" || op == "MaxPool" || op == "GlobalMaxPool" || op == "Resize";
}

bool HasError(const BoundedCall& c) {
  return std::any_of(c.inputs.begin(), c.inputs.end(),
                     [](const Bounded* b) { return b && !b->error.empty(); });
}

Status Run(const BoundedCall& c, std::span<const ref::Tensor* const> inputs, ref::Call* out) {
  out->op = c.op;
  out->attrs = c.attrs;
  out->inputs = inputs;
  out->num_outputs = c.num_outputs;
  out->output_dims = c.output_dims;
  out->output_dtype = c.output_dtype;
  return ref::Evaluate(*out);
}

std::vector<const ref::Tensor*> Pointers(const std::vector<ref::Tensor>& tensors, const BoundedCall& c) {
  std::vector<const ref::Tensor*> p;
  for (size_t i = 0; i < tensors.size(); ++i) p.push_back(c.inputs[i] ? &tensors[i] : nullptr);
  return p;
}

// The call with every operand shifted by sign[i % 2] times its error.
Status RunShifted(const BoundedCall& c, double even, double odd, ref::Call* out,
                  std::vector<ref::Tensor>* storage) {
  storage->clear();
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    ref::Tensor t;
    if (c.inputs[i]) {
      t = c.inputs[i]->value;
      const double sign = i % 2 ? odd : even;
      for (size_t k = 0; k < c.inputs[i]->error.size(); ++k) t.v[k] += sign * c.inputs[i]->error[k];
    }
    storage->push_back(std::move(t));
  }
  const auto pointers = Pointers(*storage, c);
  return Run(c, pointers, out);
}

// Errors of x as they reach output o of a normalisation by its own statistics. An error e of all of a channel
// moves the mean by e and the deviation s by no more than e, so (x - mean) / s * scale by
// e |scale| / s (2 + |x - mean| / s), and the variance by 2 e s.
void PassThroughStatistics(const BoundedCall& c, const ref::Tensor& y, size_t o, std::vector<double>* error) {
  const ref::Tensor& x = c.inputs[0]->value;
  const std::vector<double>& given = c.inputs[0]->error;
  const int64_t channels = x.dims.rank() > 1 ? x.dims[1] : 1;
  int64_t area = 1;
  for (int i = 2; i < x.dims.rank(); ++i) area *= x.dims[i];
  const double count = static_cast<double>(x.size() / std::max<int64_t>(channels, 1));
  const double kept = 1 - c.attrs->Float("momentum", 0.9), eps = c.attrs->Float("epsilon", 1e-5);
  std::vector<double> mean(static_cast<size_t>(channels), 0), var = mean, most = mean;
  const auto channel = [&](size_t i) {
    return static_cast<size_t>(static_cast<int64_t>(i) / area % channels);
  };
  for (size_t i = 0; i < given.size(); ++i) {
    mean[channel(i)] += x.v[i] / count;
    most[channel(i)] = std::max(most[channel(i)], given[i]);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const double away = x.v[i] - mean[channel(i)];
    var[channel(i)] += away * away / count;
  }
  for (size_t i = 0; i < y.v.size(); ++i) {
    const size_t at = o == 0 ? channel(i) : i;
    const double s = std::sqrt(var[at] + eps);
    (*error)[i] = o == 1   ? kept * most[at]
                  : o == 2 ? kept * 2 * most[at] * std::sqrt(var[at])
                           : most[at] * std::fabs(c.inputs[1]->value.v[at]) / s *
                                 (2 + std::fabs(x.v[i] - mean[at]) / s);
  }
}

// What running statistics (output o) round by: the batch's own as a reduction over |x| or their squares, and
// the sum with the old ones relative to its terms.
std::vector<double> StatisticsRounding(const BoundedCall& c, size_t o) {
  const ref::Tensor &x = c.inputs[0]->value, &old = c.inputs[o + 2]->value;
  const auto channels = static_cast<int64_t>(old.v.size());
  const double count = static_cast<double>(x.size() / std::max<int64_t>(channels, 1));
  const double momentum = c.attrs->Float("momentum", 0.9), growth = 2 * std::sqrt(count) + 4;
  int64_t area = 1;
  for (int i = 2; i < x.dims.rank(); ++i) area *= x.dims[i];
  std::vector<double> terms(old.v.size(), 0);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double v = x.v[static_cast<size_t>(i)];
    terms[static_cast<size_t>(i / area % channels)] += (o == 1 ? std::fabs(v) : v * v) / count;
  }
  for (size_t i = 0; i < terms.size(); ++i)
    terms[i] = UnitRoundoff(x.dtype == DType::kF64 ? DType::kF64 : DType::kF32) *
               (growth * (1 - momentum) * terms[i] + 4 * momentum * std::fabs(old.v[i]));
  return terms;
}

// The operator applied to |errors| of data operands; shape operands keep their values.
Status PassByMoving(const BoundedCall& c, size_t o, std::vector<double>* error) {
  std::vector<ref::Tensor> storage;
  for (const Bounded* b : c.inputs) {
    ref::Tensor t;
    if (b) t = b->value;
    if (b && IsFloat(t.dtype)) {
      if (b->error.empty())
        std::fill(t.v.begin(), t.v.end(), 0.0);
      else
        t.v = b->error;
    }
    storage.push_back(std::move(t));
  }
  if (c.op == "Resize" && storage.size() > 2 && c.inputs[2]) storage[2] = c.inputs[2]->value;  // scales
  const auto pointers = Pointers(storage, c);
  ref::Call call;
  OPSNN_RETURN_IF_ERROR(Run(c, pointers, &call));
  for (size_t i = 0; i < error->size(); ++i) (*error)[i] = std::fabs(call.outputs[o].v[i]);
  return OkStatus();
}

// Bilinear: error <= |A| dB + dA |B|. Each term is the contraction itself on magnitudes.
Status PassThroughContraction(const BoundedCall& c, size_t o, std::vector<double>* error) {
  for (size_t which = 0; which < std::min<size_t>(2, c.inputs.size()); ++which) {
    if (c.inputs[which]->error.empty()) continue;
    std::vector<ref::Tensor> storage(2);
    for (size_t i = 0; i < 2; ++i) {
      storage[i] = c.inputs[i]->value;
      for (size_t k = 0; k < storage[i].v.size(); ++k)
        storage[i].v[k] = i == which ? c.inputs[i]->error[k] : std::fabs(storage[i].v[k]);
    }
    const std::vector<const ref::Tensor*> pointers = {&storage[0], &storage[1]};
    ref::Call call;
    OPSNN_RETURN_IF_ERROR(Run(c, pointers, &call));
    for (size_t i = 0; i < error->size(); ++i) (*error)[i] += std::fabs(call.outputs[o].v[i]);
  }
  return OkStatus();
}

// Pointwise operators, and sums, which are monotone in each operand: evaluated at the corners of the error
// box.
Status PassByCorners(const BoundedCall& c, const ref::Tensor& y, size_t o, std::vector<double>* error) {
  const double signs[4][2] = {{1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
  const bool one_operand = c.inputs.size() == 1;
  for (int s = 0; s < (one_operand ? 2 : 4); ++s) {
    ref::Call call;
    std::vector<ref::Tensor> storage;
    OPSNN_RETURN_IF_ERROR(RunShifted(c, signs[s][0], signs[s][1], &call, &storage));
    for (size_t i = 0; i < error->size(); ++i) {
      const double d = std::fabs(call.outputs[o].v[i] - y.v[i]);
      if (d > (*error)[i]) (*error)[i] = d;  // NaN (both infinite) leaves the bound alone
    }
  }
  return OkStatus();
}

// Errors of the operands as they reach output o, y, without the operator's own rounding.
Status PassOn(const BoundedCall& c, const ref::Tensor& y, size_t o, std::vector<double>* error) {
  error->assign(y.v.size(), 0);
  if (Moves(c.op) || IsAveraging(c.op)) return PassByMoving(c, o, error);
  if (IsContraction(c.op)) return PassThroughContraction(c, o, error);
  if (c.op == "BatchNormalizationTraining" && !c.inputs[0]->error.empty()) {
    PassThroughStatistics(c, y, o, error);
    return OkStatus();
  }
  if (IsRowOperator(c.op) && c.inputs[0] && !c.inputs[0]->error.empty()) {
    // Condition of a normalised row: an input error e moves the outputs by at most about (|y| + 1) times the
    // largest relative error of the row; the global maximum is the simple safe form.
    double largest = 0;
    for (double e : c.inputs[0]->error) largest = std::max(largest, e);
    for (size_t i = 0; i < error->size(); ++i)
      (*error)[i] = 2 * largest * (std::fabs(y.v[i]) + (c.op == "Softmax" ? 0 : 1));
    return OkStatus();
  }
  return PassByCorners(c, y, o, error);
}

// Errors of the operands as they reach integers: what is accepted of floats (kBoundFactor) decides ties here,
// as nothing can be added behind.
Status PassToIntegers(const BoundedCall& c, const ref::Tensor& y, size_t o, std::vector<double>* error) {
  std::vector<Bounded> wide;
  for (const Bounded* b : c.inputs) {
    wide.push_back(b ? *b : Bounded());
    if (!b || !IsFloat(b->value.dtype)) continue;
    for (double& e : wide.back().error) e *= kBoundFactor;
  }
  std::vector<const Bounded*> inputs;
  for (size_t i = 0; i < wide.size(); ++i) inputs.push_back(c.inputs[i] ? &wide[i] : nullptr);
  BoundedCall call = c;
  call.inputs = inputs;
  return PassOn(call, y, o, error);
}

// What the chain's own operands carried, moved along by an operator in the chain.
Status MovePassed(const BoundedCall& c, size_t o, std::vector<double>* passed) {
  std::vector<Bounded> before;
  for (const Bounded* b : c.inputs) {
    before.push_back(b ? *b : Bounded());
    if (b && !b->captured) before.back().error = b->passed;
  }
  std::vector<const Bounded*> inputs;
  for (size_t i = 0; i < before.size(); ++i) inputs.push_back(c.inputs[i] ? &before[i] : nullptr);
  BoundedCall call = c;
  call.inputs = inputs;
  return PassByMoving(call, o, passed);
}

// Each value becomes the largest magnitude within `reach` along one of the last two dims.
void SpreadMax(ref::Tensor* t, int axis, int64_t reach) {
  const int rank = t->dims.rank();
  int64_t inner = 1, size = t->dims[axis];
  for (int i = axis + 1; i < rank; ++i) inner *= t->dims[i];
  const std::vector<double> v = t->v;
  for (size_t i = 0; i < v.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / inner % size;
    double most = 0;
    for (int64_t j = std::max<int64_t>(0, at - reach); j <= std::min(size - 1, at + reach); ++j) {
      const double other = std::fabs(v[static_cast<size_t>(static_cast<int64_t>(i) + (j - at) * inner)]);
      if (std::isfinite(other)) most = std::max(most, other);  // others are computed as plain sums
    }
    t->v[i] = most;
  }
}

// The processor's products of bf16 take values below 2^-126 for zero, operands and sums alike.
double Flushed(const BoundedCall& c, int64_t terms) {
  double largest = 0;
  for (size_t i = 0; i < 2; ++i) {
    if (i >= c.inputs.size() || !c.inputs[i] || c.inputs[i]->value.dtype != DType::kBF16) return 0;
    for (double v : c.inputs[i]->value.v) largest = std::max(largest, std::isfinite(v) ? std::fabs(v) : 0);
  }
  return 0x1p-126 * static_cast<double>(terms) * (1 + 2 * largest);
}

// Of a Conv by Winograd's algorithm, whose kernels are square.
int KernelSide(const BoundedCall& c) { return static_cast<int>(c.inputs[1]->value.dims[2]); }

// sum |w| max |x| of a Conv, the maximum over what may share a tile with the output.
Status TileMagnitudes(const BoundedCall& c, std::vector<double>* sums) {
  std::vector<ref::Tensor> storage{c.inputs[0]->value, c.inputs[1]->value};
  for (int axis : {2, 3}) SpreadMax(&storage[0], axis, c.winograd + KernelSide(c) - 2);
  for (double& v : storage[1].v) v = std::fabs(v);
  const std::vector<const ref::Tensor*> pointers = {&storage[0], &storage[1]};
  ref::Call call;
  OPSNN_RETURN_IF_ERROR(Run(c, pointers, &call));
  *sums = std::move(call.outputs[0].v);
  return OkStatus();
}

}  // namespace

double UnitRoundoff(DType t) {
  switch (t) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

Status TermSums(const BoundedCall& c, std::vector<double>* sums) {
  if (c.op != "Add" && c.op != "Sub" && c.op != "Sum") return OkStatus();
  std::vector<ref::Tensor> storage;
  for (const Bounded* b : c.inputs) {
    storage.push_back(b->value);
    for (double& v : storage.back().v) v = std::isfinite(v) ? std::fabs(v) : 0;
  }
  const auto pointers = Pointers(storage, c);
  BoundedCall sum = c;
  if (c.op == "Sub") sum.op = "Add";
  ref::Call call;
  OPSNN_RETURN_IF_ERROR(Run(sum, pointers, &call));
  *sums = std::move(call.outputs[0].v);
  return OkStatus();
}

Result<std::vector<Bounded>> EvaluateBounded(const BoundedCall& c) {
  std::vector<const ref::Tensor*> inputs;
  bool f64 = false;
  for (const Bounded* b : c.inputs) {
    inputs.push_back(b ? &b->value : nullptr);
    f64 |= b && b->value.dtype == DType::kF64;
  }
  ref::Call call;
  OPSNN_RETURN_IF_ERROR(Run(c, inputs, &call));
  std::vector<Bounded> result(call.outputs.size());
  const double eps = UnitRoundoff(f64 ? DType::kF64 : DType::kF32);
  for (size_t o = 0; o < result.size(); ++o) {
    Bounded& r = result[o];
    r.value = std::move(call.outputs[o]);
    if (!IsFloat(c.output_dtype) || (o > 0 && !IsFloat(r.value.dtype))) {
      // Exact, but for what errors of operands and ties of a rounding decide.
      if (HasError(c)) OPSNN_RETURN_IF_ERROR(PassToIntegers(c, r.value, o, &r.error));
      if (o == 0 && !call.steps.empty()) {
        r.error.resize(call.steps.size(), 0);
        for (size_t i = 0; i < r.error.size(); ++i) r.error[i] += call.steps[i];
      }
      continue;
    }
    if (HasError(c)) {
      OPSNN_RETURN_IF_ERROR(PassOn(c, r.value, o, &r.error));
      r.passed = r.error;
    }
    if (Moves(c.op)) {
      const bool in_chain = std::any_of(c.inputs.begin(), c.inputs.end(), [](const Bounded* b) {
        return b && !b->captured && !b->error.empty();
      });
      if (in_chain) OPSNN_RETURN_IF_ERROR(MovePassed(c, o, &r.passed));
      continue;
    }
    if (r.error.empty()) r.error.assign(r.value.v.size(), 0);
    if (o > 0 && c.op == "BatchNormalizationTraining") {
      const std::vector<double> own = StatisticsRounding(c, o);
      for (size_t i = 0; i < r.error.size(); ++i) r.error[i] += own[i];
    }
    const bool sums = o == 0 && call.abs_sum.size() == r.error.size();
    double growth = 2 * std::sqrt(static_cast<double>(call.reduction_length)) + 4;
    if (o == 0 && c.winograd != 0) {
      growth = op::AdviceOf(*op::FindOperator(c.op))
                   .winograd_growth(c.winograd, KernelSide(c), c.inputs[0]->value.dims[1]);
      OPSNN_RETURN_IF_ERROR(TileMagnitudes(c, &call.abs_sum));
    }
    const double flushed = sums ? Flushed(c, call.reduction_length) : 0;
    std::vector<double> terms;
    if (o == 0 && c.rewritten) OPSNN_RETURN_IF_ERROR(TermSums(c, &terms));
    double row_scale = 0;  // normalised rows round relative to their largest element
    if (IsRowOperator(c.op) && c.op != "Softmax") {
      for (double v : r.value.v) row_scale = std::max(row_scale, std::isfinite(v) ? std::fabs(v) : 0);
    }
    for (size_t i = 0; i < r.error.size(); ++i) {
      const double v = std::isfinite(r.value.v[i]) ? std::fabs(r.value.v[i]) : 0;
      // Rounding d = x - max moves e^d by |d| eps, and |d| <= |ln y|.
      const double exponent = c.op == "Softmax" && v > 0 ? std::fabs(std::log(v)) : 0;
      r.error[i] += sums ? eps * growth * call.abs_sum[i] + flushed
                         : eps * (4 + exponent) * std::max({v, row_scale, terms.empty() ? 0 : terms[i]});
    }
  }
  return result;
}

}  // namespace opsnn::observe
