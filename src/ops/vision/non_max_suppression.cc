#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "NonMaxSuppression";

struct Options {
  int64_t most = 0;  // boxes per class
  double iou = 0, score = 0;
  bool has_score = false, centre = false;
};

struct Box {
  double x1, y1, x2, y2;
  double Area() const { return (x2 - x1) * (y2 - y1); }
};

// Either two opposite corners (y, x, y, x), or the centre and the size (x, y, w, h).
Box ReadBox(const float* p, bool centre) {
  if (centre) return {p[0] - p[2] / 2.0, p[1] - p[3] / 2.0, p[0] + p[2] / 2.0, p[1] + p[3] / 2.0};
  return {std::min(p[1], p[3]), std::min(p[0], p[2]), std::max(p[1], p[3]), std::max(p[0], p[2])};
}

double Overlap(const Box& a, const Box& b) {
  const double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1),
               h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0) return 0;
  return w * h / (a.Area() + b.Area() - w * h);
}

// The boxes of one class that stay, best first.
void SelectClass(const std::vector<Box>& boxes, const float* scores, const Options& o, int64_t image,
                 int64_t category, std::vector<int64_t>* out) {
  std::vector<int64_t> order(boxes.size()), kept;
  std::iota(order.begin(), order.end(), int64_t{0});
  if (o.has_score) {
    order.erase(std::remove_if(order.begin(), order.end(), [&](int64_t i) { return !(scores[i] > o.score); }),
                order.end());
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const bool a_nan = scores[a] != scores[a], b_nan = scores[b] != scores[b];
    return a_nan || b_nan ? !a_nan && b_nan : scores[a] > scores[b];  // NaN last
  });
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= o.most) break;
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
      return Overlap(boxes[static_cast<size_t>(k)], boxes[static_cast<size_t>(i)]) > o.iou;
    });
    if (covered) continue;
    kept.push_back(i);
    out->insert(out->end(), {image, category, i});
  }
}

Status CheckShapes(const Dims& boxes, const Dims& scores) {
  if (boxes.rank() == 3 && scores.rank() == 3 && boxes[2] == 4 && boxes[0] == scores[0] &&
      boxes[1] == scores[2])
    return OkStatus();
  return InvalidArgument("%s: boxes has shape %s and scores %s; allowed: [n, b, 4] and [n, classes, b]", kOp,
                         opsnn::ToString(boxes).c_str(), opsnn::ToString(scores).c_str());
}

double ScalarOr(op::InputDescs inputs, size_t i, double fallback) {
  const op::TensorDesc* x = InputOrNull(inputs, i);
  return x == nullptr || x->constant->size() == 0 ? fallback : ToDoubles(*x->constant)[0];
}

bool AllKnown(op::InputDescs inputs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const op::TensorDesc* x) { return x == nullptr || x->constant != nullptr; });
}

// (image, class, box) triples. All operands are known: how many there are is the shape of the result.
Result<std::vector<int64_t>> Select(op::InputDescs inputs, const op::Attrs* attrs) {
  const HostTensor &boxes = *inputs[0]->constant, &scores = *inputs[1]->constant;
  OPSNN_RETURN_IF_ERROR(CheckShapes(boxes.dims(), scores.dims()));
  Options o;
  const std::vector<int64_t> most = ConstantInts(inputs, 2).value_or(std::vector<int64_t>{});
  o.most = most.empty() ? 0 : most[0];
  o.iou = ScalarOr(inputs, 3, 0);
  o.has_score = IsGiven(inputs, 4);
  o.score = ScalarOr(inputs, 4, 0);
  o.centre = op::AttrsOf(attrs).Int("center_point_box", 0) != 0;
  if (!(o.iou >= 0 && o.iou <= 1)) {
    return InvalidArgument("%s: iou_threshold is %g; allowed: 0 to 1", kOp, o.iou);
  }
  const int64_t images = boxes.dims()[0], count = boxes.dims()[1], classes = scores.dims()[1];
  std::vector<int64_t> out;
  for (int64_t n = 0; n < images; ++n) {
    std::vector<Box> read;
    for (int64_t i = 0; i < count; ++i)
      read.push_back(ReadBox(boxes.as<float>() + (n * count + i) * 4, o.centre));
    for (int64_t k = 0; k < classes; ++k)
      SelectClass(read, scores.as<float>() + (n * classes + k) * count, o, n, k, &out);
  }
  return out;
}

Status Infer(op::InferContext& c) {
  if (!AllKnown(c.inputs)) return SetOutput(c, Desc(DType::kS64, {kUnknownDim, 3}));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> selected, Select(c.inputs, c.attrs));
  return SetOutput(c, Desc(DType::kS64, {static_cast<int64_t>(selected.size()) / 3, 3}));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  if (!AllKnown(c.inputs)) {
    return InvalidArgument(
        "%s: boxes, scores or a limit depend on the data; they must be known before running", kOp);
  }
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> selected, Select(c.inputs, c.attrs));
  const auto shared = std::make_shared<const std::vector<int64_t>>(std::move(selected));
  return Staged(c, MakeKernel("selected before running", [shared](const op::RunArgs& args) {
                  if (!shared->empty())
                    std::memcpy(args.outputs[0], shared->data(), shared->size() * sizeof(int64_t));
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(NonMaxSuppression) {
  def.infer = Infer;
  def.plan = Plan;
}
