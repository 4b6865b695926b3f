#include "op/pointwise.h"

#include <algorithm>

#include "op/declaration.h"

namespace opsnn::op {
namespace {

// Storage dtypes by operator input; absent ones repeat a given one, so that they do not change a promotion.
std::vector<DType> InputDTypes(InputDescs inputs) {
  DType any = DType::kF32;
  for (const TensorDesc* x : inputs) {
    if (x != nullptr) {
      any = x->dtype;
      break;
    }
  }
  std::vector<DType> types;
  for (const TensorDesc* x : inputs) types.push_back(x != nullptr ? x->dtype : any);
  return types;
}

// Stored in the order of the logical dims.
bool IsLogical(const Layout& layout) {
  return layout.format == Format::kND || layout.format == Format::kNCHW;
}

}  // namespace

Layout CommonLayout(InputDescs inputs, std::span<const TensorDesc> outputs) {
  for (const TensorDesc& y : outputs) {
    if (!IsLogical(y.layout)) return y.layout;
  }
  for (const TensorDesc* x : inputs) {
    if (x != nullptr && !IsLogical(x->layout)) return x->layout;
  }
  return Layout{};
}

bool HasInput(const ProgramContext& c, size_t i) {
  return c.inputs.empty() ? i < c.input_dtypes.size() : i < c.inputs.size() && c.inputs[i] != nullptr;
}

bool ConstantScalar(const ProgramContext& c, size_t i, double* value) {
  if (i >= c.inputs.size() || c.inputs[i] == nullptr || c.inputs[i]->constant == nullptr) return false;
  const HostTensor& t = *c.inputs[i]->constant;
  if (t.size() != 1) return false;
  *value = ToDoubles(t)[0];
  return true;
}

const Attrs& AttrsOf(const Attrs* attrs) {
  static const Attrs none;
  return attrs != nullptr ? *attrs : none;
}

Result<BoundProgram> BindProgram(const OpDef& def, const ProgramContext& c) {
  OPSNN_ASSIGN_OR_RETURN(Program full, def.program(c));
  std::vector<int> given;
  for (size_t i = 0; i < c.input_dtypes.size(); ++i) {
    if (HasInput(c, i)) given.push_back(static_cast<int>(i));
  }
  if (static_cast<int>(given.size()) != full.num_inputs) {
    return Errorf(Code::kInternal, "%s: its program has %d inputs; %zu are given", def.name.c_str(),
                  full.num_inputs, given.size());
  }
  std::vector<bool> read(full.slots.size(), false);
  for (const Stage& s : full.stages) {
    for (SlotId src : s.src) {
      if (src != kNoSlot) read[src] = true;
    }
  }
  for (SlotId s : full.outputs) read[s] = true;

  // Slots move down past the dropped inputs.
  BoundProgram bound;
  std::vector<SlotId> moved(full.slots.size(), kNoSlot);
  for (size_t s = 0; s < full.slots.size(); ++s) {
    const bool is_input = static_cast<int>(s) < full.num_inputs;
    if (is_input && !read[s]) continue;
    moved[s] = static_cast<SlotId>(bound.program.slots.size());
    bound.program.slots.push_back(full.slots[s]);
    if (is_input) bound.operands.push_back(given[s]);
  }
  bound.program.num_inputs = static_cast<int>(bound.operands.size());
  for (Stage s : full.stages) {
    s.dst = moved[s.dst];
    for (SlotId& src : s.src) {
      if (src != kNoSlot) src = moved[src];
    }
    bound.program.stages.push_back(s);
  }
  for (SlotId s : full.outputs) bound.program.outputs.push_back(moved[s]);
  return bound;
}

Status InferPointwise(const OpDef& def, InferContext& c) {
  TensorDesc y;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorDesc* x = c.inputs[i];
    if (x == nullptr) continue;
    if (!x->known_rank) {
      y.known_rank = false;
      continue;
    }
    auto dims = BroadcastDims(y.dims, x->dims);
    if (!dims.ok()) {
      const auto& decls = def.declaration->inputs;
      return InvalidArgument("%s: input %s has shape %s; allowed: shapes that broadcast with %s (%s)",
                             def.name.c_str(), decls[std::min(i, decls.size() - 1)].name,
                             ToString(x->dims).c_str(), ToString(y.dims).c_str(),
                             dims.status().message().c_str());
    }
    y.dims = dims.value();
  }
  if (!y.known_rank) y.dims = Dims();
  const std::vector<DType> types = InputDTypes(c.inputs);
  const ProgramContext pc{types, c.attrs, c.inputs};
  y.dtype = def.out_dtype ? def.out_dtype(pc) : PromoteTypes(types);
  y.layout = CommonLayout(c.inputs, {});
  c.outputs.assign(1, y);
  return OkStatus();
}

