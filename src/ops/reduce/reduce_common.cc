#include "ops/reduce/reduce_common.h"

#include <array>
#include <limits>

#include "op/pointwise.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

using op::InferContext;
using op::KernelPtr;
using op::PlanContext;
using op::TensorDesc;

struct Axes {
  bool known = true;  // false: given, but only at run time
  std::array<bool, kMaxRank> reduced{};
  bool keepdims = true;
};

Result<Axes> ReadAxes(const std::string& op, op::InputDescs inputs, const op::Attrs* attrs, int rank) {
  Axes a;
  a.keepdims = op::AttrsOf(attrs).Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    if (inputs[1]->constant == nullptr) {
      a.known = false;
      return a;
    }
    axes = ToInts(*inputs[1]->constant);
  }
  if (axes.empty()) {
    // With the flag the set of axes is empty: what comes before and after the reduction still runs.
    a.reduced.fill(op::AttrsOf(attrs).Int("noop_with_empty_axes", 0) == 0);
    return a;
  }
  for (int64_t axis : axes) {
    auto normal = NormalizeAxis(axis, rank);
    if (!normal.ok()) return normal.status().WithContext(op + ": input axes");
    a.reduced[static_cast<size_t>(normal.value())] = true;
  }
  return a;
}

Status InferReduce(const op::OpDef& def, InferContext& c) {
  const TensorDesc& x = *c.inputs[0];
  TensorDesc y;
  y.dtype = x.dtype;
  if (!x.known_rank) {
    y.known_rank = false;
    c.outputs.assign(1, y);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const Axes a, ReadAxes(def.name, c.inputs, c.attrs, x.dims.rank()));
  if (!a.known) {  // which dims are reduced shows only at run time
    y.known_rank = a.keepdims;
    y.dims = a.keepdims ? Dims::Filled(x.dims.rank(), kUnknownDim) : Dims();
  } else {
    for (int i = 0; i < x.dims.rank(); ++i) {
      if (!a.reduced[static_cast<size_t>(i)]) {
        y.dims.push_back(x.dims[i]);
      } else if (a.keepdims) {
        y.dims.push_back(1);
      }
    }
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

// The dims of a call as runs of kept and reduced ones, adjacent ones of a kind merged where the strides
// allow.
struct Run {
  int64_t size, x_stride, y_stride;
  bool reduced;
};

std::vector<Run> MergedRuns(const TensorView& x, const Dims& y_strides_kept, const Axes& a) {
  std::vector<Run> runs;
  int kept = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = a.reduced[static_cast<size_t>(i)];
    const Run r = {x.dims[i], x.strides[i], reduced ? 0 : y_strides_kept[kept], reduced};
    kept += reduced ? 0 : 1;
    if (r.size == 1) continue;
    Run* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->reduced == reduced && last->x_stride == r.size * r.x_stride &&
        last->y_stride == r.size * r.y_stride) {
      *last = {last->size * r.size, r.x_stride, r.y_stride, reduced};
    } else {
      runs.push_back(r);
    }
  }
  return runs;
}

// Strides of the output's kept dims, whether or not the reduced ones stand in it as 1.
Dims KeptStrides(const TensorView& y, const Axes& a, int rank) {
  if (!a.keepdims) return y.strides;
  Dims kept;
  for (int i = 0; i < rank; ++i) {
    if (!a.reduced[static_cast<size_t>(i)]) kept.push_back(y.strides[i]);
  }
  return kept;
}

SlotId Finish(ProgramBuilder& b, SlotId s, ReduceSpec::Finish finish, int64_t count, ComputeType type,
              bool per_row) {
  switch (finish) {
    case ReduceSpec::Finish::kMean:
      return b.Binary(StageOp::kDiv, s, b.Const(static_cast<double>(count), type, per_row));
    case ReduceSpec::Finish::kSqrt:
      return b.Unary(StageOp::kSqrt, s);
    case ReduceSpec::Finish::kLog:
      return b.Unary(StageOp::kLog, s);
    default:
      return s;
  }
}

StageOp RowStage(kernels::Combine c) {
  static constexpr StageOp kStages[] = {StageOp::kRowSum, StageOp::kRowMax, StageOp::kRowMin,
                                        StageOp::kRowProd};
  return kStages[static_cast<int>(c)];
}

// One row; `reduce` false leaves the reduction out (rows of one element, as a pointwise program).
Program RowProgram(const ReduceSpec& spec, ComputeType type, int64_t count, bool reduce) {
  ProgramBuilder b;
  const SlotId in = b.Input(type);
  SlotId x = in;
  if (spec.shifted_exp) {
    if (!reduce) {  // log(exp(x)) is x
      b.Output(b.Unary(StageOp::kCopy, x));
      return std::move(b).Build();
    }
    // An infinite maximum is not subtracted, Inf - Inf being NaN: the largest finite value does as well.
    const double finite = type == ComputeType::kF64 ? std::numeric_limits<double>::max()
                                                    : double{std::numeric_limits<float>::max()};
    const SlotId shift = b.Unary(StageOp::kClip, b.Unary(StageOp::kRowMax, x), -finite, finite);
    const SlotId sum = b.Unary(StageOp::kRowSum, b.Unary(StageOp::kExp, b.Binary(StageOp::kSub, x, shift)));
    b.Output(b.Binary(StageOp::kAdd, b.Unary(StageOp::kLog, sum), shift));
    return std::move(b).Build();
  }
  const bool sum_square =
      reduce && spec.prologue == StageOp::kSquare && spec.combine == kernels::Combine::kSum;
  if (spec.prologue != StageOp::kCopy && !sum_square) x = b.Unary(spec.prologue, x);
  if (reduce) x = b.Unary(sum_square ? StageOp::kRowSumSquare : RowStage(spec.combine), x);
  x = Finish(b, x, spec.finish, count, type, reduce);
  b.Output(x == in ? b.Unary(StageOp::kCopy, x) : x);
  return std::move(b).Build();
}

