// f32 accumulation: the loops around kernels/gemm, and the post program as its epilogue.
#include <algorithm>
#include <array>
#include <utility>

#include "base/knobs.h"
#include "device/profile.h"
#include "isa/bf16_dots.h"
#include "isa/tier.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/peak.h"
#include "kernels/gemm/regions.h"
#include "op/exact.h"
#include "ops/matmul/product_kernel.h"
#include "plan/gemm_blocking.h"
#include "plan/judge.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

// The product as it was before there was a planner: square blocks, both operands packed for each, no weights
// kept. What planning gains is measured against it; the bits are the same, as sums follow k alike.
constexpr int64_t kPlainSide = 32;
bool IsPlain() { return GetKnobs().product == ProductMode::kPlain; }

// kc and mc from the planner, and what may stay in place.
gemm::Blocking BlockingFor(const LoopNest& nest, bool packed_b) {
  gemm::Blocking b;
  if (IsPlain()) {
    b.mc = b.kc = kPlainSide;
    b.direct_floats = b.in_place_cols = 0;
    return b;
  }
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
  const plan::GemmBlocking g =
      plan::PlanGemmBlocking({nest.m(), nest.n, nest.k, nest.batch(), sizeof(float), packed_b},
                             {tile.mr, tile.nr, gemm::StepCycles()}, host);
  b.mc = std::max<int64_t>(g.mc, tile.mr);
  b.kc = std::max<int64_t>(g.kc, 1);
  b.direct_floats = plan::DirectFloats(host);
  return b;
}

gemm::Operand ToOperand(const LoopOperand& x, bool rows_lead) {
  const int last = x.lead.rank() - 1;
  return {nullptr, x.dtype, rows_lead ? x.lead[last] : x.row_stride, x.col_stride, x.lead[last - 1]};
}

class F32Product : public op::Kernel {
 public:
  Status Plan(const ProductCall& call);
  Status Run(const op::RunArgs& args) const override;
  std::string variant() const override;
  size_t workspace_bytes() const override {
    return static_cast<size_t>(gemm::RegionScratch(regions_, nest_.n)) * sizeof(float);
  }

 private:
  Status PlanPost(const ProductCall& call);
  Status PlanRegions(const ProductCall& call, const std::vector<LoopOperand>& operands);
  Status FitRegions(const char* name);
  void RunByRegions(const gemm::Params& p, std::span<const vector::EpilogueArg> args, void* scratch) const;
  void PlanPackedB(const ProductCall& call);
  void RunOne(const op::RunArgs& args, const void* a, const void* b, const Dims& at) const;

  LoopNest nest_;
  gemm::Params params_;  // without pointers
  std::shared_ptr<const vector::CompiledProgram> rest_;
  int bias_ = -1;  // RunArgs input, or -1
  LoopOperand c_;  // the output when no program stores
  // A hybrid call: the regions, and the chain as a pass of its own, whose operands follow those of rest_.
  std::vector<gemm::RowRegion> regions_;
  std::shared_ptr<const vector::CompiledProgram> chain_;
  size_t rest_args_ = 0;
  int row_rank_ = 0;  // 1: the chain reduces rows
  std::shared_ptr<const gemm::PackedB> packed_;
  int64_t a_bytes_ = 0, b_bytes_ = 0;
  std::vector<int64_t> output_bytes_;
};