Result<TensorView> PointwiseView(const std::string& op, const TensorDesc& x, const Layout& common,
                                 const Dims& stored) {
  if (IsLogical(x.layout) && IsLogical(common)) return x.View(nullptr);
  if (x.layout == common) {
    TensorView v = x.View(nullptr);
    // One channel that repeats is lane 0 of its block; the other lanes hold nothing.
    if (common.format == Format::kNC1HWC0 && x.dims[1] == 1) v.dims[v.rank() - 1] = 1;
    return v;
  }
  // One element means the same in every layout.
  if (NumElements(x.dims) == 1) return TensorView{nullptr, x.dtype, stored, Dims::Filled(stored.rank(), 0)};
  return Errorf(Code::kInternal, "%s: an operand of shape %s has layout %s; allowed: %s", op.c_str(),
                ToString(x.dims).c_str(), ToString(x.layout).c_str(), ToString(common).c_str());
}

Result<KernelPtr> PlanPointwise(const OpDef& def, const PlanContext& c) {
  const std::vector<DType> types = InputDTypes(c.inputs);
  OPSNN_ASSIGN_OR_RETURN(BoundProgram bound, BindProgram(def, {types, c.attrs, c.inputs}));
  const TensorDesc& y = c.outputs[0];
  const Layout layout = CommonLayout(c.inputs, c.outputs);
  if (y.layout != layout && !(IsLogical(y.layout) && IsLogical(layout))) {
    return Errorf(Code::kInternal, "%s: the output has layout %s; allowed: %s", def.name.c_str(),
                  ToString(y.layout).c_str(), ToString(layout).c_str());
  }
  const TensorView out = y.View(nullptr);
  std::vector<KernelOperand> inputs;
  for (int i : bound.operands) {
    OPSNN_ASSIGN_OR_RETURN(TensorView view,
                           PointwiseView(def.name, *c.inputs[static_cast<size_t>(i)], layout, out.dims));
    inputs.push_back({i, view});
  }
  return MakeProgramKernel(bound.program, out.dims, std::move(inputs), {{0, out}}, 0, "program");
}

std::vector<SlotId> ConvertedInputs(ProgramBuilder& b, const ProgramContext& c, ComputeType to) {
  std::vector<SlotId> slots;
  std::vector<ComputeType> from;
  for (size_t i = 0; i < c.input_dtypes.size(); ++i) {
    if (!HasInput(c, i)) continue;
    from.push_back(ComputeTypeOf(c.input_dtypes[i]));
    slots.push_back(b.Input(from.back()));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (from[i] != to) slots[i] = b.Convert(slots[i], to);
  }
  return slots;
}

void DefineUnary(OpDef& def, StageOp stage, ImmAttr imm0, ImmAttr imm1) {
  def.program = [=](const ProgramContext& c) -> Result<Program> {
    const Attrs& attrs = AttrsOf(c.attrs);
    ProgramBuilder b;
    const SlotId x = b.Input(ComputeTypeOf(c.input_dtypes[0]));
    b.Output(b.Unary(stage, x, attrs.Float(imm0.name, imm0.fallback), attrs.Float(imm1.name, imm1.fallback)));
    return std::move(b).Build();
  };
}

void DefineVariadic(OpDef& def, StageOp stage) {
  def.program = [=](const ProgramContext& c) -> Result<Program> {
    ProgramBuilder b;
    const std::vector<SlotId> in = ConvertedInputs(b, c, ComputeTypeOf(PromoteTypes(c.input_dtypes)));
    SlotId y = in[0];
    for (size_t i = 1; i < in.size(); ++i) y = b.Binary(stage, y, in[i]);
    b.Output(in.size() == 1 ? b.Unary(StageOp::kCopy, y) : y);
    return std::move(b).Build();
  };
}

void DefineBinary(OpDef& def, StageOp stage) { DefineVariadic(def, stage); }

void DefineComparison(OpDef& def, StageOp stage) {
  DefineVariadic(def, stage);
  def.out_dtype = [](const ProgramContext&) { return DType::kBool; };
}

}  // namespace opsnn::op