class ColumnKernel : public op::Kernel {
 public:
  ColumnKernel(const kernels::ColumnReduce& r, std::shared_ptr<const vector::CompiledProgram> prologue,
               std::shared_ptr<const vector::CompiledProgram> epilogue)
      : reduce_(r), prologue_(std::move(prologue)), epilogue_(std::move(epilogue)) {
    reduce_.prologue = prologue_.get();
    reduce_.epilogue = epilogue_.get();
  }
  Status Run(const op::RunArgs& args) const override {
    kernels::ReduceColumns(reduce_, args.inputs[0], args.outputs[0]);
    return OkStatus();
  }
  std::string variant() const override { return "column accumulator"; }

 private:
  kernels::ColumnReduce reduce_;
  std::shared_ptr<const vector::CompiledProgram> prologue_, epilogue_;
};

Result<KernelPtr> PlanColumns(const ReduceSpec& spec, const std::vector<Run>& runs, DType x, DType y,
                              int64_t count) {
  kernels::ColumnReduce r;
  r.op = spec.combine;
  r.type = ComputeTypeOf(x);
  r.x_dtype = x;
  r.y_dtype = y;
  r.cols = 1;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    if (run.reduced) {
      r.rows.push_back(run.size);
      r.x_row_strides.push_back(run.x_stride);
    } else if (i + 1 == runs.size()) {
      r.cols = run.size;
      r.x_col_stride = run.x_stride;
      r.y_col_stride = run.y_stride;
    } else {
      r.outer.push_back(run.size);
      r.x_outer_strides.push_back(run.x_stride);
      r.y_outer_strides.push_back(run.y_stride);
    }
  }
  std::shared_ptr<const vector::CompiledProgram> prologue, epilogue;
  const bool stored_as_computed =
      x == DType::kF32 || x == DType::kF64 || x == DType::kS32 || x == DType::kS64;
  if (spec.prologue != StageOp::kCopy || !stored_as_computed) {
    ProgramBuilder b;
    b.Output(b.Unary(spec.prologue, b.Input(r.type)));
    OPSNN_ASSIGN_OR_RETURN(prologue, vector::Compile(std::move(b).Build()));
  }
  ProgramBuilder b;
  const SlotId acc = b.Input(r.type);
  const auto finish = spec.shifted_exp ? ReduceSpec::Finish::kLog : spec.finish;  // shifted only without rows
  const SlotId result = Finish(b, acc, finish, count, r.type, false);
  b.Output(result == acc ? b.Unary(StageOp::kCopy, acc) : result);
  OPSNN_ASSIGN_OR_RETURN(epilogue, vector::Compile(std::move(b).Build()));
  return KernelPtr(std::make_shared<ColumnKernel>(r, std::move(prologue), std::move(epilogue)));
}

Result<KernelPtr> PlanRows(const ReduceSpec& spec, const std::vector<Run>& runs, DType x, DType y,
                           int64_t count) {
  op::KernelOperand in, out;
  in.view.dtype = x;
  out.view.dtype = y;
  int row_rank = 0;
  for (const bool reduced : {false, true}) {  // kept dims first
    for (const Run& run : runs) {
      if (run.reduced != reduced) continue;
      in.view.dims.push_back(run.size);
      in.view.strides.push_back(run.x_stride);
      out.view.dims.push_back(reduced ? 1 : run.size);
      out.view.strides.push_back(run.y_stride);
      row_rank += reduced ? 1 : 0;
    }
  }
  return op::MakeProgramKernel(RowProgram(spec, ComputeTypeOf(x), count, row_rank > 0), in.view.dims, {in},
                               {out}, row_rank, row_rank > 0 ? "row program" : "program");
}

Result<KernelPtr> PlanReduce(const op::OpDef& def, const ReduceSpec& spec, const PlanContext& c) {
  const TensorView x = c.inputs[0]->View(nullptr), y = c.outputs[0].View(nullptr);
  OPSNN_ASSIGN_OR_RETURN(Axes a, ReadAxes(def.name, c.inputs, c.attrs, x.rank()));
  if (!a.known) {
    return InvalidArgument("%s: input axes is computed at run time; allowed: a constant", def.name.c_str());
  }
  int64_t count = 1;
  for (int i = 0; i < x.rank(); ++i) count *= a.reduced[static_cast<size_t>(i)] ? x.dims[i] : 1;
  const std::vector<Run> runs = MergedRuns(x, KeptStrides(y, a, x.rank()), a);
  const bool columns = !runs.empty() && !runs.back().reduced && count > 1 && !spec.shifted_exp;
  if (columns || count == 0) return PlanColumns(spec, runs, x.dtype, y.dtype, count);
  return PlanRows(spec, runs, x.dtype, y.dtype, count);
}

}  // namespace

void DefineReduce(op::OpDef& def, const ReduceSpec& spec) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](InferContext& c) { return InferReduce(*self, c); };
  def.plan = [self, spec](const PlanContext& c) { return PlanReduce(*self, spec, c); };
}

}  // namespace opsnn::ops
