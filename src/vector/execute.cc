// The block interpreter.
//
// A run binds the slots to memory: an input in the compute type is read where it is, other inputs are
// converted into scratch block by block; an output in the compute type is written where it belongs unless an
// aliasing input is still read later. Then, block by block, every instruction runs over the whole block.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/buffer.h"
#include "base/int_math.h"
#include "isa/tier.h"
#include "vector/compiled.h"
#include "vector/convert.h"
#include "vector/convert_simd.h"
#include "vector/half_unary.h"
#include "vector/pass_tables.h"
#include "vector/scratch_failures.h"
#include "vector/transpose_tile.h"

namespace opsnn::vector {
namespace {

// Scratch of one block, with the blocks read and written directly, takes half of a common L1 (32 KiB); the
// rest is for the lines that are being prefetched.
constexpr int64_t kBlockBytes = 24 << 10;
constexpr int64_t kBufferAlign = 128;  // bytes: what AlignedBuffer gives
constexpr int64_t kBlockAlign = 64;    // columns: pieces of a long row are whole groups of four vectors
// Below kFlatCols columns, rows are processed together as one long row (the setup of a row costs about as
// much as 48 elements); from kSplatCols on that does not pay if values that repeat along the row must be
// spread out first.
constexpr int64_t kFlatCols = 48;
constexpr int64_t kSplatCols = 8;
constexpr int kMaxArgs = 64;
constexpr int64_t kBeyondL1 = 256 << 10;  // bytes that no L1 holds

// Grows and stays: a thread runs programs again and again. Null when there is no memory.
char* Scratch(size_t bytes) {
  static thread_local AlignedBuffer buffer;
  if (buffer.bytes() < bytes) buffer = AlignedBuffer(bytes + bytes / 2);
  return buffer.as<char>();
}

class Interpreter {
 public:
  Interpreter(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
              const ExecuteOptions& options)
      : p_(p),
        rows_(rows),
        cols_(cols),
        args_(args),
        options_(options),
        tier_(static_cast<int>(isa::ActiveTier())),
        size_(static_cast<int64_t>(p.element_size)) {}

  void Run() {
    if (!Bind()) return NoteScratchFailure();
    for (r0_ = 0; r0_ < rows_; r0_ += block_rows_) {
      br_ = std::min(block_rows_, rows_ - r0_);
      c0_ = 0;
      do {  // once even for empty rows: their reductions have values
        bc_ = std::min(block_cols_, cols_ - c0_);
        RunBlock();
        c0_ += block_cols_;
      } while (c0_ < cols_);
    }
  }

 private:
  enum class Load : uint8_t { kDirect, kScalar, kPerRow, kPerCol, kFull, kExpandRow, kExpandCol };

  // Binding: where each slot lives.
  Load ClassifyInput(int i) const {
    const BlockArg& a = args_[i];
    const SlotPlan& s = p_.slots[i];
    const bool by_row = a.row_stride != 0 && rows_ > 1;
    const bool by_col = a.col_stride != 0 && cols_ > 1 && !s.per_row;
    const bool same = SameRepresentation(a.dtype, s.type);
    if (flat_) {
      if (!by_row && !by_col) return same ? Load::kDirect : Load::kScalar;
      if (same && a.row_stride == cols_ && (a.col_stride == 1 || cols_ == 1)) return Load::kDirect;
      if (by_row && (by_col || cols_ == 1)) return Load::kFull;
      return by_row ? Load::kExpandCol : Load::kExpandRow;
    }
    if (same && (!by_col || a.col_stride == 1)) {
      // A per-row instruction walks over the rows with step 1.
      if (by_col || !by_row || a.row_stride == 1 || !s.read_per_row) return Load::kDirect;
    }
    if (by_row && by_col) return Load::kFull;
    return by_row ? Load::kPerRow : by_col ? Load::kPerCol : Load::kScalar;
  }

