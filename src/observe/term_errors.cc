#include "observe/term_errors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/parallel.h"
#include "device/profile.h"
#include "graph/session.h"
#include "observe/product_forms.h"
#include "plan/cost.h"
#include "plan/judge.h"

namespace opsnn::observe {
namespace {

using plan::CostTerm;
using plan::Decision;

const Point kPoints[] = {
    {64, 64, 64, 1},     {256, 256, 256, 1}, {512, 512, 512, 1},  {1024, 1024, 256, 1},
    {1, 4096, 1024, 1},  {8, 4096, 64, 1},   {4096, 16, 64, 1},   {12544, 32, 16, 1},
    {128, 3072, 768, 1}, {64, 64, 64, 64},   {2048, 2048, 64, 1}, {16, 16, 16, 1024},
};

// The layers whose cost the judge asks about: 3x3, pointwise, strided and depthwise ones.
struct Layer {
  const char* term;
  int64_t channels, out_channels, side, kernel, stride, groups;
};
const Layer kLayers[] = {
    {"convolution", 64, 64, 56, 3, 1, 1},
    {"convolution", 128, 128, 28, 3, 2, 1},
    {"convolution", 256, 64, 28, 1, 1, 1},
    {"convolution", 512, 512, 7, 3, 1, 1},
    {"convolution", 3, 32, 112, 3, 2, 1},
    {"depthwise convolution", 96, 96, 56, 3, 1, 96},
    {"depthwise convolution", 384, 384, 14, 3, 1, 384},
};

// Predicted over measured of one term, at all its points.
class Errors {
 public:
  void Add(const std::string& term, double predicted_us, double measured_us) {
    if (predicted_us <= 0 || measured_us <= 0) return;
    if (!of_.count(term)) order_.push_back(term);
    of_[term].push_back(predicted_us / measured_us);
  }
  std::vector<TermError> Report() const {
    std::vector<TermError> list;
    for (const std::string& term : order_) {
      TermError e;
      e.term = term;
      e.points = static_cast<int>(of_.at(term).size());
      double bias = 0, factor = 0;
      for (double ratio : of_.at(term)) {
        const double log = std::log(ratio);
        bias += log, factor += std::fabs(log);
        e.worst = std::max(e.worst, std::exp(std::fabs(log)));
      }
      e.bias = std::exp(bias / e.points);
      e.factor = std::exp(factor / e.points);
      list.push_back(std::move(e));
    }
    return list;
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> of_;
};

double SumOf(const std::vector<CostTerm>& terms, size_t from) {
  double us = 0;
  for (size_t i = from; i < terms.size(); ++i) us += terms[i].us;
  return us;
}

// The first two terms of the split form are the product (computing, and what of its stores shows), the others
// the pass; of the fused form the first is the product.
Status AddProduct(const Chain& chain, const Point& s, int threads, int runs, Errors& errors) {
  const Decision d = plan::JudgeContraction(EdgeOf(chain, s, threads), device::HostProfile(), Knobs{});
  if (d.split_terms.size() < 2 || d.fused_terms.empty()) return OkStatus();
  ProductForms forms(chain, s);
  OPSNN_RETURN_IF_ERROR(forms.Prepare());
  OPSNN_RETURN_IF_ERROR(forms.SetRegions(d.regions));
  std::vector<std::function<void()>> run = {[&] { forms.Product(); }, [&] { forms.Pass(); },
                                            [&] { forms.Fused(); }};
  const bool hybrid = d.verdict == plan::Verdict::kHybrid;
  if (hybrid) run.push_back([&] { forms.Hybrid(); });
  const std::vector<double> us = MedianMicroseconds(run, runs);
  errors.Add("product (cube, write C)", d.split_terms[0].us + d.split_terms[1].us, us[0]);
  errors.Add("pass of a split chain", SumOf(d.split_terms, 2), us[1]);
  errors.Add("fused form", d.time_fused_us, us[2]);
  // The chain on chip shows as a difference, which noise drowns where the product takes most of the time.
  constexpr double kShare = 0.15;
  if (us[2] - us[0] > kShare * us[2]) {
    errors.Add("chain on chip and its operands", SumOf(d.fused_terms, 1), us[2] - us[0]);
  }
  if (hybrid) errors.Add("by regions", d.time_hybrid_us, us[3]);
  return OkStatus();
}

Result<graph::Graph> LayerGraph(const Layer& l) {
  graph::Graph g;
  graph::Value x;
  x.name = "x";
  x.desc.dims = {1, l.channels, l.side, l.side};
  g.inputs.push_back(g.AddValue(std::move(x)));
  const Dims weights{l.out_channels, l.channels / l.groups, l.kernel, l.kernel};
  auto w = std::make_shared<HostTensor>(DType::kF32, weights);
  if (!w->ok()) return Errorf(Code::kRuntime, "no memory for the weights of a convolution");
  for (int64_t i = 0; i < w->size(); ++i) w->as<float>()[i] = static_cast<float>(i % 13 - 6) / 32;
  graph::Node n;
  n.name = "conv";
  n.op = op::FindOperator("Conv");
  n.inputs = {g.inputs[0], g.AddConstant("w", std::move(w))};
  n.num_op_inputs = 2;
  n.attrs.Set("pads", std::vector<int64_t>(4, l.kernel / 2));
  n.attrs.Set("strides", std::vector<int64_t>(2, l.stride));
  n.attrs.Set("group", l.groups);
  graph::Value y;
  y.name = "y";
  y.desc.known_rank = false;
  n.outputs = {g.AddValue(std::move(y))};
  g.outputs = n.outputs;
  g.AddNode(std::move(n));
  return g;
}

Status AddLayer(const Layer& l, int threads, int runs, Errors& errors) {
  OPSNN_ASSIGN_OR_RETURN(graph::Graph g, LayerGraph(l));
  graph::SessionOptions options;
  options.fusion = FusionMode::kOff;
  OPSNN_ASSIGN_OR_RETURN(const auto session, graph::Session::Create(std::move(g), options));
  auto x = std::make_shared<HostTensor>(DType::kF32, Dims{1, l.channels, l.side, l.side});
  if (!x->ok()) return Errorf(Code::kRuntime, "no memory for the input of a convolution");
  for (int64_t i = 0; i < x->size(); ++i) x->as<float>()[i] = static_cast<float>(i % 97 - 48) / 48;
  graph::RunOptions timed;
  timed.time_nodes = true;
  std::vector<double> us;
  for (int i = 0; i < runs; ++i) {
    OPSNN_ASSIGN_OR_RETURN(const graph::RunResult r, session->Run({{"x", x}}, timed));
    for (size_t s = 0; s < r.step_us.size(); ++s) {
      if (r.prepared->graph().nodes[r.prepared->steps()[s].node].op->name == "Conv")
        us.push_back(r.step_us[s]);
    }
  }
  if (us.empty()) return OkStatus();
  const int64_t out = (l.side + 2 * (l.kernel / 2) - l.kernel) / l.stride + 1;
  const bool depthwise = l.groups > 1;
  plan::ContractionEdge e;
  e.kind = depthwise ? plan::ContractionKind::kDepthwise : plan::ContractionKind::kConv;
  e.m = out * out, e.n = l.out_channels;
  e.k = (depthwise ? 1 : l.channels) * l.kernel * l.kernel;
  e.input_bytes = l.channels * l.side * l.side * 4;
  e.threads = threads;
  const Chain relu = JudgedChains()[0];
  e.tail = &relu.program;
  const Decision d = plan::JudgeContraction(e, device::HostProfile(), Knobs{});
  errors.Add(l.term, d.split_terms[0].us + d.split_terms[1].us, Median(std::move(us)));
  return OkStatus();
}

// A change of element type by itself.
Status AddConversion(int64_t elements, int threads, int runs, Errors& errors) {
  plan::ConversionEdge e;
  e.elements = elements;
  e.from = DType::kF32, e.to = DType::kF16;
  e.threads = threads;
  const Decision d = plan::JudgeConversion(e, device::HostProfile(), Knobs{});
  HostTensor from(DType::kF32, {elements}), to(DType::kF16, {elements});
  if (!from.ok() || !to.ok()) return Errorf(Code::kRuntime, "no memory for a conversion");
  for (int64_t i = 0; i < elements; ++i) from.as<float>()[i] = static_cast<float>(i % 97) / 48;
  const double us = MedianMicroseconds({[&] { vector::CopyConvert(from.view(), to.view()); }}, runs)[0];
  errors.Add("conversion pass", d.split_terms[0].us, us);
  return OkStatus();
}

}  // namespace

Result<std::vector<TermError>> MeasureTerms(int runs) {
  std::vector<int> threads = {1};
  if (NumThreads() > 1) threads.push_back(NumThreads());
  Errors errors;
  for (const int t : threads) {
    ScopedThreadLimit limit(t);
    for (const Chain& chain : JudgedChains()) {
      for (const Point& s : kPoints) OPSNN_RETURN_IF_ERROR(AddProduct(chain, s, t, runs, errors));
    }
    for (const Layer& l : kLayers) OPSNN_RETURN_IF_ERROR(AddLayer(l, t, runs, errors));
    for (int64_t n : {int64_t{1} << 14, int64_t{1} << 19, int64_t{1} << 23}) {
      OPSNN_RETURN_IF_ERROR(AddConversion(n, t, runs, errors));
    }
  }
  return errors.Report();
}

}  // namespace opsnn::observe
