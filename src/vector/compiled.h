// What Compile makes of a program: instructions (super-stages) over slots that are assigned to scratch
// buffers.
#ifndef OPSNN_VECTOR_COMPILED_H_
#define OPSNN_VECTOR_COMPILED_H_

#include <optional>
#include <vector>

#include "vector/bytes/byte_sum.h"
#include "vector/canonical_programs.h"
#include "vector/pass.h"
#include "vector/run.h"

namespace opsnn::vector {

struct Instruction {
  enum class Kind : uint8_t { kPass, kReduce, kRoundTo };
  Kind kind = Kind::kPass;
  PassFn fn[3] = {};  // by isa::Tier
  uint8_t num_src = 0;
  bool per_row = false;   // a pass over the rows' values instead of the block
  bool dst_dies = false;  // nobody reads dst afterwards: a direct output may be streamed
  DType round_to = DType::kF32;
  SlotId src[kMaxPassOperands] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  SlotId dst = kNoSlot;  // kNoSlot for a reduction that writes nothing else
  SlotId reduced = kNoSlot;
  float imm[2] = {0, 0};
  double imm64[2] = {0, 0};
};

// Where a slot's values live. Inputs that need no conversion and outputs that are stored as they are computed
// live in the tensors themselves; that is decided per run.
struct SlotPlan {
  ComputeType type = ComputeType::kF32;
  bool per_row = false;  // one value per row; constants count as neither
  bool is_const = false;
  bool read_per_row = false;      // an input that some per-row instruction reads
  int16_t buffer = -1;            // scratch buffer of full slots (pool of its own for per-row slots)
  int16_t first = -1, last = -1;  // instructions that define and last read it; -1: input, or never read
  int16_t output = -1;            // index in outputs; the first one if several
  alignas(8) char value[8] = {};  // constants
};

class CompiledProgram {
 public:
  Program source;   // as given
  Program program;  // canonical: what runs
  std::vector<Instruction> code;
  std::vector<SlotPlan> slots;
  int num_inputs = 0, num_outputs = 0;
  int num_buffers = 0, num_row_buffers = 0;
  int num_full_passes = 0;  // instructions that run over the whole block
  size_t element_size = 4;  // of scratch: 8 if any slot is f64 or s64
  bool has_reduction = false;
  bool has_per_row = false;
  RowTemplate row_template;
  std::optional<ByteSum> byte_sum;  // what the program is; null: none
};

// Rewrites decomposed forms to single stages: x * clip(x / 6 + 1/2, 0, 1), x * clip(x + 3, 0, 6) / 6 and
// x * hard_sigmoid(x) become hard_swish, x * sigmoid(x) becomes silu, x / 2 * (1 + erf(x / sqrt 2)) becomes
// gelu_erf, pow(x, 2) becomes square (not where the program is exact); unread stages go away. Compile and
// SplitEpilogue both start from it, so that an epilogue equals the same program run on its own.
Program Canonicalize(const Program& p);

// Runs the compiled program over rows x cols, in blocks whose live values fit L1.
struct ExecuteOptions {
  bool stream = false;        // write outputs past the caches
  bool use_templates = true;  // tests compare with the interpreter
};
void Execute(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
             const ExecuteOptions& options);

// The row template, where program and arguments allow it; false: use the interpreter.
bool ExecuteRowTemplate(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
                        const ExecuteOptions& options);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_COMPILED_H_
