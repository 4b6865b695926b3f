#include "capi/plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/int_math.h"
#include "capi/judge_tail.h"
#include "capi/words.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

TensorView ViewOf(const TensorArgument& t) { return ViewOf(*t.object, t.data); }

// Leaves room for aligning the caller's pointer.
constexpr size_t kLargestWorkspace = static_cast<size_t>(PTRDIFF_MAX) - kAlignment;

int KindRank(DType t) { return IsFloat(t) ? 2 : t == DType::kBool ? 0 : 1; }

op::TensorDesc Contiguous(op::TensorDesc d) {
  d.strides = Dims();
  return d;
}

// Views with strides of 0 name more elements than there are bytes, so a copy may be too large to count.
std::optional<int64_t> BytesOf(const op::TensorDesc& d) {
  const auto elements = CheckedNumElements(StoredDims(d.dims, d.layout));
  int64_t bytes;
  if (!elements || __builtin_mul_overflow(*elements, static_cast<int64_t>(SizeOf(d.dtype)), &bytes))
    return std::nullopt;
  return bytes;
}

// Builds the steps of one call.
class Builder {
 public:
  Builder(const Call& call, const std::vector<int>& same_memory) : call_(call), same_memory_(same_memory) {}

  Result<std::shared_ptr<const CallPlan>> Build() {
    OPSNN_RETURN_IF_ERROR(call_.CheckTensors());
    OPSNN_RETURN_IF_ERROR(CheckWritable());
    const OpsnnFunction& f = call_.function();
    OPSNN_RETURN_IF_ERROR(f.adapter ? f.adapter(call_, whole_) : BindFromDeclaration(call_, whole_));
    if (!whole_.op) whole_.op = f.op;
    OPSNN_RETURN_IF_ERROR(JudgeTail(f.api, &whole_));
    std::vector<OpCall*> calls;
    for (OpCall& c : whole_.first) calls.push_back(&c);
    calls.push_back(&whole_);
    for (const op::TensorDesc& t : whole_.temps) {
      OPSNN_ASSIGN_OR_RETURN(const size_t offset, Reserve(BytesOf(t)));
      temp_offsets_.push_back(offset);
    }
    if (calls.size() > 1) OPSNN_RETURN_IF_ERROR(RedirectAliasedOutputs());
    for (OpCall* c : calls) OPSNN_RETURN_IF_ERROR(AddCall(*c));
    for (const auto& [tensor, place] : redirected_) {
      const op::TensorDesc d = call_.Desc(tensor);
      OPSNN_RETURN_IF_ERROR(AddCopy(d, place, d, {Place::kTensor, tensor, 0}));
    }
    return Finish(calls);
  }

 private:
  Status AddCall(OpCall& c) {
    op_call_ = &c;
    TrimAbsent(&c.inputs);
    TrimAbsent(&c.outputs);
    NameOperands();
    OPSNN_RETURN_IF_ERROR(InferOutputs());
    // Pointwise and row-wise programs read each element before they write it and take any strides; products
    // take strides; images are wanted as they are stored.
    const bool row_wise = c.op->op_class == op::OpClass::kVector && c.op->layout != op::LayoutRule::kAccepts;
    const bool in_place_ok = c.op->program || row_wise || c.in_place;
    const bool strides_ok =
        c.op->program || row_wise || c.op->layout == op::LayoutRule::kLogicalOnly || TakesAnyStrides(*c.op);
    // Data movement in place is for its first operand only.
    in_place_ = c.op->program || row_wise;
    const size_t steps = steps_.size(), temporaries = temporaries_;
    Status planned = PlanSteps(!strides_ok, !in_place_ok);
    // The operator does not take these views as they lie: give it contiguous copies.
    if (!planned.ok() && strides_ok && AnyStrided()) {
      steps_.resize(steps);
      temporaries_ = temporaries;
      planned = PlanSteps(true, !in_place_ok);
    }
    return planned.ok() ? planned : InCallersWords(planned);
  }

