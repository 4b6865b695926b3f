#include "observe/conv_choices.h"

#include "kernels/conv/candidates.h"
#include "ops/conv/conv_op.h"

namespace opsnn::observe {
namespace {

bool IsBlocked(const op::TensorDesc& d) { return !(d.layout == Layout()); }

std::string ShapeText(const Dims& x, const Dims& w, const Dims& y) {
  return ToString(x) + " by " + ToString(w) + " gives " + ToString(y);
}

}  // namespace

std::vector<ConvolutionChoice> ConvolutionChoices(const graph::Prepared& prepared) {
  std::vector<ConvolutionChoice> list;
  const graph::Graph& g = prepared.graph();
  for (const graph::Step& step : prepared.steps()) {
    const graph::Node& n = g.nodes[step.node];
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
    ConvolutionChoice c;
    c.node = n.name;
    c.shape = ShapeText(x.dims, w.dims, y.dims);
    for (const conv::Candidate& k : conv::Candidates(*s)) {
      c.candidates.push_back({k.name, k.refused, k.multiply_adds, k.buffer_bytes});
    }
    c.padding = conv::PaddingOfBlocks(*s).hint;
    list.push_back(std::move(c));
  }
  return list;
}

}  // namespace opsnn::observe
