#include "observe/conv_choices.h"

#include "graph/ir/known_ops.h"
#include "kernels/conv/candidates.h"
#include "ops/conv/conv_op.h"
#include "ops/conv/conv_pair.h"

namespace opsnn::observe {
namespace {

bool IsBlocked(const op::TensorDesc& d) { return !(d.layout == Layout()); }

std::string ShapeText(const Dims& x, const Dims& w, const Dims& y) {
  return ToString(x) + " by " + ToString(w) + " gives " + ToString(y);
}

ConvolutionChoice ChoiceOf(const std::string& node, const std::string& shape, const conv::ConvShape& s) {
  ConvolutionChoice c;
  c.node = node;
  c.shape = shape;
  for (const conv::Candidate& k : conv::Candidates(s))
    c.candidates.push_back({k.name, k.refused, k.multiply_adds, k.buffer_bytes});
  c.padding = conv::PaddingOfBlocks(s).hint;
  return c;
}

// The parts of a pair whose rows go from one to the other in the cache.
void AddPair(const graph::Graph& g, const graph::Node& n, std::vector<ConvolutionChoice>* list) {
  const Dims &x = g.values[n.inputs[0]].desc.dims, &w = g.values[n.inputs[1]].desc.dims,
             &w2 = g.values[n.inputs[2]].desc.dims, &y = g.values[n.outputs[0]].desc.dims;
  const bool expands = n.num_op_inputs > static_cast<int>(ops::kPairW0);
  const Dims* const w0 = expands ? &g.values[n.inputs[ops::kPairW0]].desc.dims : nullptr;
  const Result<ops::PairShapes> s = ops::PairShapesOf(x, w, w2, w0, n.attrs);
  if (!s.ok()) return;
  Dims image = x;
  if (s->expand) {
    image[1] = s->expand->oc;
    list->push_back(ChoiceOf(n.name + ", expansion", ShapeText(x, *w0, image), *s->expand));
  }
  const Dims between{s->first.n, s->first.oc, s->first.oh, s->first.ow};
  list->push_back(ChoiceOf(n.name + ", depthwise half", ShapeText(image, w, between), s->first));
  list->push_back(ChoiceOf(n.name + ", pointwise half", ShapeText(between, w2, y), s->second));
}

}  // namespace

std::vector<ConvolutionChoice> ConvolutionChoices(const graph::Prepared& prepared) {
  std::vector<ConvolutionChoice> list;
  const graph::Graph& g = prepared.graph();
  for (const graph::Step& step : prepared.steps()) {
    const graph::Node& n = g.nodes[step.node];
    if (n.op == graph::Known().DepthwisePointwise) AddPair(g, n, &list);
    const bool transposed = n.op->name == "ConvTranspose";
    if (!transposed && n.op->name != "Conv") continue;
    const op::TensorDesc &x = g.values[n.inputs[0]].desc, &w = g.values[n.inputs[1]].desc,
                         &y = g.values[n.outputs[0]].desc;
    Result<conv::ConvShape> s = ops::ShapeOfCall(n.op->name.c_str(), transposed, x.dims, w.dims, n.attrs);
    if (!s.ok() || NumElements(y.dims) == 0) continue;
    s->x_blocked = IsBlocked(x);
    s->x_dtype = x.dtype;
    s->y_blocked = IsBlocked(y);
    s->winograd = static_cast<int>(n.attrs.Int("winograd", 0));
    list.push_back(ChoiceOf(n.name, ShapeText(x.dims, w.dims, y.dims), *s));
  }
  return list;
}

}  // namespace opsnn::observe
