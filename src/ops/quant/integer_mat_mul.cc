#include "ops/quant/integer_mat_mul.h"

#include "base/int_math.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/quant/integer_product.h"
#include "ops/quant/quant_op.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

// Both operands as matrices: leading dims, then rows and columns.
struct Shapes {
  Dims batch, a, b, out;  // a and b with the matrix dims that vectors lack
};

Result<Shapes> Resolve(const char* op, const Dims& a, const Dims& b) {
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "A", a, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "B", b, 1, kMaxRank));
  Shapes s{{}, a, b, {}};
  if (a.rank() == 1) s.a.insert(0, 1);
  if (b.rank() == 1) s.b.insert(1, 1);
  const int64_t k = s.a.back(), other = s.b[s.b.rank() - 2];
  if (k != other && k != kUnknownDim && other != kUnknownDim) {
    return InvalidArgument("%s: A has shape %s and B %s; allowed: as many columns of A as rows of B", op,
                           opsnn::ToString(a).c_str(), opsnn::ToString(b).c_str());
  }
  Dims lead_a = s.a, lead_b = s.b;
  lead_a.resize(s.a.rank() - 2);
  lead_b.resize(s.b.rank() - 2);
  OPSNN_ASSIGN_OR_RETURN(s.batch, BroadcastDims(lead_a, lead_b));
  s.out = s.batch;
  if (a.rank() > 1) s.out.push_back(s.a[s.a.rank() - 2]);
  if (b.rank() > 1) s.out.push_back(s.b.back());
  return s;
}

// An operand as (batch..., rows, columns), the batch repeated where it is 1 or missing.
TensorView AsMatrices(TensorView v, const Dims& matrix, bool is_a, const Dims& batch) {
  if (v.rank() == 1) {
    const int at = is_a ? 0 : 1;
    v.dims.insert(at, 1);
    v.strides.insert(at, 0);
  }
  Dims dims = batch;
  dims.push_back(matrix[matrix.rank() - 2]);
  dims.push_back(matrix.back());
  return BroadcastTo(v, dims);
}

class IntegerMatMulKernel : public op::Kernel {
 public:
  Status Plan(const op::PlanContext& c, const IntegerOperands& o, const ProductFinish* finish) {
    const TensorView a = c.inputs[static_cast<size_t>(o.a)]->View(nullptr);
    const TensorView b = c.inputs[static_cast<size_t>(o.b)]->View(nullptr);
    OPSNN_ASSIGN_OR_RETURN(const Shapes s, Resolve("integer product", a.dims, b.dims));
    const int64_t batch = NumElements(s.batch);
    // A matrix that all of the batch share is converted once.
    const bool shares_a = NumElements(s.a) == s.a.back() * s.a[s.a.rank() - 2];
    const bool shares_b = NumElements(s.b) == s.b.back() * s.b[s.b.rank() - 2];
    const TensorView av = AsMatrices(a, s.a, true, shares_a ? Dims{} : s.batch);
    const TensorView bv = AsMatrices(b, s.b, false, shares_b ? Dims{} : s.batch);
    OPSNN_ASSIGN_OR_RETURN(a_, PlanCentred(c, o.a, o.a_zero, av, av.rank() - 2));
    OPSNN_ASSIGN_OR_RETURN(b_, PlanCentred(c, o.b, o.b_zero, bv, bv.rank() - 1));
    p_.m = s.a[s.a.rank() - 2], p_.k = s.a.back(), p_.n = s.b.back(), p_.batch = batch;
    p_.a_batch_stride = shares_a ? 0 : p_.m * p_.k;
    p_.b_batch_stride = shares_b ? 0 : p_.k * p_.n;
    size_a_ = RoundUp(static_cast<size_t>(av.size()) * sizeof(float), kAlignment);
    size_b_ = RoundUp(static_cast<size_t>(bv.size()) * sizeof(float), kAlignment);
    size_c_ = RoundUp(static_cast<size_t>(p_.m * p_.n * batch) * sizeof(float), kAlignment);
    const TensorView product = TensorView::Contiguous(nullptr, DType::kS32, s.out);
    const TensorView y = c.outputs[0].View(nullptr);
    if (finish == nullptr) {
      ProgramBuilder copy;
      copy.Output(copy.Unary(StageOp::kCopy, copy.Input(ComputeType::kS32)));
      OPSNN_ASSIGN_OR_RETURN(finish_, op::MakeProgramKernel(std::move(copy).Build(), y.dims, {{0, product}},
                                                            {{0, y}}, 0, "copy"));
      return OkStatus();
    }
    std::vector<op::KernelOperand> inputs = {{0, product}};
    for (const int i : finish->inputs) {
      inputs_.push_back(i);
      inputs.push_back({static_cast<int>(inputs_.size()), c.inputs[static_cast<size_t>(i)]->View(nullptr)});
    }
    OPSNN_ASSIGN_OR_RETURN(finish_, op::MakeProgramKernel(finish->program, y.dims, std::move(inputs),
                                                          {{0, y}}, 0, "requantise"));
    return OkStatus();
  }