Status F32Product::PlanPost(const ProductCall& call) {
  const op::PlanContext& c = *call.context;
  const PostProgram& post = call.post;
  vector::EpilogueSplit split;
  std::vector<LoopOperand> operands;
  for (size_t i = 0; i < post.descs.size(); ++i) {
    operands.push_back(LoopsOf(call.shape, *post.descs[i], post.indices[i], false));
  }
  if (post.any && post.program.HasRowReduction()) {
    c_ = LoopsOf(call.shape, c.outputs[0], 0, true);
    row_rank_ = 1;
    return PlanRegions(call, operands);
  }
  if (post.any) {
    const size_t inputs = static_cast<size_t>(post.program.num_inputs);
    const std::unique_ptr<bool[]> columns(new bool[inputs]());
    for (size_t i = 1; i < inputs; ++i) columns[i] = IsColumnVector(operands[i - 1], call.shape.n);
    split = vector::SplitEpilogue(post.program, {columns.get(), inputs});
    params_.epilogue.act = split.act;
    std::copy(split.act_imm, split.act_imm + 2, params_.epilogue.act_imm);
    if (split.bias_input > 0) bias_ = post.indices[static_cast<size_t>(split.bias_input - 1)];
  }
  c_ = LoopsOf(call.shape, c.outputs[0], 0, true);
  Program rest = split.rest_program;
  if (!split.rest) {
    if (c_.dtype == DType::kF32 && c_.col_stride == 1) return PlanRegions(call, operands);
    ProgramBuilder copy;  // another dtype or column stride: the store of a program does that
    copy.Output(copy.Unary(StageOp::kCopy, copy.Input()));
    rest = std::move(copy).Build();
  }
  OPSNN_ASSIGN_OR_RETURN(rest_, vector::Compile(rest));
  for (int i : split.rest_inputs) nest_.args.push_back(operands[static_cast<size_t>(i - 1)]);
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    nest_.args.push_back(LoopsOf(call.shape, c.outputs[i], static_cast<int>(i), true));
  }
  OPSNN_RETURN_IF_ERROR(CheckEpilogueArgs(call.name, nest_.args.size()));
  rest_args_ = nest_.args.size();
  return PlanRegions(call, operands);
}

Status F32Product::PlanRegions(const ProductCall& call, const std::vector<LoopOperand>& operands) {
  const op::PlanContext& c = *call.context;
  if (!c.tail || c.tail->regions.empty() || operands.size() + c.outputs.size() > kMaxEpilogueArgs)
    return OkStatus();
  for (const plan::Region& r : c.tail->regions) {
    regions_.push_back({r.rows, r.block, r.verdict == plan::Verdict::kFuse});
  }
  OPSNN_ASSIGN_OR_RETURN(chain_, vector::Compile(call.post.program));
  nest_.args.insert(nest_.args.end(), operands.begin(), operands.end());
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    nest_.args.push_back(LoopsOf(call.shape, c.outputs[i], static_cast<int>(i), true));
  }
  return OkStatus();
}

// The judge counted rows as if every operand walked the leading dims alike. Where one does not, the product
// is several, and all their rows are fused.
Status F32Product::FitRegions(const char* name) {
  int64_t rows = 0;
  for (const gemm::RowRegion& r : regions_) rows += r.rows;
  const bool one_matrix = nest_.lead.rank() == 2 && nest_.batch() == 1;
  if (row_rank_ > 0) {
    if (one_matrix && chain_ && rows == nest_.m()) return OkStatus();
    return Errorf(Code::kNotImplemented, "%s: a row reduction behind several products", name);
  }
  if (!one_matrix || rows != nest_.m() || gemm::ChoosePath(params_) == gemm::Path::kGemv) regions_.clear();
  return OkStatus();
}

void F32Product::RunByRegions(const gemm::Params& p, std::span<const vector::EpilogueArg> args,
                              void* scratch) const {
  int64_t blocks[2] = {0, 0};
  for (const gemm::RowRegion& r : regions_) blocks[r.fused] += (r.rows + r.block - 1) / r.block;
  plan::CountRegions(blocks[1], blocks[0]);
  gemm::RunRegions(p, {chain_.get(), args, row_rank_}, regions_, static_cast<float*>(scratch));
}

