#include "ops/quant/integer_mat_mul.h"

#include <algorithm>
#include <array>

#include "base/int_math.h"
#include "isa/tier.h"
#include "kernels/gemm/int8.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/matmul/product_kernel.h"
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

// Strides of an operand over the batch, its own dims from the back.
Dims BatchStrides(const TensorView& v, const Dims& batch) {
  Dims strides = v.strides;
  strides.resize(batch.rank());
  return strides;
}

// What follows the product: the operator's own program, then the tail.
Result<Program> Behind(const op::PlanContext& c, bool rescales) {
  const Program own = rescales ? RescaleProgram(c.outputs[0].dtype, false) : Program();
  if (!c.tail) return own;
  if (c.tail->program.HasRowReduction()) {
    return Errorf(Code::kNotImplemented, "integer product: a row reduction behind it");
  }
  return rescales ? Join(own, 0, c.tail->program, 0) : c.tail->program;
}

// An operand of the program behind the product, or the result: element (lead..., row, col).
struct Element {
  bool is_output = false;
  int index = 0;  // in RunArgs
  DType dtype = DType::kF32;
  Dims lead;
  int64_t row_stride = 0, col_stride = 0;
};

class IntegerMatMulKernel : public op::Kernel {
 public:
  Status Plan(const op::PlanContext& c, const IntegerOperands& o, const Rescale* rescale) {
    const op::TensorDesc &a = *c.inputs[static_cast<size_t>(o.a)], &b = *c.inputs[static_cast<size_t>(o.b)];
    OPSNN_ASSIGN_OR_RETURN(const Shapes s, Resolve("integer product", a.dims, b.dims));
    const TensorView av = AsMatrices(a.View(nullptr), s.a, true, s.batch);
    const TensorView bv = AsMatrices(b.View(nullptr), s.b, false, s.batch);
    a_ = {o.a, a.View(nullptr)}, b_ = {o.b, b.View(nullptr)}, y_ = c.outputs[0].View(nullptr);
    a_zero_ = QuantParam::OfZero(c, o.a_zero), b_zero_ = QuantParam::OfZero(c, o.b_zero);
    const int rank = s.batch.rank();
    p_.m = s.a[s.a.rank() - 2], p_.k = s.a.back(), p_.n = s.b.back();
    p_.a = {nullptr, a.dtype, av.strides[rank], av.strides[rank + 1], 0};
    p_.b = {nullptr, b.dtype, bv.strides[rank], bv.strides[rank + 1], 0};
    lead_ = s.batch, a_lead_ = BatchStrides(av, lead_), b_lead_ = BatchStrides(bv, lead_);
    const bool has_m = a.dims.rank() > 1, has_n = b.dims.rank() > 1;
    if (rescale) factors_ = RescaleFactors::Of(c, *rescale);
    const bool unit_columns = !has_n || y_.strides[y_.rank() - 1] == 1;
    requantises_ = rescale && !c.tail && unit_columns && !factors_.both_vary();
    if (rescale && !requantises_) {
      for (const int i : {rescale->a_scale, rescale->b_scale, rescale->y_scale, rescale->y_zero}) {
        const op::TensorDesc x = AlongRows(*c.inputs[static_cast<size_t>(i)], i == rescale->a_scale && has_n);
        elements_.push_back(ElementOf(c, x, i, false, has_m, has_n));
      }
    }
    for (size_t i = 0; c.tail && i < c.tail_inputs.size(); ++i) {
      const int from = static_cast<int>(c.inputs.size() + i);
      elements_.push_back(ElementOf(c, *c.tail_inputs[i], from, false, has_m, has_n));
    }
    elements_.push_back(ElementOf(c, c.outputs[0], 0, true, has_m, has_n));
    Merge();
    PlanPackedB(c, b);
    return PlanBehind(c, rescale);
  }