  Status Run(const op::RunArgs& args) const override {
    char* w = static_cast<char*>(args.workspace);
    void *a = w, *b = w + size_a_, *c = w + size_a_ + size_b_;
    OPSNN_RETURN_IF_ERROR(a_->Run({args.inputs, &a, nullptr}));
    OPSNN_RETURN_IF_ERROR(b_->Run({args.inputs, &b, nullptr}));
    IntegerProduct p = p_;
    p.a = static_cast<const float*>(a);
    p.b = static_cast<const float*>(b);
    p.c = static_cast<int32_t*>(c);
    p.part = reinterpret_cast<float*>(w + size_a_ + size_b_ + size_c_);
    const vector::ScratchCheck scratch;
    RunIntegerProduct(p);
    OPSNN_RETURN_IF_ERROR(scratch.Check("integer product"));
    std::vector<void*> in = {c};
    for (const int i : inputs_) in.push_back(args.inputs[i]);
    return finish_->Run({in.data(), args.outputs, nullptr});
  }
  size_t workspace_bytes() const override { return size_a_ + size_b_ + 2 * size_c_; }
  std::string variant() const override { return "f32 products of exact parts"; }

 private:
  op::KernelPtr a_, b_, finish_;
  std::vector<int> inputs_;
  IntegerProduct p_;
  size_t size_a_ = 0, size_b_ = 0, size_c_ = 0;
};

}  // namespace

Result<op::TensorDesc> InferIntegerProduct(const char* op, op::InputDescs inputs, const IntegerOperands& o,
                                           DType out) {
  const op::TensorDesc &a = *inputs[static_cast<size_t>(o.a)], &b = *inputs[static_cast<size_t>(o.b)];
  if (!a.known_rank || !b.known_rank) return UnknownRank(out);
  OPSNN_ASSIGN_OR_RETURN(const Shapes s, Resolve(op, a.dims, b.dims));
  for (const bool is_a : {true, false}) {
    const op::TensorDesc* z = InputOrNull(inputs, static_cast<size_t>(is_a ? o.a_zero : o.b_zero));
    if (z == nullptr || !z->known_rank || !IsKnown(z->dims) || NumElements(z->dims) == 1) continue;
    const int64_t want = is_a ? s.a[s.a.rank() - 2] : s.b.back();
    if (z->dims.rank() == 1 && (z->dims[0] == want || want == kUnknownDim)) continue;
    return InvalidArgument("%s: the zero point of %s has shape %s; allowed: one value, or [%lld], one per %s",
                           op, is_a ? "A" : "B", opsnn::ToString(z->dims).c_str(),
                           static_cast<long long>(want), is_a ? "row" : "column");
  }
  return Desc(out, s.out);
}

Result<op::KernelPtr> PlanIntegerProduct(const op::PlanContext& c, const IntegerOperands& o,
                                         const ProductFinish* finish) {
  auto kernel = std::make_shared<IntegerMatMulKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(c, o, finish));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
