// Executing vector programs. Two entry points:
//   RunBlock   one block that is still on chip: what cube kernels call as their epilogue;
//   RunTensors a whole pointwise or row-wise operator, threads and tails included.
// Both take a CompiledProgram: the program after the peephole pass that merges stages into super-stages, with
// slots assigned to scratch. Compile once, keep it in the plan. All modes give bitwise equal results.
#ifndef OPSNN_VECTOR_RUN_H_
#define OPSNN_VECTOR_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "program/program.h"
#include "simd/reg_act.h"
#include "tensor/tensor_view.h"

namespace opsnn::vector {

class CompiledProgram;  // immutable, shared between threads

Result<std::shared_ptr<const CompiledProgram>> Compile(const Program& program);
const Program& Source(const CompiledProgram& p);

// One operand of a block: element (r, c) is at data + r * row_stride + c * col_stride, strides in elements.
// A stride of 0 broadcasts. Arguments are the program's inputs, then its outputs.
struct BlockArg {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
};

// Runs the program over rows x cols. Programs with row reductions need whole rows in the block. An output may
// be the same memory as an input with the same strides (in place). Scratch comes from a thread-local arena.
void RunBlock(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args);

// Runs a pointwise program over the dims of the outputs (all equal); inputs broadcast to them.
// A program with row reductions reduces over the trailing `row_rank` dims (its per_row outputs have those
// dims as 1, or no dims where keepdims is false); row_rank must be 0 for pointwise programs. Checks nothing
// but what asserts check: shapes were inferred and checked before.
void RunTensors(const CompiledProgram& p, std::span<const TensorView> inputs,
                std::span<const TensorView> outputs, int row_rank = 0);

// A strided copy with dtype conversion: the program "copy" (blocked transposes live in kernels/transpose).
void CopyConvert(const TensorView& from, const TensorView& to);

// ---- epilogues of cube kernels -------------------------------------------------------------------------
// Where an argument of an epilogue lives for the whole result; a block's address follows from its position.
// Gemm: batch index, row and column of C (`block` unused). Blocked conv: image n, channel block c1, pixel
// (row), channel inside the block (col).
struct EpilogueArg {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t batch_stride = 0, block_stride = 0, row_stride = 0, col_stride = 0;
  BlockArg At(int64_t batch, int64_t block, int64_t row, int64_t col) const {
    const int64_t off = batch * batch_stride + block * block_stride + row * row_stride + col * col_stride;
    return {static_cast<char*>(data) + off * static_cast<int64_t>(SizeOf(dtype)), dtype, row_stride,
            col_stride};
  }
};

// RegAct: activations cheap enough to apply to accumulators in registers (simd/reg_act.h).

// What happens to C blocks before they leave the chip, in this order:
//   x = acc (+ bias[col]) (+ residual); x = act(x); then the program, if any, on blocks that are still in
//   L1/L2.
// `program` input 0 is the f32 block; args are its further inputs, then its outputs. Without a program the
// kernel stores x as f32 to its own C operand.
struct Epilogue {
  const float* bias = nullptr;  // per output column / channel; null: none
  RegAct act = RegAct::kNone;
  float act_imm[2] = {0, 0};
  const CompiledProgram* program = nullptr;
  std::span<const EpilogueArg> args;
};

// Splits a program whose input 0 is a cube result into the register part above and a rest. `bias_input` is
// the index of the input taken as per-column bias or -1. The rest is null when nothing remains.
struct EpilogueSplit {
  int bias_input = -1;
  RegAct act = RegAct::kNone;
  float act_imm[2] = {0, 0};
  bool rest = false;
  Program rest_program;          // inputs: block, then the inputs of the original that it still reads
  std::vector<int> rest_inputs;  // their indices in the original program (without input 0)
};
// column_inputs[i] says that input i varies along the columns only (a bias candidate).
EpilogueSplit SplitEpilogue(const Program& program, std::span<const bool> column_inputs);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_RUN_H_