  Status Run(const op::RunArgs& args) const override {
    auto* zeros = static_cast<char*>(args.workspace);
    gemm::Int8Params p = p_;
    p.a_zero = LoadZeros(a_zero_, args, reinterpret_cast<int32_t*>(zeros));
    p.b_zero = LoadZeros(b_zero_, args, reinterpret_cast<int32_t*>(zeros + ZeroBytes(a_zero_)));
    gemm::Requantise requantise = requantise_;
    if (requantises_) {
      auto* factors = reinterpret_cast<double*>(zeros + ZeroBytes(a_zero_) + ZeroBytes(b_zero_));
      factors_.Load(args, factors);
      requantise.factor = factors, requantise.zero = factors_.Zero(args);
      p.requantise = &requantise;
    }
    AlignedBuffer a_copy, b_copy;
    const ByteRange written = Touched(y_, args.outputs[0]);
    const char *a = a_.Load(args, written, a_copy), *b = b_.Load(args, written, b_copy);
    if ((!a || !b) && NumElements(y_.dims) > 0 && p_.k > 0) {
      return Errorf(Code::kRuntime,
                    "integer product: no memory for a copy of an operand that overlaps the output");
    }
    std::array<vector::EpilogueArg, kMaxEpilogueArgs> bound;
    const vector::ScratchCheck scratch;
    Dims at = Dims::Filled(lead_.rank() - 1, 0);
    for (bool more = NumElements(lead_) > 0; more;) {
      p.a.data = a + Offset(a_lead_, at), p.b.data = b + Offset(b_lead_, at);
      for (size_t i = 0; i < elements_.size(); ++i) bound[i] = Bind(elements_[i], args, at);
      if (requantises_) {
        requantise.y = bound[elements_.size() - 1].data;
      } else if (program_) {
        p.args = {bound.data(), elements_.size()};
      } else {
        p.c = static_cast<int32_t*>(bound[0].data);
      }
      gemm::RunInt8(p);
      more = false;
      for (int i = at.rank() - 1; i >= 0 && !more; --i) {
        more = ++at[i] < lead_[i];
        if (!more) at[i] = 0;
      }
    }
    return scratch.Check("integer product");
  }
  size_t workspace_bytes() const override {
    const size_t factors = requantises_ ? static_cast<size_t>(factors_.count()) * sizeof(double) : 0;
    return ZeroBytes(a_zero_) + ZeroBytes(b_zero_) + factors;
  }
  std::string variant() const override {
    return std::string(isa::HasVnni() ? "int8 dot products" : "int8 in 16 bits") +
           (packed_ ? ", packed" : "") +
           (requantises_ ? ", +requantise"
            : chain_     ? ", +chain in tiles"
            : program_   ? ", +program"
                         : "");
  }

 private:
  // An operand of the product: read from a copy where the output shares its memory.
  struct Source {
    int input = 0;
    TensorView view;  // without data
    const char* Load(const op::RunArgs& args, const ByteRange& written, AlignedBuffer& copy) const {
      const char* data = static_cast<const char*>(args.inputs[input]);
      const ByteRange mine = Touched(view, args.inputs[input]);
      if (mine.end <= written.begin || written.end <= mine.begin) return data;
      copy = AlignedBuffer(static_cast<size_t>(mine.end - mine.begin));
      if (!copy) return nullptr;
      std::copy(mine.begin, mine.end, copy.as<char>());
      return copy.as<char>() + (data - mine.begin);
    }
  };

  static ByteRange Touched(TensorView view, void* data) {
    view.data = data;
    return TouchedBytes(view);
  }

  static int64_t Offset(const Dims& strides, const Dims& at) {
    int64_t offset = 0;
    for (int i = 0; i < at.rank(); ++i) offset += at[i] * strides[i];
    return offset;
  }

  static vector::EpilogueArg Bind(const Element& e, const op::RunArgs& args, const Dims& at) {
    vector::EpilogueArg arg;
    void* base = e.is_output ? args.outputs[e.index] : args.inputs[e.index];
    arg.data = static_cast<char*>(base) + Offset(e.lead, at) * static_cast<int64_t>(SizeOf(e.dtype));
    arg.dtype = e.dtype;
    arg.batch_stride = e.lead.back();
    arg.row_stride = e.row_stride, arg.col_stride = e.col_stride;
    return arg;
  }

  // A scale with one value per row, as a column.
  static op::TensorDesc AlongRows(op::TensorDesc x, bool by_row) {
    if (!by_row || x.dims.rank() != 1 || x.dims[0] == 1) return x;
    const Dims strides = x.View(nullptr).strides;
    x.dims = {x.dims[0], 1}, x.strides = {strides[0], 0};
    return x;
  }

