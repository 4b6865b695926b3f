// The generic kernel: a compiled program with views that were worked out when it was planned.
#include <array>

#include "op/empty_kernel.h"
#include "op/pointwise.h"
#include "vector/flat.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::op {
namespace {

constexpr size_t kMaxOperands = 64;    // what the engine's argument tables hold
constexpr size_t kInlineOperands = 6;  // most operators; longer fused chains take their views from the heap

class ProgramKernel : public Kernel {
 public:
  ProgramKernel(std::shared_ptr<const vector::CompiledProgram> program, std::vector<KernelOperand> inputs,
                std::vector<KernelOperand> outputs, int row_rank, std::string variant)
      : program_(std::move(program)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        row_rank_(row_rank),
        variant_(std::move(variant)) {
    if (row_rank_ > 0 || inputs_.size() + outputs_.size() > kInlineOperands) return;
    std::vector<TensorView> in, out;
    for (const KernelOperand& x : inputs_) in.push_back(x.view);
    for (const KernelOperand& y : outputs_) out.push_back(y.view);
    flat_ = vector::FlatRun(*program_, in, out);
  }

  Status Run(const RunArgs& args) const override {
    if (flat_.ok()) return RunFlat(args);
    if (inputs_.size() + outputs_.size() <= kInlineOperands) {
      std::array<TensorView, kInlineOperands> views;
      return RunWith(views.data(), args);
    }
    std::vector<TensorView> views(inputs_.size() + outputs_.size());
    return RunWith(views.data(), args);
  }

  std::string variant() const override { return variant_; }

 private:
  Status RunWith(TensorView* views, const RunArgs& args) const {
    TensorView* v = views;
    for (const KernelOperand& x : inputs_) {
      *v = x.view;
      v++->data = args.inputs[x.index];
    }
    for (const KernelOperand& y : outputs_) {
      *v = y.view;
      v++->data = args.outputs[y.index];
    }
    return Checked([&] {
      vector::RunTensors(*program_, {views, inputs_.size()}, {views + inputs_.size(), outputs_.size()},
                         row_rank_);
    });
  }

  Status RunFlat(const RunArgs& args) const {
    void* data[kInlineOperands];
    void** at = data;
    for (const KernelOperand& x : inputs_) *at++ = args.inputs[x.index];
    for (const KernelOperand& y : outputs_) *at++ = args.outputs[y.index];
    return Checked([&] { flat_.Run(*program_, data); });
  }

  template <typename F>
  Status Checked(const F& run) const {
    const uint64_t failures = vector::ScratchFailures();
    run();
    if (vector::ScratchFailures() == failures) return OkStatus();
    return Errorf(Code::kRuntime, "program %s: no memory for its scratch.",
                  vector::Source(*program_).ToString().c_str());
  }

  std::shared_ptr<const vector::CompiledProgram> program_;
  std::vector<KernelOperand> inputs_, outputs_;
  int row_rank_;
  std::string variant_;
  vector::FlatRun flat_;
};

}  // namespace

Result<KernelPtr> MakeProgramKernel(const Program& program, const Dims& iteration,
                                    std::vector<KernelOperand> inputs, std::vector<KernelOperand> outputs,
                                    int row_rank, std::string variant) {
  if (static_cast<int>(inputs.size()) != program.num_inputs || outputs.size() != program.outputs.size()) {
    return Errorf(Code::kInternal, "program %s: bound to %zu inputs and %zu outputs; it has %d and %zu",
                  program.ToString().c_str(), inputs.size(), outputs.size(), program.num_inputs,
                  program.outputs.size());
  }
  if (inputs.size() + outputs.size() > kMaxOperands) {
    return Errorf(Code::kNotImplemented, "program %s: got %zu operands; allowed: %zu",
                  program.ToString().c_str(), inputs.size() + outputs.size(), kMaxOperands);
  }
  bool all_empty = true;
  for (const KernelOperand& y : outputs) all_empty = all_empty && y.view.size() == 0;
  if (all_empty) return MakeEmptyKernel();
  OPSNN_ASSIGN_OR_RETURN(auto compiled, vector::Compile(program));
  for (KernelOperand& x : inputs) x.view = BroadcastTo(x.view, iteration);
  return KernelPtr(std::make_shared<ProgramKernel>(std::move(compiled), std::move(inputs), std::move(outputs),
                                                   row_rank, std::move(variant)));
}

}  // namespace opsnn::op