  bool ReadsRowValues() const {
    for (int i = 0; i < p_.num_inputs; ++i) {
      if (args_[i].row_stride != 0 && args_[i].col_stride == 0) return true;
    }
    return false;
  }

  bool OutputIsDirect(int o) const {
    const BlockArg& a = args_[p_.num_inputs + o];
    const SlotId slot = p_.program.outputs[o];
    const SlotPlan& s = p_.slots[slot];
    if (s.per_row || s.first < 0 || s.output != o || !SameRepresentation(a.dtype, s.type)) return false;
    if (a.col_stride != 1 && cols_ > 1) return false;
    if (rows_ > 1 && (a.row_stride == 0 || (flat_ && a.row_stride != cols_))) return false;
    for (int i = 0; i < p_.num_inputs; ++i) {  // in place: the input must not be read after this instruction
      const bool read_later = p_.slots[i].last > s.first || p_.slots[i].output >= 0;
      if (args_[i].data == a.data && read_later) return false;
    }
    return true;
  }

  // False when there is no memory for the scratch.
  bool Bind() {
    flat_ = !p_.has_per_row && rows_ > 1 && cols_ < kFlatCols && !(cols_ >= kSplatCols && ReadsRowValues());
    int64_t buffers = p_.num_buffers, scratch_used = 0;
    for (const SlotPlan& s : p_.slots) scratch_used += s.buffer >= 0 && !s.per_row;
    for (int o = 0; o < p_.num_outputs; ++o) {
      direct_[o] = OutputIsDirect(o);
      scratch_used -= direct_[o];
    }
    for (int i = 0; i < p_.num_inputs; ++i) {
      load_[i] = ClassifyInput(i);
      scratch_used += load_[i] != Load::kDirect;
    }
    if (scratch_used == 0) buffers = 0;  // all of them stand for outputs that are written directly
    ChooseBlock(scratch_used);
    narrow_ = NarrowPassOf(scratch_used);
    PlanPrefetch();
    const int64_t full = RoundUp(block_rows_ * block_cols_ * size_, kBufferAlign);
    const int64_t per_row = RoundUp(block_rows_ * 8, kBufferAlign);
    int64_t bytes = buffers * full + p_.num_row_buffers * per_row;
    for (int i = 0; i < p_.num_inputs; ++i)
      bytes += load_[i] == Load::kDirect ? 0 : LoadBytes(load_[i], full);
    char* at = Scratch(static_cast<size_t>(bytes));
    if (at == nullptr && bytes > 0) return false;
    char* row_at = at + buffers * full;
    for (size_t i = 0; i < p_.slots.size(); ++i) {
      const SlotPlan& s = p_.slots[i];
      if (s.is_const)
        view_[i] = {s.value, 0, 0};
      else if (s.buffer >= 0 && s.per_row)
        view_[i] = {row_at + s.buffer * per_row, 1, 0};
      else if (s.buffer >= 0)
        view_[i] = {at + s.buffer * full, block_cols_, 1};
      else
        view_[i] = {nullptr, 0, 0};  // inside a merged stage, or set when the block is known
    }
    at = row_at + p_.num_row_buffers * per_row;
    for (int i = 0; i < p_.num_inputs; ++i) {
      if (load_[i] == Load::kDirect) continue;
      view_[i] = {at, 0, 0};
      at += LoadBytes(load_[i], full);
    }
    return true;
  }
  int64_t LoadBytes(Load load, int64_t full) const {
    switch (load) {
      case Load::kDirect:
        return 0;
      case Load::kScalar:
        return kBufferAlign;
      case Load::kPerRow:
        return RoundUp(block_rows_ * size_, kBufferAlign);
      case Load::kPerCol:
        return RoundUp(block_cols_ * size_, kBufferAlign);
      default:
        return full;
    }
  }
  void ChooseBlock(int64_t scratch_used) {
    // One instruction that reads and writes tensors needs no blocks at all.
    const bool whole = scratch_used == 0 && p_.code.size() <= 1;
    const int64_t budget =
        whole ? INT64_MAX / 64 : std::max<int64_t>(kBlockAlign, kBlockBytes / size_ / (scratch_used + 2));
    block_cols_ = cols_;
    if (!p_.has_reduction && !flat_ && cols_ > budget) block_cols_ = budget / kBlockAlign * kBlockAlign;
    block_rows_ =
        std::clamp<int64_t>(budget / std::max<int64_t>(block_cols_, 1), 1, std::max<int64_t>(rows_, 1));
    block_cols_ = std::max<int64_t>(block_cols_, 1);
  }

