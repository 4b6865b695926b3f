// Vector programs: what is computed on a block while it is on chip, as plain data.
//
// A program is a straight line of stages over numbered slots. A slot holds one block of values in a compute
// type; slots 0 .. num_inputs-1 are the loaded inputs (any storage dtype, any strides, broadcast), each
// further slot is written by exactly one stage. A slot marked per_row holds one value per row: the result of
// a row reduction, and everything computed from such values alone; it broadcasts along the row. Outputs are
// slots stored to memory with conversion (round to nearest even, written saturation rule).
//
// The same data is executed by src/vector (interpreter, row templates, epilogues), costed by src/plan and
// printed by explain. A program never knows shapes or addresses: those are bound when it runs.
#ifndef OPSNN_PROGRAM_PROGRAM_H_
#define OPSNN_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace opsnn {

enum class ComputeType : uint8_t { kF32, kF64, kS32, kS64 };
// f64 -> kF64; s64 -> kS64; s8, u8, s16, s32, bool -> kS32; f32 and halves -> kF32.
ComputeType ComputeTypeOf(DType storage);

// One row per stage: the enumerator, its name in prints, its number of slot operands, its class for the cost
// model (flops per element, roughly: what the f32 form costs in vector instructions), and what imm[0], imm[1]
// are.
// clang-format off
#define OPSNN_STAGES(X)                                                              \
  /* unary */                                                                        \
  X(Copy, "copy", 1, 0) X(Neg, "neg", 1, 1) X(Abs, "abs", 1, 1)                      \
  X(Sign, "sign", 1, 2) X(Square, "square", 1, 1) X(Reciprocal, "reciprocal", 1, 4)  \
  X(Sqrt, "sqrt", 1, 6) X(Rsqrt, "rsqrt", 1, 10) X(Exp, "exp", 1, 14)                \
  X(Log, "log", 1, 18) X(Erf, "erf", 1, 20) X(Tanh, "tanh", 1, 18)                   \
  X(Sigmoid, "sigmoid", 1, 20) X(Silu, "silu", 1, 21) X(GeluErf, "gelu_erf", 1, 22)  \
  X(GeluTanh, "gelu_tanh", 1, 24) X(Relu, "relu", 1, 1)                              \
  X(LeakyRelu, "leaky_relu", 1, 2)    /* imm0 = negative slope */                    \
  X(Clip, "clip", 1, 2)               /* imm0 = lo, imm1 = hi; NaN passes through */ \
  X(HardSigmoid, "hard_sigmoid", 1, 3) /* clip(imm0 * x + imm1, 0, 1) */             \
  X(HardSwish, "hard_swish", 1, 5)    /* x * clip(imm0 * x + imm1, 0, 1) */          \
  X(Elu, "elu", 1, 16)                /* x > 0 ? x : imm0 * (exp(x) - 1) */          \
  X(Softplus, "softplus", 1, 30) X(Mish, "mish", 1, 40)                              \
  X(Floor, "floor", 1, 1) X(Ceil, "ceil", 1, 1) X(Round, "round", 1, 1) /* to even */ \
  X(Trunc, "trunc", 1, 1) X(Sin, "sin", 1, 20) X(Cos, "cos", 1, 20)                  \
  X(Tan, "tan", 1, 42) X(Asin, "asin", 1, 20) X(Acos, "acos", 1, 24)                 \
  X(Atan, "atan", 1, 24) X(Sinh, "sinh", 1, 30) X(Cosh, "cosh", 1, 22)               \
  X(Asinh, "asinh", 1, 40) X(Acosh, "acosh", 1, 40) X(Atanh, "atanh", 1, 36)         \
  X(Affine, "affine", 1, 2)           /* imm0 * x + imm1, product rounded first */   \
  X(Not, "not", 1, 1) X(IsNan, "is_nan", 1, 1) X(IsInf, "is_inf", 1, 2)              \
  X(Const, "const", 0, 0)             /* every value = imm0 */                       \
  X(Convert, "convert", 1, 1)         /* from the source slot's compute type */      \
  X(RoundTo, "round_to", 1, 2)        /* keep type, round to storage dtype imm0 */   \
  /* binary */                                                                       \
  X(Add, "add", 2, 1) X(Sub, "sub", 2, 1) X(Mul, "mul", 2, 1) X(Div, "div", 2, 5)    \
  X(Pow, "pow", 2, 45) X(Max, "max", 2, 1) X(Min, "min", 2, 1) X(Mod, "mod", 2, 10)  \
  X(PRelu, "prelu", 2, 3)             /* x >= 0 ? x : slope * x */                   \
  /* on integers; floats are truncated. A shift by the width or more gives 0 */      \
  X(BitAnd, "bit_and", 2, 1) X(BitOr, "bit_or", 2, 1) X(BitXor, "bit_xor", 2, 1)     \
  X(ShiftLeft, "shift_left", 2, 2) X(ShiftRight, "shift_right", 2, 2)                \
  X(Equal, "equal", 2, 1) X(Less, "less", 2, 1) X(LessEqual, "less_equal", 2, 1)     \
  X(Greater, "greater", 2, 1) X(GreaterEqual, "greater_equal", 2, 1)                 \
  X(And, "and", 2, 1) X(Or, "or", 2, 1) X(Xor, "xor", 2, 1)                          \
  /* ternary */                                                                      \
  X(MulAdd, "mul_add", 3, 2)          /* a * b + c, product rounded first */         \
  X(Select, "select", 3, 1)           /* a != 0 ? b : c */                           \
  /* row reductions: per_row result */                                               \
  X(RowSum, "row_sum", 1, 1) X(RowMean, "row_mean", 1, 1) X(RowMax, "row_max", 1, 1) \
  X(RowMin, "row_min", 1, 1) X(RowSumSquare, "row_sum_square", 1, 2)                 \
  X(RowProd, "row_prod", 1, 1)