  // Data movement in the logical order, whatever it does with blocked images.
  static bool TakesAnyStrides(const op::OpDef& op) { return op.op_class == op::OpClass::kData; }

  Status InCallersWords(const Status& s) const {
    return InWordsOf(call_.function(), op_call_->op, names_, op_call_->inputs.size(), s);
  }

  // Two indices of an output must not name one element.
  Status CheckWritable() {
    for (int i = 0; i < static_cast<int>(call_.tensors().size()); ++i) {
      const TensorArgument& t = call_.tensors()[i];
      if (!call_.function().params[t.param].is_output() || !HasInternalOverlap(ViewOf(t))) continue;
      return InvalidArgument(
          "%s: %s overlaps itself: shape %s with strides %s names an element twice; allowed: "
          "views whose elements are distinct",
          call_.function().api, call_.NameOf(i).c_str(), ToString(ViewOf(t).dims).c_str(),
          ToString(ViewOf(t).strides).c_str());
    }
    return OkStatus();
  }

  // Where several operators run, an output that is also an input must not change before the last has read it:
  // it is computed in the workspace, in the strides of the tensor.
  Status RedirectAliasedOutputs() {
    if (same_memory_.empty()) return OkStatus();
    for (int i = 0; i < static_cast<int>(call_.tensors().size()); ++i) {
      const TensorArgument& t = call_.tensors()[i];
      const Param& p = call_.function().params[t.param];
      if (!p.is_output() || same_memory_[i] == i) continue;
      const op::TensorDesc d = call_.Desc(i);
      OPSNN_ASSIGN_OR_RETURN(const size_t offset, Reserve(t.footprint.high - t.footprint.low));
      const Place place = WorkspacePlace(offset);
      redirected_.emplace_back(i, place);
      if (p.dir == op::ParamDir::kInOut) {
        OPSNN_RETURN_IF_ERROR(AddCopy(d, {Place::kTensor, i, 0}, d, place));
      }
    }
    return OkStatus();
  }

  static void TrimAbsent(std::vector<Operand>* operands) {
    while (!operands->empty() && !operands->back().given()) operands->pop_back();
  }

  bool AnyStrided() const {
    auto strided = [](const Operand& o) { return o.given() && !o.desc.IsContiguous(); };
    return std::any_of(op_call_->inputs.begin(), op_call_->inputs.end(), strided) ||
           std::any_of(op_call_->outputs.begin(), op_call_->outputs.end(), strided);
  }

  size_t OwnInputs() const {
    return op_call_->inputs.size() - std::min<size_t>(op_call_->inputs.size(), op_call_->tail_inputs);
  }

  // Infers, then holds the caller's outputs against the result.
  Status InferOutputs() {
    const char* api = call_.function().api;
    std::vector<const op::TensorDesc*> inputs;
    for (size_t i = 0; i < OwnInputs(); ++i) {
      const Operand& o = op_call_->inputs[i];
      inputs.push_back(o.given() ? &o.desc : nullptr);
    }
    op::InferContext c;
    c.inputs = inputs;
    c.attrs = &op_call_->attrs;
    c.num_outputs = static_cast<int>(op_call_->outputs.size());
    if (op_call_->op->tail_is_program) {  // described by whoever made the program
      for (const Operand& o : op_call_->outputs) c.outputs.push_back(o.desc);
    }
    if (Status s = op::Infer(*op_call_->op, c); !s.ok()) return InCallersWords(s);
    if (c.outputs.size() < op_call_->outputs.size()) {
      return Errorf(Code::kInternal, "%s: the operator gives %zu of %zu outputs", api, c.outputs.size(),
                    op_call_->outputs.size());
    }
    for (size_t i = 0; i < op_call_->outputs.size(); ++i) {
      Operand& o = op_call_->outputs[i];
      const op::TensorDesc& inferred = c.outputs[i];
      if (!o.given()) {  // not wanted, but one behind it is: computed into the workspace
        o.desc = inferred;
        continue;
      }
      const std::string name = o.tensor >= 0 ? call_.NameOf(o.tensor) : std::string("an intermediate result");
      if (!(o.desc.dims == inferred.dims)) {
        return InvalidArgument("%s: %s has shape %s; allowed: %s, the shape of the result", api, name.c_str(),
                               ToString(o.desc.dims).c_str(), ToString(inferred.dims).c_str());
      }
      if (o.desc.dtype == inferred.dtype || op_call_->tail) continue;
      if (!(op_call_->converts_output && CanCast(inferred.dtype, o.desc.dtype))) {
        return InvalidArgument(
            "%s: %s has dtype %s; allowed: %s%s", api, name.c_str(), Name(o.desc.dtype), Name(inferred.dtype),
            op_call_->converts_output ? ", or a type that it can be cast to" : ", the dtype of the result");
      }
      // Integers wrap and bools saturate in the result's own type, before they are converted.
      if (!IsFloat(inferred.dtype)) o.desc.dtype = inferred.dtype;
    }
    return OkStatus();
  }