  // A cheap stage whose operands are well beyond L1.
  PassFn NarrowPassOf(int64_t scratch_used) const {
    if (options_.stream || !options_.use_templates || scratch_used != 0 || p_.program.stages.size() != 1 ||
        rows_ != 1 || cols_ == 1)
      return nullptr;
    const int64_t bytes = cols_ * size_ * (p_.num_inputs + p_.num_outputs);
    for (int i = 0; i < p_.num_inputs; ++i) {
      if (p_.slots[i].type != ComputeType::kF32 || args_[i].col_stride != 1) return nullptr;
    }
    return bytes < kBeyondL1 ? nullptr : FindNarrowPass(p_.program.stages[0].op);
  }

  // One block.
  static const char* Address(const BlockArg& a, int64_t r, int64_t c) {
    return static_cast<const char*>(a.data) +
           (r * a.row_stride + c * a.col_stride) * static_cast<int64_t>(SizeOf(a.dtype));
  }

  void LoadInput(int i) {
    const BlockArg& a = args_[i];
    const ComputeType t = p_.slots[i].type;
    PassOperand& v = view_[i];
    char* to = static_cast<char*>(const_cast<void*>(v.data));
    auto load = [&](int64_t r, int64_t c, int64_t stride, char* dst, int64_t n) {
      LoadConvert(a.dtype, Address(a, r, c), stride, t, dst, n);
    };
    switch (load_[i]) {
      case Load::kDirect: {
        const bool by_col = a.col_stride != 0 && cols_ > 1 && !p_.slots[i].per_row;
        const bool moves = by_col || (flat_ && a.row_stride != 0);
        v = {Address(a, r0_, by_col ? c0_ : 0), a.row_stride, moves ? 1 : 0};
        break;
      }
      case Load::kScalar:
        v = {to, 0, 0};
        if (r0_ == 0 && c0_ == 0) load(0, 0, 1, to, 1);
        break;
      case Load::kPerRow:
        v = {to, 1, 0};
        load(r0_, 0, a.row_stride, to, br_);
        break;
      case Load::kPerCol:
        v = {to, 0, 1};
        if (r0_ == 0 || block_cols_ < cols_) load(0, c0_, a.col_stride, to, bc_);
        break;
      case Load::kFull:
        v = {to, bc_, 1};
        if (a.row_stride == 1 && a.col_stride > 1 && SameRepresentation(a.dtype, t) &&
            t == ComputeType::kF32) {
          TransposeTile(reinterpret_cast<const float*>(Address(a, r0_, c0_)), a.col_stride,
                        reinterpret_cast<float*>(to), bc_, br_, bc_);
        } else if (a.row_stride == bc_ * a.col_stride) {
          load(r0_, c0_, a.col_stride, to, br_ * bc_);
        } else {
          for (int64_t r = 0; r < br_; ++r) load(r0_ + r, c0_, a.col_stride, to + r * bc_ * size_of(t), bc_);
        }
        break;
      case Load::kExpandRow:
        v = {to, bc_, 1};
        if (r0_ != 0) break;
        load(0, 0, a.col_stride, to, bc_);
        Repeat(to, bc_ * size_of(t), br_);
        break;
      case Load::kExpandCol:
        v = {to, bc_, 1};
        for (int64_t r = 0; r < br_; ++r) {
          char* row = to + r * bc_ * size_of(t);
          load(r0_ + r, 0, 1, row, 1);
          Repeat(row, size_of(t), bc_);
        }
        break;
    }
  }
  // Copies of the first `bytes`, `times` in all: the filled part doubles.
  static void Repeat(char* p, int64_t bytes, int64_t times) {
    for (int64_t done = 1; done < times; done *= 2) {
      std::memcpy(p + done * bytes, p, static_cast<size_t>(std::min(done, times - done) * bytes));
    }
  }
  static int64_t size_of(ComputeType t) { return static_cast<int64_t>(SizeOfCompute(t)); }

