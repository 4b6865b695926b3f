#include "graph/call.h"

#include <algorithm>
#include <array>

#include "graph/ir/known_ops.h"
#include "op/advice.h"
#include "op/exact.h"

namespace opsnn::graph {
namespace {

// Descs of a node's inputs from `begin` to `end`: mostly so few that they lie here.
class Descs {
 public:
  Descs(const Graph& g, const Node& n, int begin, int end) : size_(static_cast<size_t>(end - begin)) {
    if (size_ > few_.size()) many_.resize(size_);
    const op::TensorDesc** to = many_.empty() ? few_.data() : many_.data();
    for (int i = begin; i < end; ++i) *to++ = n.inputs[i] == kNoValue ? nullptr : &g.values[n.inputs[i]].desc;
  }
  Descs(const Descs&) = delete;
  op::InputDescs span() const { return {many_.empty() ? few_.data() : many_.data(), size_}; }

 private:
  size_t size_;
  std::array<const op::TensorDesc*, 6> few_;
  std::vector<const op::TensorDesc*> many_;
};

// Absent outputs in the middle are planned as empty ones that nobody reads.
std::vector<op::TensorDesc> OutputDescs(const Graph& g, const Node& n) {
  std::vector<op::TensorDesc> descs;
  descs.reserve(n.outputs.size());
  for (ValueId v : n.outputs) descs.push_back(v == kNoValue ? op::TensorDesc() : g.values[v].desc);
  return descs;
}

// What a node is to its operator.
struct CallOf {
  CallOf(const Graph& g, const Node& n)
      : inputs(g, n, 0, n.num_op_inputs),
        tail_inputs(g, n, n.num_op_inputs, static_cast<int>(n.inputs.size())),
        outputs(OutputDescs(g, n)) {
    context.inputs = inputs.span();
    context.outputs = outputs;
    context.attrs = &n.attrs.get();
    context.tail = n.tail.get();
    context.tail_inputs = tail_inputs.span();
  }
  const Descs inputs, tail_inputs;
  const std::vector<op::TensorDesc> outputs;
  op::PlanContext context;
};

}  // namespace

bool IsRowProgram(const Node& n) { return n.op == Known().Program && n.attrs.Int("row_rank", 0) > 0; }

size_t StoredBytes(const op::TensorDesc& d) {
  return static_cast<size_t>(StoredElements(d.dims, d.layout)) * SizeOf(d.dtype);
}

Status InferNode(Graph& g, const Node& n) {
  const Descs inputs(g, n, 0, n.num_op_inputs);
  op::InferContext c;
  c.inputs = inputs.span();
  c.attrs = &n.attrs.get();
  c.num_outputs = static_cast<int>(n.outputs.size());
  if (const Status s = op::Infer(*n.op, c); !s.ok()) return s.WithContext("node \"" + n.name + "\"");
  for (size_t i = 0; i < n.outputs.size() && i < c.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    op::TensorDesc& d = g.values[n.outputs[i]].desc;
    d.dtype = c.outputs[i].dtype;
    d.dims = c.outputs[i].dims;
    d.known_rank = c.outputs[i].known_rank;
    d.constant = c.outputs[i].constant;
  }
  return OkStatus();
}

Result<op::KernelPtr> PlanNode(const Graph& g, const Node& n, op::PackCache* packs) {
  CallOf call(g, n);
  call.context.packs = packs;
  auto kernel = op::Plan(*n.op, call.context);
  if (!kernel.ok()) return kernel.status().WithContext("node \"" + n.name + "\"");
  return kernel;
}

bool BlocksBytes(const Graph& g, const Node& n) {
  const auto& blocks = op::AdviceOf(*n.op).blocks_bytes;
  return blocks && blocks(CallOf(g, n).context);
}

Result<std::vector<ConstTensor>> EvaluateNode(const Graph& g, const Node& n) {
  const op::ScopedExact any_policy(true);
  OPSNN_ASSIGN_OR_RETURN(const op::KernelPtr kernel, PlanNode(g, n, nullptr));
  std::vector<void*> inputs, outputs;
  std::vector<ConstTensor> results;
  for (ValueId v : n.inputs) {
    const ConstTensor c = v == kNoValue ? nullptr : g.values[v].desc.constant;
    inputs.push_back(c ? c->data() : nullptr);
  }
  // An output nobody wants gets no memory; operators treat a null output as absent.
  for (ValueId v : n.outputs) {
    ConstTensor t;
    if (v != kNoValue) {
      t = std::make_shared<HostTensor>(g.values[v].desc.dtype, g.values[v].desc.dims);
      if (!t->ok()) return Errorf(Code::kRuntime, "node \"%s\": no memory for its result.", n.name.c_str());
    }
    outputs.push_back(t ? t->data() : nullptr);
    results.push_back(std::move(t));
  }
  const AlignedBuffer workspace(kernel->workspace_bytes());
  if (!workspace)
    return Errorf(Code::kRuntime, "node \"%s\": no memory for a workspace of %zu bytes.", n.name.c_str(),
                  kernel->workspace_bytes());
  const op::RunArgs args{inputs.data(), outputs.data(), workspace.data()};
  OPSNN_RETURN_IF_ERROR(kernel->Run(args).WithContext("node \"" + n.name + "\""));
  return results;
}

}  // namespace opsnn::graph
