#include "vector/flat.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/work_range.h"
#include "isa/caches.h"
#include "isa/tier.h"
#include "vector/compiled.h"
#include "vector/convert.h"
#include "vector/pass_tables.h"
#include "vector/sharing.h"
#include "vector/streaming.h"

namespace opsnn::vector {
namespace {

constexpr int64_t kBeyondL1 = 256 << 10;  // bytes that no L1 holds

// Does the one instruction of the program read its inputs and write its output where they are?
bool IsOnePass(const CompiledProgram& p, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs) {
  if (p.code.size() != 1 || outputs.size() != 1) return false;
  const Instruction& in = p.code[0];
  const SlotId out = p.program.outputs[0];
  if (in.kind != Instruction::Kind::kPass || in.per_row || in.dst != out || in.reduced != kNoSlot)
    return false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!SameRepresentation(inputs[i].dtype, p.slots[i].type)) return false;
  return SameRepresentation(outputs[0].dtype, p.slots[out].type);
}

bool Repeats(const TensorView& v) {
  return std::all_of(v.strides.begin(), v.strides.end(), [](int64_t s) { return s == 0; });
}

}  // namespace

FlatRun::FlatRun(const CompiledProgram& p, std::span<const TensorView> inputs,
                 std::span<const TensorView> outputs) {
  if (p.has_reduction || p.has_per_row || inputs.size() + outputs.size() > kMaxArgs || outputs.empty())
    return;
  const int64_t n = outputs[0].size();
  for (const TensorView& v : inputs) {
    const bool repeats = n > 1 && Repeats(v);
    if (!repeats && (v.size() != n || !v.IsContiguous())) return;
    types_[num_args_] = v.dtype;
    sizes_[num_args_++] = repeats ? 0 : static_cast<int64_t>(SizeOf(v.dtype));
  }
  num_inputs_ = num_args_;
  for (const TensorView& v : outputs) {
    if (v.size() != n || !v.IsContiguous()) return;
    types_[num_args_] = v.dtype;
    sizes_[num_args_++] = static_cast<int64_t>(SizeOf(v.dtype));
    result_bytes_ += n * sizes_[num_args_ - 1];
  }
  for (const int64_t size : sizes_) bytes_ += n * size;
  cost_ = p.program.CostPerElement() * static_cast<double>(n);
  one_pass_ = IsOnePass(p, inputs, outputs);
  n_ = n;
}

void FlatRun::OnePass(const CompiledProgram& p, void* const* data, int64_t begin, int64_t end,
                      bool stream) const {
  const Instruction& in = p.code[0];
  PassArgs a;
  a.rows = 1, a.cols = end - begin;
  a.imm = in.imm, a.imm64 = in.imm64;
  bool all_walk = true;
  for (int k = 0; k < in.num_src; ++k) {
    const SlotPlan& s = p.slots[in.src[k]];
    if (s.is_const) {
      a.src[k] = {s.value, 0, 0};
    } else {
      const int64_t size = sizes_[in.src[k]];
      a.src[k] = {static_cast<const char*>(data[in.src[k]]) + begin * size, 0, size != 0};
    }
    all_walk = all_walk && a.src[k].step == 1 && s.type == ComputeType::kF32;
  }
  a.dst = static_cast<char*>(data[num_inputs_]) + begin * sizes_[num_inputs_];
  a.stream = stream;
  const int64_t bytes = (end - begin) * sizes_[num_inputs_];
  a.fetch_dst = !stream && bytes >= kBeyondL1;
  // The first operand is asked for ahead, four lines a group of four vectors at most.
  constexpr int64_t kAhead = 2048;
  a.prefetch = static_cast<const char*>(in.num_src > 0 ? a.src[0].data : a.dst);
  if (in.num_src > 0 && a.src[0].step == 1) {
    const int64_t vector_bytes = int64_t{16} << static_cast<int>(isa::ActiveTier());
    a.prefetch += kAhead, a.prefetch_step = std::clamp<int64_t>(4 * vector_bytes, 64, 256);
  }
  PassFn fn = nullptr;
  if (all_walk && in.num_src > 0 && p.program.stages.size() == 1) {
    if (stream) {
      fn = FindStreamPass(p.program.stages[0].op);
    } else if ((end - begin) * (bytes_ / n_) >= kBeyondL1) {
      fn = FindNarrowPass(p.program.stages[0].op);
    }
  }
  (fn ? fn : in.fn[static_cast<int>(isa::ActiveTier())])(a);
}

void FlatRun::Piece(const CompiledProgram& p, void* const* data, int64_t begin, int64_t end,
                    bool stream) const {
  if (one_pass_) {
    OnePass(p, data, begin, end, stream);
  } else {
    BlockArg args[kMaxArgs];
    for (int i = 0; i < num_args_; ++i)
      args[i] = {static_cast<char*>(data[i]) + begin * sizes_[i], types_[i], 0, sizes_[i] != 0};
    Execute(p, 1, end - begin, args, {.stream = stream});
  }
  if (stream) FlushStreams();
}

void FlatRun::Run(const CompiledProgram& p, void* const* data) const {
  bool stream = std::max(result_bytes_, PartOfResult::Bytes()) >= StreamingThreshold();
  for (int i = 0; stream && i < num_inputs_; ++i)  // in place, its lines were read just before
    for (int o = num_inputs_; o < num_args_; ++o) stream = stream && data[i] != data[o];
  const int threads = ThreadsFor(static_cast<double>(bytes_), cost_);
  if (threads == 1) return Piece(p, data, 0, n_, stream);
  // Whole lines of any type.
  constexpr int64_t kGrain = 64;
  const int64_t share = bytes_ / threads;
  if (2 * share <= isa::HostCaches().l2) {
    // Each thread finds its part again in its own cache, so nobody helps anybody.
    const int64_t each = RoundUp((n_ + threads - 1) / threads, kGrain);
    const int parts = static_cast<int>((n_ + each - 1) / each);
    return ParallelParts(parts,
                         [&](int64_t t) { Piece(p, data, t * each, std::min((t + 1) * each, n_), stream); });
  }
  const int64_t task = std::max(kMinTaskBytes, share / 4);  // levels out differences in speed
  const int64_t each = RoundUp(std::max<int64_t>(task / (bytes_ / n_), 1), kGrain);
  ParallelOwned((n_ + each - 1) / each,
                [&](int64_t t) { Piece(p, data, t * each, std::min((t + 1) * each, n_), stream); });
}

}  // namespace opsnn::vector