  void RunBlock() {
    for (int i = 0; i < p_.num_inputs; ++i) LoadInput(i);
    for (size_t i = p_.num_inputs; i < p_.slots.size(); ++i) {
      if (view_[i].step == 1) view_[i].row_stride = bc_;
    }
    for (int o = 0; o < p_.num_outputs; ++o) {
      const BlockArg& a = args_[p_.num_inputs + o];
      if (direct_[o]) view_[p_.program.outputs[o]] = {Address(a, r0_, c0_), a.row_stride, 1};
    }
    stream_ = 0, stream_offset_ = 0;
    for (const Instruction& in : p_.code) RunInstruction(in);
    // Outputs that are inputs go first: another output may be stored over that input.
    for (bool inputs : {true, false}) {
      for (int o = 0; o < p_.num_outputs; ++o) {
        const bool is_input = p_.program.outputs[o] < p_.num_inputs;
        if (!direct_[o] && is_input == inputs) StoreOutput(o);
      }
    }
  }

  void RunInstruction(const Instruction& in) {
    PassArgs a{};
    a.rows = flat_ || in.per_row ? 1 : br_;
    a.cols = in.per_row ? br_ : flat_ ? br_ * bc_ : bc_;
    a.imm = in.imm, a.imm64 = in.imm64;
    for (int k = 0; k < in.num_src; ++k) {
      a.src[k] = view_[in.src[k]];
      if (in.per_row && !p_.slots[in.src[k]].is_const) a.src[k] = {a.src[k].data, 0, a.src[k].row_stride};
    }
    if (in.dst != kNoSlot) {
      const PassOperand& v = view_[in.dst];
      a.dst = const_cast<void*>(v.data), a.dst_row_stride = v.row_stride;
      const int o = p_.slots[in.dst].output;
      a.stream = options_.stream && in.dst_dies && o >= 0 && direct_[o];
      a.fetch_dst = !a.stream && o >= 0 && direct_[o] && rows_ * cols_ * size_ >= kBeyondL1;
    }
    if (in.reduced != kNoSlot) a.reduced = const_cast<void*>(view_[in.reduced].data);
    if (in.kind == Instruction::Kind::kRoundTo) return RoundTo(in, a);
    SetPrefetch(a, in);
    narrow_ != nullptr ? narrow_(a) : in.fn[tier_](a);
  }

  // The inputs that stream through the blocks, and how many lines each group of four vectors must ask for so
  // that the passes over one block fetch the next one.
  void PlanPrefetch() {
    int64_t bytes = 0;
    num_streams_ = 0;
    for (int i = 0; i < p_.num_inputs; ++i) {
      const BlockArg& b = args_[i];
      const bool moves = cols_ > 1 && b.col_stride == 1 && (rows_ == 1 || b.row_stride != 0);
      const bool gapless = rows_ == 1 || b.row_stride == cols_ || block_cols_ < cols_;
      if (!moves || !gapless || p_.slots[i].per_row || num_streams_ == kMaxStreams) continue;
      streams_[num_streams_++] = static_cast<int8_t>(i);
      bytes += static_cast<int64_t>(SizeOf(b.dtype));
    }
    vector_bytes_ = int64_t{16} << tier_;
    // Bytes needed per group, spread over the full passes; 1, 2 or 4 lines.
    const int64_t need = bytes * vector_bytes_ / std::max(p_.num_full_passes, 1);
    lines_ = need > 128 ? 4 : need > 64 ? 2 : 1;
  }