  // Room in the workspace: its offset. Nothing in `bytes` means more than 64 bits count.
  Result<size_t> Reserve(std::optional<int64_t> bytes) {
    const size_t offset = temporaries_;
    const size_t rounded = bytes ? RoundUp(static_cast<size_t>(*bytes), kAlignment) : SIZE_MAX;
    if (rounded > kLargestWorkspace - offset) return TooLarge();
    temporaries_ += rounded;
    return offset;
  }

  Status TooLarge() const {
    return InvalidArgument("%s: the workspace overflows 64 bits; allowed: shapes whose copies fit into it",
                           call_.function().api);
  }

  // A step that copies between two views of the same dims, converting where the dtypes differ.
  Status AddCopy(const op::TensorDesc& from, Place from_place, const op::TensorDesc& to, Place to_place) {
    ProgramBuilder b;
    b.Output(b.Unary(StageOp::kCopy, b.Input(ComputeTypeOf(from.dtype))));
    OPSNN_ASSIGN_OR_RETURN(op::KernelPtr kernel,
                           op::MakeProgramKernel(std::move(b).Build(), to.dims, {{0, from.View(nullptr)}},
                                                 {{0, to.View(nullptr)}}, 0, "copy"));
    steps_.push_back({std::move(kernel), {from_place}, {to_place}, 0});
    return OkStatus();
  }

  static Place WorkspacePlace(size_t offset) { return {Place::kWorkspace, 0, offset}; }

  // Where an operand lies, and in which dtype.
  DType StoredDType(const Operand& o) const {
    if (o.tensor >= 0) return *DTypeFromAcl(call_.tensors()[o.tensor].object->acl_dtype);
    return o.temp >= 0 ? whole_.temps[o.temp].dtype : o.desc.dtype;
  }
  Place PlaceOf(const Operand& o) {
    if (!o.given()) return {};
    if (o.desc.constant) {
      constants_.push_back(o.desc.constant);
      return {Place::kConstant, static_cast<int>(constants_.size()) - 1, 0};
    }
    const size_t bytes = static_cast<size_t>(o.offset) * SizeOf(StoredDType(o));
    if (o.temp >= 0) return WorkspacePlace(temp_offsets_[o.temp] + bytes);
    for (const auto& [tensor, place] : redirected_) {
      if (tensor == o.tensor) return WorkspacePlace(place.offset + bytes);
    }
    return {Place::kTensor, o.tensor, bytes};
  }

  bool IsAlsoInput(const Operand& output) const {
    if (output.tensor < 0) return false;
    const int same = same_memory_.empty() ? output.tensor : same_memory_[output.tensor];
    return std::any_of(op_call_->inputs.begin(), op_call_->inputs.end(), [&](const Operand& o) {
      return o.tensor >= 0 && (o.tensor == output.tensor || o.tensor == same);
    });
  }