// A constant B is packed once per owner. Few rows read it in place: packing would double its memory for
// nothing.
void F32Product::PlanPackedB(const ProductCall& call) {
  const op::TensorDesc& b = *call.context->inputs[1];
  if (IsPlain() || !call.context->packs || !b.constant || nest_.lead.rank() > 2 ||
      !gemm::PackingPays(params_))
    return;
  const gemm::Blocking unpacked = std::exchange(params_.blocking, BlockingFor(nest_, true));
  const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
  const int64_t batch = params_.b.batch_stride == 0 ? 1 : params_.batch;
  const std::string key = StrFormat(
      "gemm%s%s %s nr%d kc%lld rs%lld cs%lld bs%lld n%lld k%lld b%lld",
      !params_.nz_b              ? ""
      : params_.nz_b->transposed ? " nzt"
                                 : " nz",
      params_.bf16_pairs ? " pairs" : "", isa::Name(isa::ActiveTier()), tile.nr,
      static_cast<long long>(params_.blocking.kc), static_cast<long long>(params_.b.row_stride),
      static_cast<long long>(params_.b.col_stride), static_cast<long long>(params_.b.batch_stride),
      static_cast<long long>(params_.n), static_cast<long long>(params_.k), static_cast<long long>(batch));
  std::shared_ptr<const void> packed =
      call.context->packs->GetOrMake(b.constant, key, [&]() -> std::shared_ptr<const void> {
        if (params_.nz_b) {
          gemm::NzOperand strips = *params_.nz_b;
          strips.data = b.constant->data();
          return gemm::PackNzB(strips, params_.k, params_.n, batch, params_.blocking, params_.bf16_pairs);
        }
        gemm::Operand from = params_.b;
        from.data = b.constant->data();
        return gemm::PackB(from, params_.k, params_.n, batch, params_.blocking, params_.bf16_pairs);
      });
  packed_ = std::static_pointer_cast<const gemm::PackedB>(packed);
  if (!packed_) params_.blocking = unpacked;
  params_.packed_b = packed_.get();
}

Status F32Product::Plan(const ProductCall& call) {
  const op::PlanContext& c = *call.context;
  const op::TensorDesc& b = call.strips ? call.strips->matrix : *c.inputs[1];
  nest_ = MakeLoops(call.shape, *c.inputs[0], b, call.trans_a, call.trans_b);
  OPSNN_RETURN_IF_ERROR(PlanPost(call));
  if (!rest_) nest_.args.push_back(c_);
  nest_.Merge();
  if (!rest_) {
    c_ = nest_.args.back();
    nest_.args.pop_back();
  }
  params_.m = nest_.m(), params_.n = nest_.n, params_.k = nest_.k, params_.batch = nest_.batch();
  params_.a = ToOperand(nest_.a, true);
  params_.b = ToOperand(nest_.b, false);
  if (call.strips)
    params_.nz_b = gemm::NzOperand{nullptr, b.dtype, call.strips->transposed, params_.b.batch_stride};
  params_.c_row_stride = rest_ ? 0 : c_.lead[c_.lead.rank() - 1];
  params_.c_batch_stride = rest_ ? 0 : c_.lead[c_.lead.rank() - 2];
  params_.blocking = BlockingFor(nest_, false);
  if (IsPlain()) params_.path = gemm::Path::kPanel;
  params_.bf16_pairs =
      !op::PlansExactly() && nest_.a.dtype == DType::kBF16 && b.dtype == DType::kBF16 && isa::Bf16DotsPay();
  PlanPackedB(call);
  OPSNN_RETURN_IF_ERROR(FitRegions(call.name));
  a_bytes_ = AliasGuard::Extent(nest_, nest_.a, 1, nest_.k, true);
  b_bytes_ = packed_       ? 0
             : call.strips ? static_cast<int64_t>(c.inputs[1]->View(nullptr).bytes())
                           : AliasGuard::Extent(nest_, nest_.b, nest_.k, nest_.n, false);
  for (const op::TensorDesc& y : c.outputs) {
    const ByteRange touched = TouchedBytes(y.View(nullptr));
    output_bytes_.push_back(touched.end - touched.begin);
  }
  return OkStatus();
}

void F32Product::RunOne(const op::RunArgs& args, const void* a, const void* b, const Dims& at) const {
  gemm::Params p = params_;
  p.a.data = static_cast<const char*>(a) + OuterOffset(nest_.a, at);
  p.b.data = static_cast<const char*>(b) + OuterOffset(nest_.b, at);
  if (p.nz_b) p.nz_b->data = p.b.data;
  if (bias_ >= 0) p.epilogue.bias = static_cast<const float*>(args.inputs[bias_]);
  std::array<vector::EpilogueArg, 2 * kMaxEpilogueArgs> bound;
  for (size_t i = 0; i < nest_.args.size(); ++i) {
    const LoopOperand& x = nest_.args[i];
    void* base = x.is_output ? args.outputs[x.index] : args.inputs[x.index];
    bound[i] = ToArg(x);
    bound[i].data = static_cast<char*>(base) + OuterOffset(x, at);
  }
  if (rest_) {
    p.epilogue.program = rest_.get();
    p.epilogue.args = {bound.data(), rest_args_};
  } else {
    p.c = reinterpret_cast<float*>(static_cast<char*>(args.outputs[0]) + OuterOffset(c_, at));
  }
  if (!regions_.empty()) {
    return RunByRegions(p, {bound.data() + rest_args_, nest_.args.size() - rest_args_}, args.workspace);
  }
  gemm::Run(p);
}