  void SetPrefetch(PassArgs& a, const Instruction& in) {
    a.prefetch = static_cast<const char*>(in.num_src > 0 ? a.src[0].data : a.dst);
    a.prefetch_step = 0;
    if (in.per_row || stream_ >= num_streams_) return;
    const BlockArg& b = args_[streams_[stream_]];
    a.prefetch_step = lines_ * 64;
    if (p_.num_full_passes == 1 && block_cols_ == cols_) {  // no next block: run ahead in this one
      constexpr int64_t kAhead = 2048;
      a.prefetch = Address(b, r0_, c0_) + kAhead;
      // Reductions ask for lines in L2 then (passes_reduce.cc), which a negative step says.
      if (in.reduced != kNoSlot) a.prefetch_step = -a.prefetch_step;
      return;
    }
    const char* next = block_cols_ < cols_ ? Address(b, r0_, c0_ + bc_) : Address(b, r0_ + br_, c0_);
    a.prefetch = next + stream_offset_;
    stream_offset_ += br_ * bc_ * 4 / (4 * vector_bytes_) * a.prefetch_step;
    if (stream_offset_ >= br_ * bc_ * static_cast<int64_t>(SizeOf(b.dtype))) ++stream_, stream_offset_ = 0;
  }

  void RoundTo(const Instruction& in, const PassArgs& a) {
    constexpr int64_t kChunk = 256;
    alignas(64) char narrow[kChunk * 8], wide[kChunk * 8];
    const ComputeType t = p_.slots[in.dst].type;
    const int64_t size = size_of(t);
    for (int64_t r = 0; r < a.rows; ++r) {
      const char* src = static_cast<const char*>(a.src[0].data) + r * a.src[0].row_stride * size;
      char* dst = static_cast<char*>(a.dst) + r * a.dst_row_stride * size;
      for (int64_t c = 0; c < a.cols; c += kChunk) {
        const int64_t n = std::min(kChunk, a.cols - c);
        for (int64_t i = 0; i < n; ++i)
          std::memcpy(wide + i * size, src + (c + i) * a.src[0].step * size, size);
        StoreConvert(t, wide, in.round_to, narrow, 1, n);
        LoadConvert(in.round_to, narrow, 1, t, dst + c * size, n);
      }
    }
  }

  void StoreOutput(int o) {
    const BlockArg& a = args_[p_.num_inputs + o];
    const SlotId slot = p_.program.outputs[o];
    const SlotPlan& s = p_.slots[slot];
    const PassOperand& v = view_[slot];
    const int64_t size = size_of(s.type);
    if (p_.program.slots[slot].per_row) {  // declared so: the output has one value per row
      const char* src = static_cast<const char*>(v.data);
      char* dst = const_cast<char*>(Address(a, r0_, 0));
      if (v.row_stride == 1) return StoreConvert(s.type, src, a.dtype, dst, a.row_stride, br_);
      for (int64_t r = 0; r < br_; ++r) {
        StoreConvert(s.type, src + r * v.row_stride * size, a.dtype,
                     const_cast<char*>(Address(a, r0_ + r, 0)), 1, 1);
      }
      return;
    }
    if (v.step == 1 && a.row_stride == 1 && a.col_stride > 1 && a.dtype == DType::kF32 &&
        s.type == ComputeType::kF32) {
      return TransposeTile(static_cast<const float*>(v.data), v.row_stride,
                           reinterpret_cast<float*>(const_cast<char*>(Address(a, r0_, c0_))), a.col_stride,
                           bc_, br_);
    }
    const bool gapless = v.step == 1 && v.row_stride == bc_ && a.row_stride == bc_ * a.col_stride;
    const int64_t runs = gapless ? 1 : br_, length = gapless ? br_ * bc_ : bc_;
    for (int64_t r = 0; r < runs; ++r) {
      const char* src = static_cast<const char*>(v.data) + r * v.row_stride * size;
      char* dst = const_cast<char*>(Address(a, r0_ + r, c0_));
      if (v.step != 1) {
        for (int64_t c = 0; c < bc_; ++c)
          StoreConvert(s.type, src, a.dtype, const_cast<char*>(Address(a, r0_ + r, c0_ + c)), 1, 1);
      } else if (options_.stream && a.col_stride == 1 && IsHalf(a.dtype) && s.type == ComputeType::kF32) {
        StreamHalf(reinterpret_cast<const float*>(src), a.dtype, dst, length);
      } else {
        StoreConvert(s.type, src, a.dtype, dst, a.col_stride, length);
      }
    }
  }