  // Whether an input is read through another view than `output` that shares elements with it: even an
  // operator that works in place would write them too early.
  bool IsReadElsewhere(const Operand& output) const {
    if (output.tensor < 0) return false;
    const int same = same_memory_.empty() ? output.tensor : same_memory_[output.tensor];
    static char base;  // views of one tensor are compared by their offsets
    auto view = [this](const Operand& o) {
      TensorView v = o.desc.View(nullptr);
      v.dtype = StoredDType(o);
      v.data = &base + o.offset * static_cast<int64_t>(SizeOf(v.dtype));
      return v;
    };
    return std::any_of(op_call_->inputs.begin(), op_call_->inputs.end(), [&](const Operand& o) {
      if (o.tensor < 0 || (o.tensor != output.tensor && o.tensor != same)) return false;
      const Overlap overlap = CheckOverlap(view(output), view(o));
      // Data movement in place finds what it changes where it writes; other operands must not change
      // meanwhile.
      const bool other =
          op_call_->in_place && op_call_->op->op_class == op::OpClass::kData && &o != op_call_->inputs.data();
      return overlap == Overlap::kPartial || (overlap == Overlap::kSame && other);
    });
  }

  // copy_strided: operands that are not contiguous go through copies; copy_aliased: so do outputs that are
  // inputs as well.
  Status PlanSteps(bool copy_strided, bool copy_aliased) {
    Step main;
    std::vector<op::TensorDesc> input_descs, output_descs;
    for (const Operand& o : op_call_->inputs) {
      input_descs.push_back(o.desc);
      main.inputs.push_back(PlaceOf(o));
      if (o.desc.constant) {  // may be of a wider type than the operator inferred with
        input_descs.back().dtype = o.desc.constant->dtype();
        continue;
      }
      const bool convert = StoredDType(o) != o.desc.dtype;
      if (!o.given() || (!convert && (!copy_strided || o.desc.IsContiguous()))) continue;
      op::TensorDesc from = o.desc;
      from.dtype = StoredDType(o);
      input_descs.back() = Contiguous(o.desc);
      OPSNN_ASSIGN_OR_RETURN(const size_t offset, Reserve(BytesOf(input_descs.back())));
      const Place copied = WorkspacePlace(offset);
      OPSNN_RETURN_IF_ERROR(AddCopy(from, main.inputs.back(), input_descs.back(), copied));
      main.inputs.back() = copied;
    }
    std::vector<size_t> copied_out;
    for (size_t i = 0; i < op_call_->outputs.size(); ++i) {
      const Operand& o = op_call_->outputs[i];
      const bool copy =
          o.given() && (StoredDType(o) != o.desc.dtype || (copy_strided && !o.desc.IsContiguous()) ||
                        (copy_aliased && IsAlsoInput(o)) || IsReadElsewhere(o));
      const bool direct = o.given() && !copy;
      output_descs.push_back(direct ? o.desc : Contiguous(o.desc));
      if (direct) {
        main.outputs.push_back(PlaceOf(o));
      } else {
        OPSNN_ASSIGN_OR_RETURN(const size_t offset, Reserve(BytesOf(output_descs.back())));
        main.outputs.push_back(WorkspacePlace(offset));
      }
      if (copy) copied_out.push_back(i);
    }
    std::vector<const op::TensorDesc*> inputs;
    for (size_t i = 0; i < input_descs.size(); ++i) {
      inputs.push_back(op_call_->inputs[i].given() ? &input_descs[i] : nullptr);
    }
    op::PlanContext c;
    c.inputs = op::InputDescs(inputs).first(OwnInputs());
    c.outputs = output_descs;
    c.attrs = &op_call_->attrs;
    c.tail = op_call_->tail.get();
    c.tail_inputs = op::InputDescs(inputs).subspan(OwnInputs());
    OPSNN_ASSIGN_OR_RETURN(main.kernel, op::Plan(*op_call_->op, c));
    main.op = op_call_->op, main.parameters = names_;
    const std::vector<Place> results = main.outputs;
    steps_.push_back(std::move(main));
    for (size_t i : copied_out) {
      const Operand& o = op_call_->outputs[i];
      op::TensorDesc to = o.desc;
      to.dtype = StoredDType(o);
      OPSNN_RETURN_IF_ERROR(AddCopy(output_descs[i], results[i], to, PlaceOf(o)));
    }
    return OkStatus();
  }