// clang-format on

enum class StageOp : uint8_t {
#define OPSNN_STAGE_ENUM(id, name, arity, cost) k##id,
  OPSNN_STAGES(OPSNN_STAGE_ENUM)
#undef OPSNN_STAGE_ENUM
};

struct StageInfo {
  const char* name;
  uint8_t arity;
  uint8_t cost;
};
const StageInfo& Info(StageOp op);
bool IsRowReduction(StageOp op);

using SlotId = uint8_t;
inline constexpr SlotId kNoSlot = 255;

struct Slot {
  ComputeType type = ComputeType::kF32;
  bool per_row = false;
};

struct Stage {
  StageOp op;
  SlotId dst = kNoSlot;
  SlotId src[3] = {kNoSlot, kNoSlot, kNoSlot};
  double imm[2] = {0, 0};  // f64 so that s32 and f32 immediates are exact
};

struct Program {
  int num_inputs = 0;
  std::vector<Slot> slots;    // inputs first
  std::vector<Stage> stages;  // in execution order
  std::vector<SlotId> outputs;
  // Every stage keeps its own rounding: the engine may merge stages but not rewrite them into others. Set for
  // chains under the exact policy.
  bool exact = false;

  bool HasRowReduction() const;
  bool IsF32Pointwise() const;  // every slot f32, no reduction: may run as a cube epilogue
  // Vector instructions per element by the table above; what the cost model multiplies by elements / lanes.
  double CostPerElement() const;
  std::string ToString() const;  // "relu(add(in0, in1))" style, one line per output
  uint64_t Hash() const;         // of the whole content; equal programs hash equal
  Status Validate() const;       // slots written once, before use, types agree; the only check needed
};
bool operator==(const Program& a, const Program& b);

// Builds a program stage by stage. Types: a unary or binary stage computes in its operands' type (which must
// agree); comparisons give the operands' type with values 0 and 1.
class ProgramBuilder {
 public:
  SlotId Input(ComputeType type = ComputeType::kF32, bool per_row = false);  // before any stage
  // per_row: combined with per-row values only, whose results then stay one value per row.
  SlotId Const(double value, ComputeType type = ComputeType::kF32, bool per_row = false);
  SlotId Unary(StageOp op, SlotId x, double imm0 = 0, double imm1 = 0);
  SlotId Binary(StageOp op, SlotId a, SlotId b);
  SlotId Ternary(StageOp op, SlotId a, SlotId b, SlotId c);
  SlotId Convert(SlotId x, ComputeType to);
  void Output(SlotId s) { program_.outputs.push_back(s); }
  Program Build() && { return std::move(program_); }

 private:
  SlotId Emit(StageOp op, SlotId a, SlotId b, SlotId c, double imm0, double imm1, ComputeType type);
  Program program_;
};

// Joins two programs: output `output` of `first` feeds input `input` of `second` (converted if the compute
// types differ). The result's inputs are first's, then second's without `input`; its outputs are second's,
// preceded by first's outputs other than `output` if keep_outputs. Returns an error if it would need more
// than 254 slots.
Result<Program> Join(const Program& first, int output, const Program& second, int input,
                     bool keep_outputs = false);
// Merges inputs i < j that are bound to the same tensor; later inputs move down by one.
Program MergeInputs(const Program& p, int i, int j);

}  // namespace opsnn

#endif  // OPSNN_PROGRAM_PROGRAM_H_