Status F32Product::Run(const op::RunArgs& args) const {
  return RunGuarded(nest_, args, a_bytes_, b_bytes_, output_bytes_,
                    [&](const void* a, const void* b, const Dims& at) { RunOne(args, a, b, at); });
}

std::string F32Product::variant() const {
  const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
  const bool plain = params_.path == gemm::Path::kPanel;
  std::string v =
      StrFormat("gemm %s%s %dx%d%s", plain ? "plain blocks, " : "", gemm::Name(gemm::ChoosePath(params_)),
                tile.mr, tile.nr, params_.nz_b ? " from strips" : "");
  if (params_.bf16_pairs) v += ", bf16 pairs";
  if (bias_ >= 0) v += ", +bias";
  if (params_.epilogue.act != vector::RegAct::kNone) v += ", +activation";
  if (rest_) v += ", +program";
  for (const gemm::RowRegion& r : regions_) {
    v += StrFormat(", %lld rows %s", static_cast<long long>(r.rows), r.fused ? "fused" : "split");
    if (r.block < r.rows) v += StrFormat(" by %lld", static_cast<long long>(r.block));
  }
  return v;
}

}  // namespace

Status CheckEpilogueArgs(const char* name, size_t count) {
  if (count <= kMaxEpilogueArgs) return OkStatus();
  return Errorf(Code::kNotImplemented, "%s: the fused tail has %zu operands; allowed: %zu", name, count,
                kMaxEpilogueArgs);
}

int64_t AliasGuard::Extent(const LoopNest& nest, const LoopOperand& x, int64_t rows, int64_t cols,
                           bool has_m) {
  if (NumElements(nest.lead) == 0 || rows == 0 || cols == 0) return 0;
  int64_t last = (rows - 1) * x.row_stride + (cols - 1) * x.col_stride;
  for (int i = 0; i < nest.lead.rank() - (has_m ? 0 : 1); ++i) last += (nest.lead[i] - 1) * x.lead[i];
  return (last + 1) * static_cast<int64_t>(SizeOf(x.dtype));
}

const void* AliasGuard::Protect(const void* data, int64_t bytes, const op::RunArgs& args,
                                const std::vector<int64_t>& outputs) {
  const char* begin = static_cast<const char*>(data);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const char* out = static_cast<const char*>(args.outputs[i]);
    if (begin >= out + outputs[i] || out >= begin + bytes) continue;
    AlignedBuffer copy(static_cast<size_t>(bytes));
    if (copy) std::copy(begin, begin + bytes, copy.as<char>());
    copies_.push_back(std::move(copy));
    return copies_.back().data();
  }
  return data;
}

Status RunGuarded(const LoopNest& nest, const op::RunArgs& args, int64_t a_bytes, int64_t b_bytes,
                  const std::vector<int64_t>& outputs,
                  FunctionRef<void(const void* a, const void* b, const Dims& at)> run_one) {
  if (NumElements(nest.lead) == 0 || nest.n == 0) return OkStatus();
  AliasGuard guard;
  const void* a = guard.Protect(args.inputs[0], a_bytes, args, outputs);
  const void* b = guard.Protect(args.inputs[1], b_bytes, args, outputs);
  if ((!a && a_bytes > 0) || (!b && b_bytes > 0)) {
    return Errorf(Code::kRuntime,
                  "matrix product: no memory for a copy of an operand that overlaps the output");
  }
  const vector::ScratchCheck scratch;
  ForEachOuter(nest, [&](const Dims& at) { run_one(a, b, at); });
  return scratch.Check("matrix product");
}

Result<op::KernelPtr> PlanF32Product(const ProductCall& call) {
  auto kernel = std::make_shared<F32Product>();
  OPSNN_RETURN_IF_ERROR(kernel->Plan(call));
  return op::KernelPtr(std::move(kernel));
}

}  // namespace opsnn::ops