  // The result, or an input that broadcasts to it.
  static Element ElementOf(const op::PlanContext& c, const op::TensorDesc& x, int index, bool is_output,
                           bool has_m, bool has_n) {
    Element e{is_output, index, x.dtype, {}, 0, is_output ? 1 : 0};
    const Dims& y = c.outputs[0].dims;
    e.lead = NumElements(x.dims) == 1 && !is_output ? Dims::Filled(y.rank(), 0)
                                                    : BroadcastTo(x.View(nullptr), y).strides;
    if (has_n) e.col_stride = e.lead.back(), e.lead.erase(e.lead.rank() - 1);
    if (has_m) e.row_stride = e.lead.back(), e.lead.erase(e.lead.rank() - 1);
    return e;
  }

  bool WalksAlike(int i) const {  // may dims i and i + 1 be one?
    const auto merges = [&](const Dims& d) { return d[i] == d[i + 1] * lead_[i + 1]; };
    return merges(a_lead_) && merges(b_lead_) &&
           std::all_of(elements_.begin(), elements_.end(), [&](const Element& e) { return merges(e.lead); });
  }
  bool IsOneMatrix() const {  // is the only batch dim more rows of one product?
    if (b_lead_[0] != 0 || a_zero_.count > 1 || factors_.by_a() || a_lead_[0] != p_.m * p_.a.row_stride)
      return false;
    return std::all_of(elements_.begin(), elements_.end(),
                       [&](const Element& e) { return e.lead[0] == p_.m * e.row_stride; });
  }

  // Batch dims that all operands walk alike become one; a batch that shares B, and the zero point of A,
  // becomes rows. What is left of them is one call each, the last dim its batch.
  void Merge() {
    std::vector<Dims*> all = {&lead_, &a_lead_, &b_lead_};
    for (Element& e : elements_) all.push_back(&e.lead);
    for (int i = lead_.rank() - 2; i >= 0; --i) {
      if (!WalksAlike(i)) continue;
      lead_[i + 1] *= lead_[i];
      for (Dims* d : all) d->erase(i);
    }
    if (lead_.rank() == 0) {
      for (Dims* d : all) d->push_back(0);
      lead_[0] = 1;
    }
    const int last = lead_.rank() - 1;
    if (last == 0 && IsOneMatrix()) {
      p_.m *= lead_[0];
      lead_[0] = 1;
    }
    p_.batch = lead_[last];
    p_.a.batch_stride = a_lead_[last], p_.b.batch_stride = b_lead_[last];
  }

  void PlanPackedB(const op::PlanContext& c, const op::TensorDesc& b) {
    if (!c.packs || !b.constant || lead_.rank() > 1) return;
    const int64_t batch = p_.b.batch_stride == 0 ? 1 : p_.batch;
    const std::string key =
        StrFormat("int8 %d rs%lld cs%lld bs%lld n%lld k%lld b%lld", p_.a.dtype == DType::kS8,
                  static_cast<long long>(p_.b.row_stride), static_cast<long long>(p_.b.col_stride),
                  static_cast<long long>(p_.b.batch_stride), static_cast<long long>(p_.n),
                  static_cast<long long>(p_.k), static_cast<long long>(batch));
    packed_ = std::static_pointer_cast<const gemm::PackedInt8B>(
        c.packs->GetOrMake(b.constant, key, [&]() -> std::shared_ptr<const void> {
          gemm::Operand from = p_.b;
          from.data = b.constant->data();
          return gemm::PackInt8B(from, p_.a.dtype, p_.k, p_.n, batch);
        }));
    p_.packed_b = packed_.get();
  }