  const CompiledProgram& p_;
  const int64_t rows_, cols_;
  const BlockArg* const args_;
  const ExecuteOptions& options_;
  const int tier_;
  PassFn narrow_ = nullptr;  // runs instead of the only pass
  const int64_t size_;       // scratch bytes per element
  bool flat_ = false;        // short rows: a block is one long row
  static constexpr int kMaxStreams = 8;
  int8_t streams_[kMaxStreams];  // inputs worth prefetching
  int num_streams_ = 0, lines_ = 1;
  int stream_ = 0;  // the input that the next pass prefetches, and how far it is done
  int64_t stream_offset_ = 0, vector_bytes_ = 16;
  int64_t block_rows_ = 1, block_cols_ = 1;
  int64_t r0_ = 0, c0_ = 0, br_ = 0, bc_ = 0;  // the current block
  Load load_[kMaxArgs];
  bool direct_[kMaxArgs];
  PassOperand view_[kNoSlot];
};

// Rows that follow each other without a gap in every argument are one long row.
bool RowsMerge(const CompiledProgram& p, int64_t cols, const BlockArg* args) {
  if (p.has_per_row) return false;
  for (int i = 0; i < p.num_inputs + p.num_outputs; ++i) {
    if (args[i].row_stride != cols * args[i].col_stride) return false;
  }
  return true;
}

// One activation from dense halves to halves of the same type.
bool ExecuteHalfUnary(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
                      const ExecuteOptions& options) {
  const Program& program = p.program;
  if (program.stages.size() != 1 || program.num_inputs != 1 || program.outputs.size() != 1) return false;
  const Stage& stage = program.stages[0];
  const BlockArg &x = args[0], &y = args[1];
  if (!HasHalfUnary(stage.op) || program.outputs[0] != stage.dst || !IsHalf(x.dtype) || y.dtype != x.dtype ||
      x.col_stride != 1 || y.col_stride != 1 || p.slots[0].type != ComputeType::kF32 || p.has_per_row)
    return false;
  HalfUnary a{stage.op, x.dtype, x.data, y.data, cols, options.stream};
  const auto size = static_cast<int64_t>(SizeOf(x.dtype));
  for (int64_t r = 0; r < rows; ++r) {
    RunHalfUnary(a);
    a.x = static_cast<const char*>(a.x) + x.row_stride * size;
    a.y = static_cast<char*>(a.y) + y.row_stride * size;
  }
  return true;
}

}  // namespace

void Execute(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
             const ExecuteOptions& options) {
  if (rows <= 0 || cols < 0 || (cols == 0 && !p.has_reduction)) return;
  assert(p.num_inputs + p.num_outputs <= kMaxArgs);
  if (options.use_templates && ExecuteRowTemplate(p, rows, cols, args, options)) return;
  const bool merge = rows > 1 && RowsMerge(p, cols, args);
  if (options.use_templates &&
      (ExecuteHalfUnary(p, merge ? 1 : rows, merge ? rows * cols : cols, args, options) ||
       ExecuteByteSum(p, merge ? 1 : rows, merge ? rows * cols : cols, args)))
    return;
  if (merge) {
    Interpreter(p, 1, rows * cols, args, options).Run();
  } else {
    Interpreter(p, rows, cols, args, options).Run();
  }
}

void RunBlock(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args) {
  Execute(p, rows, cols, args, {});
}

}  // namespace opsnn::vector
