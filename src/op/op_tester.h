// OpTester: calls one operator the way every caller does (check, infer, plan, run) on guarded tensors. For
// tests.
//
//   OpTester t("Softmax");
//   t.In(x).Attr("axis", int64_t{1}).StridedOutputs(rng);
//   ASSERT_TRUE(t.Run().ok()) << t.status().message();
//   EXPECT_EQ("", Compare(t.Out().Get(), want, tolerance));
//
// Run fails the current gtest test if a guard byte around any operand was written.
#ifndef OPSNN_OP_OP_TESTER_H_
#define OPSNN_OP_OP_TESTER_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "op/declaration.h"
#include "op/operator.h"
#include "testing/testing.h"

namespace opsnn::op {

class OpTester {
 public:
  explicit OpTester(const char* op) : name_(op), def_(FindOperator(op)) {}

  // Operands in order. The tensors must outlive Run.
  OpTester& In(const testing::GuardedTensor& t) { return In(t, t.view().dims, Layout{}); }
  // A tensor whose stored form is `layout` of logical `dims` (contiguous).
  OpTester& In(const testing::GuardedTensor& t, const Dims& dims, const Layout& layout) {
    TensorDesc d;
    d.dtype = t.view().dtype;
    d.dims = dims;
    d.layout = layout;
    if (layout == Layout{}) d.strides = t.view().strides;
    return Push(d, t.view().data, &t);
  }
  OpTester& In(const ConstTensor& c) {  // known before running, as initialisers and shape arithmetic are
    TensorDesc d;
    d.dtype = c->dtype();
    d.dims = c->dims();
    d.constant = c;
    return Push(d, c->data(), nullptr);
  }
  OpTester& Absent() {
    descs_.push_back(nullptr);
    data_.push_back(nullptr);
    return *this;
  }
  OpTester& Attr(std::string name, AttrValue v) {
    attrs_.Set(std::move(name), std::move(v));
    return *this;
  }
  OpTester& Outputs(int n) {
    num_outputs_ = n;
    return *this;
  }
  OpTester& StridedOutputs(testing::Rng& rng) {
    rng_ = &rng;
    return *this;
  }
  OpTester& OutLayout(int i, const Layout& layout) {
    out_layouts_[i] = layout;
    return *this;
  }
  OpTester& OutDType(int i, DType t) {  // as a C API caller may ask for another than the inferred one
    out_dtypes_[i] = t;
    return *this;
  }
  // Output 0 is operand `input`'s memory. Read the result from that tensor.
  OpTester& InPlace(int input) {
    in_place_ = input;
    return *this;
  }
  // A program fused behind the operator; its further inputs are operands added after this call.
  OpTester& Tail(FusedTail tail) {
    tail_ = std::make_unique<FusedTail>(std::move(tail));
    num_op_inputs_ = descs_.size();
    return *this;
  }
  OpTester& Packs(PackCache* packs) {
    packs_ = packs;
    return *this;
  }

  // Check and infer only.
  Status Infer() {
    if (def_ == nullptr) return status_ = Errorf(Code::kInternal, "no operator %s", name_.c_str());
    pointers_.clear();
    for (const auto& d : descs_) pointers_.push_back(d.get());
    infer_ = {};
    infer_.inputs = InputDescs(pointers_).first(NumOpInputs());
    infer_.attrs = &attrs_;
    infer_.num_outputs = num_outputs_;
    return status_ = op::Infer(*def_, infer_);
  }

  Status Run() {
    if (!Infer().ok()) return status_;
    outputs_.clear();
    for (size_t i = 0; i < infer_.outputs.size(); ++i) MakeOutput(static_cast<int>(i));
    PlanContext p;
    p.inputs = infer_.inputs;
    p.outputs = infer_.outputs;
    p.attrs = &attrs_;
    p.tail = tail_.get();
    p.tail_inputs = InputDescs(pointers_).subspan(NumOpInputs());
    p.packs = packs_;
    auto kernel = op::Plan(*def_, p);
    if (!kernel.ok()) return status_ = kernel.status();
    variant_ = (*kernel)->variant();
    return status_ = RunKernel(**kernel);
  }

  const Status& status() const { return status_; }
  const std::string& variant() const { return variant_; }
  const TensorDesc& OutDesc(int i = 0) const { return infer_.outputs[static_cast<size_t>(i)]; }
  const testing::GuardedTensor& Out(int i = 0) const { return *outputs_[static_cast<size_t>(i)]; }

 private:
  size_t NumOpInputs() const { return tail_ ? num_op_inputs_ : descs_.size(); }

  OpTester& Push(const TensorDesc& d, void* data, const testing::GuardedTensor* guard) {
    descs_.push_back(std::make_unique<TensorDesc>(d));
    data_.push_back(data);
    if (guard != nullptr) guards_.insert(guard);
    return *this;
  }

  void MakeOutput(int i) {
    TensorDesc& d = infer_.outputs[static_cast<size_t>(i)];
    if (auto it = out_layouts_.find(i); it != out_layouts_.end()) d.layout = it->second;
    if (auto it = out_dtypes_.find(i); it != out_dtypes_.end()) d.dtype = it->second;
    if (i == 0 && in_place_ >= 0) {
      d.strides = descs_[static_cast<size_t>(in_place_)]->strides;
      outputs_.push_back(nullptr);
      return;
    }
    const bool strided = rng_ != nullptr && d.layout == Layout{};
    outputs_.push_back(
        std::make_unique<testing::GuardedTensor>(d.dtype, StoredDims(d.dims, d.layout), rng_, strided));
    if (strided) d.strides = outputs_.back()->view().strides;
  }

  Status RunKernel(const Kernel& kernel) {
    std::vector<void*> out;
    for (const auto& t : outputs_) {
      out.push_back(t ? t->view().data : data_[static_cast<size_t>(in_place_)]);
    }
    AlignedBuffer workspace(kernel.workspace_bytes());
    const Status s = kernel.Run({data_.data(), out.data(), workspace.data()});
    for (const auto& t : outputs_) {
      EXPECT_TRUE(!t || t->GuardsIntact()) << name_ << ": wrote outside an output";
    }
    for (const auto* t : guards_) EXPECT_TRUE(t->GuardsIntact()) << name_ << ": wrote outside an operand";
    return s;
  }

  std::string name_;
  const OpDef* def_;
  Attrs attrs_;
  std::vector<std::unique_ptr<TensorDesc>> descs_;
  std::vector<void*> data_;
  std::set<const testing::GuardedTensor*> guards_;
  std::vector<const TensorDesc*> pointers_;
  InferContext infer_;
  int num_outputs_ = 1;
  testing::Rng* rng_ = nullptr;
  std::map<int, Layout> out_layouts_;
  std::map<int, DType> out_dtypes_;
  int in_place_ = -1;
  std::unique_ptr<FusedTail> tail_;
  size_t num_op_inputs_ = 0;
  PackCache* packs_ = nullptr;
  std::vector<std::unique_ptr<testing::GuardedTensor>> outputs_;
  std::string variant_;
  Status status_;
};

}  // namespace opsnn::op

#endif  // OPSNN_OP_OP_TESTER_H_