  Status PlanBehind(const op::PlanContext& c, const Rescale* rescale) {
    const Element& e = elements_.back();
    if (requantises_) {
      requantise_.factor_row_stride = factors_.by_a() ? 1 : 0;
      requantise_.factor_col_stride = factors_.varies() && !factors_.by_a() ? 1 : 0;
      requantise_.to = e.dtype;
      requantise_.y_row_stride = e.row_stride, requantise_.y_batch_stride = e.lead.back();
      return OkStatus();
    }
    if (!rescale && !c.tail && e.col_stride == 1) {
      p_.c_row_stride = e.row_stride, p_.c_batch_stride = e.lead.back();
      return OkStatus();
    }
    Program program;
    if (rescale || c.tail) {
      OPSNN_ASSIGN_OR_RETURN(program, Behind(c, rescale != nullptr));
      OPSNN_RETURN_IF_ERROR(CheckEpilogueArgs("integer product", elements_.size()));
    } else {  // another column stride: the store of a program does that
      ProgramBuilder copy;
      copy.Output(copy.Unary(StageOp::kCopy, copy.Input(ComputeType::kS32)));
      program = std::move(copy).Build();
    }
    OPSNN_ASSIGN_OR_RETURN(program_, vector::Compile(program));
    p_.program = program_.get();
    std::vector<vector::EpilogueArg> args;
    for (const Element& x : elements_)
      args.push_back({nullptr, x.dtype, x.lead.back(), 0, x.row_stride, x.col_stride});
    chain_ = gemm::MatchInt8Chain(*program_, args);
    p_.chain = chain_.get();
    return OkStatus();
  }

  std::shared_ptr<const vector::CompiledProgram> program_;  // null: the product is stored as it is
  std::shared_ptr<const gemm::Int8Chain> chain_;            // what it is; null: none that is known
  std::vector<Element> elements_;                           // inputs of the program, then the result
  Source a_, b_;
  TensorView y_;  // without data
  QuantParam a_zero_, b_zero_;
  RescaleFactors factors_;
  bool requantises_ = false;     // by the kernel's own pass; else scales are operands of the program
  gemm::Requantise requantise_;  // without pointers
  gemm::Int8Params p_;           // without pointers
  Dims lead_, a_lead_, b_lead_;  // batch dims and strides after merging; at least one
  std::shared_ptr<const gemm::PackedInt8B> packed_;
};

}  // namespace

Status CheckQuantParam(const char* op, const char* what, op::InputDescs inputs, int input, int64_t want,
                       bool by_row) {
  const op::TensorDesc* z = input < 0 ? nullptr : InputOrNull(inputs, static_cast<size_t>(input));
  if (z == nullptr || !z->known_rank || !IsKnown(z->dims) || NumElements(z->dims) == 1) return OkStatus();
  const int rank = z->dims.rank(), axis = rank == 1 ? 0 : rank - (by_row ? 2 : 1);
  const int64_t size = z->dims[axis];
  if (NumElements(z->dims) == size && (size == want || want == kUnknownDim)) return OkStatus();
  const auto w = static_cast<long long>(want);
  return InvalidArgument("%s: %s has shape %s; allowed: one value, or [%lld] or [%s], one per %s", op, what,
                         opsnn::ToString(z->dims).c_str(), w,
                         StrFormat(by_row ? "%lld,1" : "1,%lld", w).c_str(), by_row ? "row" : "column");
}

double StepsOfProduct(op::InputDescs inputs, std::span<const op::TensorDesc* const> outputs,
                      const op::Attrs&) {
  const Dims& a = inputs[0]->dims;
  const double depth = a.rank() > 0 ? static_cast<double>(a.back()) : 1;
  return 2 * depth * static_cast<double>(NumElements(outputs[0]->dims));
}

Result<op::TensorDesc> InferIntegerProduct(const char* op, op::InputDescs inputs, const IntegerOperands& o,
                                           DType out) {
  const op::TensorDesc &a = *inputs[static_cast<size_t>(o.a)], &b = *inputs[static_cast<size_t>(o.b)];
  if (!a.known_rank || !b.known_rank) return UnknownRank(out);
  OPSNN_ASSIGN_OR_RETURN(const Shapes s, Resolve(op, a.dims, b.dims));
  const int64_t rows = s.a[s.a.rank() - 2], columns = s.b.back();
  OPSNN_RETURN_IF_ERROR(CheckQuantParam(op, "the zero point of A", inputs, o.a_zero, rows, true));
  OPSNN_RETURN_IF_ERROR(CheckQuantParam(op, "the zero point of B", inputs, o.b_zero, columns, false));
  return Desc(out, s.out);
}

Result<op::KernelPtr> PlanIntegerProduct(const op::PlanContext& c, const IntegerOperands& o,
                                         const Rescale* rescale) {
  auto kernel = std::make_shared<IntegerMatMulKernel>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(c, o, rescale));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
