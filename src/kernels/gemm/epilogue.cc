// The epilogue around tiles: what goes into registers, what runs on blocks; scratch memory of threads.
#include <array>
#include <cassert>
#include <limits>
#include <span>

#include "base/buffer.h"
#include "kernels/gemm/internal.h"
#include "vector/compiled.h"
#include "vector/scratch_failures.h"

namespace opsnn::gemm {

using vector::RegAct;

namespace {
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kMaxEpilogueArgs = 32;

bool IsClip(RegAct act) { return act == RegAct::kNone || act == RegAct::kRelu || act == RegAct::kClip; }
}  // namespace

TileFinish TilePart(const vector::Epilogue& e, int64_t col) {
  TileFinish f;
  f.on = e.bias != nullptr || (e.act != RegAct::kNone && IsClip(e.act));
  f.bias = e.bias ? e.bias + col : nullptr;
  f.lo = e.act == RegAct::kRelu ? 0.0f : e.act == RegAct::kClip ? e.act_imm[0] : -kInf;
  f.hi = e.act == RegAct::kClip ? e.act_imm[1] : kInf;
  if (!IsClip(e.act)) f.act = e.act, f.act_imm = e.act_imm;
  return f;
}

void FinishBlock(const Params& p, int64_t batch, int64_t row, int64_t col, float* c, int64_t ldc,
                 int64_t rows, int64_t cols, bool in_tile) {
  const vector::Epilogue& e = p.epilogue;
  if (!in_tile && (e.bias || e.act != RegAct::kNone)) {
    FinishRows({c, ldc, c, ldc}, rows, cols, e.bias ? e.bias + col : nullptr, e.act, e.act_imm);
  }
  if (e.program) RunProgram(*e.program, e.args, {c, DType::kF32, ldc, 1}, {batch, row, rows, col, cols});
}

void RunProgram(const vector::CompiledProgram& program, std::span<const vector::EpilogueArg> operands,
                const vector::BlockArg& block, CBlock at) {
  std::array<vector::BlockArg, kMaxEpilogueArgs> args;
  assert(operands.size() < kMaxEpilogueArgs);
  args[0] = block;
  for (size_t i = 0; i < operands.size(); ++i) args[i + 1] = operands[i].At(at.batch, 0, at.row, at.col);
  // Whole rows without gaps are one long row.
  bool one_run = !program.has_per_row;
  for (size_t i = 0; i <= operands.size(); ++i) {
    one_run = one_run && args[i].row_stride == at.cols && args[i].col_stride == 1;
  }
  if (one_run) at.cols *= at.rows, at.rows = 1;
  vector::RunBlock(program, at.rows, at.cols, args.data());
}

void RunProgramByRows(const vector::CompiledProgram& program, std::span<const vector::EpilogueArg> operands,
                      vector::BlockArg block, CBlock at) {
  constexpr int64_t kBytes = 32 * 1024;
  const int64_t size = static_cast<int64_t>(SizeOf(block.dtype)), end = at.row + at.rows;
  const int64_t most = std::max<int64_t>(1, kBytes / (at.cols * size));
  for (; at.row < end; at.row += most) {
    at.rows = std::min(most, end - at.row);
    RunProgram(program, operands, block, at);
    block.data = static_cast<char*>(block.data) + most * block.row_stride * size;
  }
}

namespace {
// The bytes that an operand touches over all of C.
struct Extent {
  const char* begin;
  const char* end;
  Extent(const vector::EpilogueArg& x, const Params& p)
      : begin(static_cast<const char*>(x.data)), end(begin + SizeOf(x.dtype)) {
    Widen((p.batch - 1) * x.batch_stride, x.dtype);
    Widen((p.m - 1) * x.row_stride, x.dtype);
    Widen((p.n - 1) * x.col_stride, x.dtype);
  }
  void Widen(int64_t elements, DType t) {
    const int64_t bytes = elements * static_cast<int64_t>(SizeOf(t));
    (bytes < 0 ? begin : end) += bytes;
  }
  bool Overlaps(const Extent& o) const { return begin < o.end && o.begin < end; }
};
}  // namespace

void SumInOutput(Params& p) {
  const std::span<const vector::EpilogueArg> args = p.epilogue.args;
  const size_t inputs = static_cast<size_t>(vector::Source(*p.epilogue.program).num_inputs) - 1;
  for (size_t i = inputs; i < args.size(); ++i) {
    const vector::EpilogueArg& out = args[i];
    if (out.dtype != DType::kF32 || out.col_stride != 1 || out.row_stride < p.n) continue;
    if (p.batch > 1 && out.batch_stride == 0) continue;
    const Extent mine(out, p);
    bool alone = true;
    for (size_t j = 0; j < args.size(); ++j) alone = alone && (j == i || !mine.Overlaps(Extent(args[j], p)));
    if (!alone) continue;
    p.c = static_cast<float*>(out.data);
    p.c_row_stride = out.row_stride, p.c_batch_stride = out.batch_stride;
    return;
  }
}

float* ThreadScratch(Scratch use, int64_t floats) {
  static thread_local std::array<AlignedBuffer, static_cast<size_t>(Scratch::kCount)> buffers;
  AlignedBuffer& b = buffers[static_cast<size_t>(use)];
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(floats, 1)) * sizeof(float);
  if (b.bytes() < bytes) {
    b = AlignedBuffer();
    b = AlignedBuffer(bytes);
    if (!b) vector::NoteScratchFailure();
  }
  return b.as<float>();
}

}  // namespace opsnn::gemm