  // A temporary stands for the parameter from which the first operand of its operator comes.
  void NameOperands() {
    temp_names_.resize(whole_.temps.size());
    const auto name_of = [this](const Operand& o) {
      return o.tensor >= 0 ? call_.NameOf(o.tensor)
             : o.temp >= 0 ? temp_names_[static_cast<size_t>(o.temp)]
                           : std::string();
    };
    names_.clear();
    for (const Operand& o : op_call_->inputs) names_.push_back(name_of(o));
    for (const Operand& o : op_call_->outputs) {
      if (o.temp >= 0 && !op_call_->inputs.empty()) temp_names_[static_cast<size_t>(o.temp)] = names_[0];
      names_.push_back(name_of(o));
    }
  }

  Result<std::shared_ptr<const CallPlan>> Finish(const std::vector<OpCall*>& calls) {
    auto plan = std::make_shared<CallPlan>();
    size_t kernel_bytes = 0;
    for (Step& s : steps_) {
      s.workspace_offset = temporaries_;
      kernel_bytes = std::max(kernel_bytes, s.kernel->workspace_bytes());
    }
    if (kernel_bytes > kLargestWorkspace - temporaries_) return TooLarge();
    plan->workspace_bytes = temporaries_ + kernel_bytes;
    if (plan->workspace_bytes)
      plan->workspace_bytes += kAlignment;  // the caller's pointer may be less aligned
    plan->needs_data.assign(call_.tensors().size(), false);
    for (const OpCall* c : calls) {
      for (const auto* operands : {&c->inputs, &c->outputs}) {
        for (const Operand& o : *operands) {
          if (o.tensor >= 0 && NumElements(o.desc.dims) > 0) plan->needs_data[o.tensor] = true;
        }
      }
    }
    plan->in_place = calls.size() == 1 && steps_.size() == 1 && in_place_;
    plan->steps = std::move(steps_);
    plan->constants = std::move(constants_);
    for (const SizeReport& r : whole_.sizes)
      plan->sizes.push_back({r.tensor, r.axis, temp_offsets_[static_cast<size_t>(r.size.temp)]});
    return std::shared_ptr<const CallPlan>(std::move(plan));
  }

  const Call& call_;
  const std::vector<int>& same_memory_;
  OpCall whole_;
  OpCall* op_call_ = nullptr;  // the one being planned
  std::vector<Step> steps_;
  std::vector<ConstTensor> constants_;
  std::vector<size_t> temp_offsets_;
  std::vector<std::string> names_, temp_names_;    // see NameOperands
  std::vector<std::pair<int, Place>> redirected_;  // outputs that are computed in the workspace
  size_t temporaries_ = 0;
  bool in_place_ = false;  // of the call added last: it works in place
};

}  // namespace

Operand OpCall::Temp(DType dtype, const Dims& dims) {
  Operand o;
  o.desc.dtype = dtype;
  o.desc.dims = dims;
  o.temp = static_cast<int>(temps.size());
  temps.push_back(o.desc);
  return o;
}

bool CanCast(DType from, DType to) { return KindRank(to) >= KindRank(from); }

Result<std::shared_ptr<const CallPlan>> BuildPlan(const Call& call, const std::vector<int>& same_memory) {
  return Builder(call, same_memory).Build();
}

Status AliasPattern(const Call& call, std::vector<int>* same_memory) {
  struct Arguments {
    const Call& call;
    const char* api() const { return call.function().api; }
    int size() const { return static_cast<int>(call.tensors().size()); }
    const TensorArgument& operator[](int i) const { return call.tensors()[static_cast<size_t>(i)]; }
    const void* data(int i) const { return (*this)[i].data; }
    const Tensor& object(int i) const { return *(*this)[i].object; }
    bool IsOutput(int i) const { return call.function().params[(*this)[i].param].is_output(); }
    std::string Name(int i) const { return call.NameOf(i); }
  };
  return FindAliases(Arguments{call}, same_memory);
}

}  // namespace opsnn::capi
