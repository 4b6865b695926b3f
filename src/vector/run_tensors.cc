// Whole operators: canonical dims, work for the threads, streaming stores for big results.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "base/buffer.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "isa/caches.h"
#include "vector/compiled.h"
#include "vector/pass_tables.h"
#include "vector/scratch_failures.h"
#include "vector/sharing.h"
#include "vector/streaming.h"

namespace opsnn::vector {
namespace {

constexpr int kMaxArgs = 64;

// The iteration space: dims outermost first, with the stride of every argument in each.
struct Space {
  int rank = 0;
  int num_args = 0;
  int64_t size[kMaxRank];
  int64_t stride[kMaxArgs][kMaxRank];

  void CopyDim(int from, int to) {
    size[to] = size[from];
    for (int a = 0; a < num_args; ++a) stride[a][to] = stride[a][from];
  }
  bool Mergeable(int outer, int inner) const {
    for (int a = 0; a < num_args; ++a) {
      if (stride[a][outer] != stride[a][inner] * size[inner]) return false;
    }
    return true;
  }
  // Drops dims of size 1, orders the rest by the stride of argument `by`, merges neighbours.
  void Canonicalise(int by) {
    int n = 0;
    for (int i = 0; i < rank; ++i) {
      if (size[i] != 1) CopyDim(i, n++);
    }
    rank = n;
    for (int i = 1; i < rank; ++i) {  // insertion sort: few dims, nearly always in order
      for (int j = i; j > 0 && stride[by][j - 1] < stride[by][j] && stride[by][j - 1] != 0; --j) {
        std::swap(size[j - 1], size[j]);
        for (int a = 0; a < num_args; ++a) std::swap(stride[a][j - 1], stride[a][j]);
      }
    }
    for (int i = rank - 2; i >= 0; --i) {
      if (!Mergeable(i, i + 1)) continue;
      size[i + 1] *= size[i];
      for (int j = i; j + 1 < rank; ++j) CopyDim(j + 1, j);
      --rank;
    }
  }
};

// Strides of v under dims of rank `rank`, aligned at the right; 0 where v repeats.
void BroadcastStrides(const TensorView& v, int rank, const int64_t* dims, int64_t* out) {
  const int pad = rank - v.rank();
  for (int i = 0; i < rank; ++i) {
    const int j = i - pad;
    out[i] = j < 0 || (v.dims[j] == 1 && dims[i] != 1) ? 0 : v.strides[j];
  }
}

// As many as there can be, not initialised: that would take as long as a small call.
class Arguments {
 public:
  BlockArg* data() { return reinterpret_cast<BlockArg*>(bytes_); }
  BlockArg& operator[](int i) { return data()[i]; }
  const BlockArg& operator[](int i) const { return reinterpret_cast<const BlockArg*>(bytes_)[i]; }

 private:
  alignas(BlockArg) std::byte bytes_[kMaxArgs * sizeof(BlockArg)];
};

// One call: the arguments with their addresses, a two-dimensional inner space and the dims outside it.
struct Job {
  const CompiledProgram* p;
  Space outer;  // dims outside rows x cols
  int64_t rows = 1, cols = 1;
  Arguments args;  // at index 0 of every outer dim
  int num_args = 0;
  ExecuteOptions options;

  int64_t OuterSize() const {
    int64_t n = 1;
    for (int i = 0; i < outer.rank; ++i) n *= outer.size[i];
    return n;
  }
  int64_t BytesPerElement() const {
    int64_t bytes = 0;
    for (int a = 0; a < num_args; ++a) {
      if (args[a].col_stride != 0) bytes += static_cast<int64_t>(SizeOf(args[a].dtype));
    }
    return std::max<int64_t>(bytes, 1);
  }
  // Rows [r, r + nr) and columns [c, c + nc) of outer index `index`.
  void Run(int64_t index, int64_t r, int64_t nr, int64_t c, int64_t nc) const {
    int64_t offset[kMaxArgs];
    for (int a = 0; a < num_args; ++a) offset[a] = r * args[a].row_stride + c * args[a].col_stride;
    for (int i = outer.rank - 1; i >= 0; --i) {
      const int64_t at = index % outer.size[i];
      index /= outer.size[i];
      for (int a = 0; a < num_args; ++a) offset[a] += at * outer.stride[a][i];
    }
    Arguments here;
    for (int a = 0; a < num_args; ++a) {
      here[a] = args[a];
      here[a].data =
          static_cast<char*>(args[a].data) + offset[a] * static_cast<int64_t>(SizeOf(args[a].dtype));
    }
    Execute(*p, nr, nc, here.data(), options);
  }
  void RunAll() const;
};

// Work is cut into column pieces of long rows or into groups of whole rows, over all outer indices.
void Job::RunAll() const {
  const int64_t n_outer = OuterSize();
  const int64_t total = n_outer * rows * cols * BytesPerElement();
  if (n_outer == 0) return;
  const int threads = ThreadsFor(static_cast<double>(total),
                                 p->program.CostPerElement() * static_cast<double>(n_outer * rows * cols));
  // Four tasks a thread level out differences in speed; more would only cost overhead. Where a thread's share
  // stays in its own cache it is one task: others that help with it would take its lines away for the next
  // call.
  const int64_t share = (total + threads - 1) / threads;
  const bool stays = 2 * share <= isa::HostCaches().l2;
  const int64_t task =
      stays ? std::max(kMinTaskBytes, share) : std::max(kMinTaskBytes, total / (threads * 4));
  const int64_t row_bytes = std::max<int64_t>(cols * BytesPerElement(), 1);
  int64_t rows_per_task = rows, cols_per_task = cols;
  if (threads > 1 && !p->has_reduction && row_bytes > (stays ? task : 2 * task)) {
    rows_per_task = 1;
    cols_per_task = (task / BytesPerElement() + 63) / 64 * 64;
  } else if (threads > 1) {
    rows_per_task =
        std::clamp<int64_t>(stays ? (task + row_bytes - 1) / row_bytes : task / row_bytes, 1, rows);
  }
  const int64_t row_tasks = (rows + rows_per_task - 1) / std::max<int64_t>(rows_per_task, 1);
  const int64_t col_tasks = cols == 0 ? 1 : (cols + cols_per_task - 1) / cols_per_task;
  const int64_t pieces = row_tasks * col_tasks;
  // Small outer pieces are grouped as well.
  const int64_t piece_bytes = std::max<int64_t>(1, rows_per_task * cols_per_task * BytesPerElement());
  const int64_t group = threads == 1 ? n_outer * pieces : std::max<int64_t>(1, task / piece_bytes);
  const int64_t tasks = (n_outer * pieces + group - 1) / group;
  auto run_group = [&](int64_t t) {
    for (int64_t i = t * group; i < std::min(n_outer * pieces, (t + 1) * group); ++i) {
      const int64_t piece = i % pieces, r = piece / col_tasks * rows_per_task,
                    c = piece % col_tasks * cols_per_task;
      Run(i / pieces, r, std::min(rows_per_task, rows - r), c, std::min(cols_per_task, cols - c));
    }
    if (options.stream) FlushStreams();
  };
  if (tasks == 1) return run_group(0);
  ParallelOwned(tasks, run_group);
}

// Streaming stores pay when the result would push itself out of the caches, and only where no line of it was
// read just before (in place).
bool ShouldStream(const Job& job, int num_inputs) {
  int64_t bytes = 0;
  for (int a = num_inputs; a < job.num_args; ++a) {
    if (job.args[a].col_stride != 1) continue;
    bytes += job.OuterSize() * job.rows * job.cols * static_cast<int64_t>(SizeOf(job.args[a].dtype));
    for (int i = 0; i < num_inputs; ++i) {
      if (job.args[i].data == job.args[a].data) return false;
    }
  }
  return std::max(bytes, PartOfResult::Bytes()) >= StreamingThreshold();
}

void FillJob(Job& job, std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  int a = 0;
  for (const TensorView& v : inputs) job.args[a++] = {v.data, v.dtype, 0, 0};
  for (const TensorView& v : outputs) job.args[a++] = {v.data, v.dtype, 0, 0};
  job.num_args = job.outer.num_args = a;
}

// The innermost dim of `space` becomes the columns, the next the rows, what remains is outside.
void SplitPointwise(Job& job) {
  Space& s = job.outer;
  for (int64_t* inner : {&job.cols, &job.rows}) {
    *inner = 1;
    if (s.rank == 0) continue;
    --s.rank;
    *inner = s.size[s.rank];
    for (int a = 0; a < s.num_args; ++a) {
      (inner == &job.cols ? job.args[a].col_stride : job.args[a].row_stride) = s.stride[a][s.rank];
    }
  }
}

void RunPointwise(const CompiledProgram& p, std::span<const TensorView> inputs,
                  std::span<const TensorView> outputs) {
  Job job;
  job.p = &p;
  FillJob(job, inputs, outputs);
  const Dims& dims = outputs[0].dims;
  Space& s = job.outer;
  s.rank = dims.rank();
  for (int i = 0; i < s.rank; ++i) {
    if (dims[i] == 0) return;
    s.size[i] = dims[i];
  }
  int a = 0;
  for (const TensorView& v : inputs) BroadcastStrides(v, s.rank, s.size, s.stride[a++]);
  for (const TensorView& v : outputs) BroadcastStrides(v, s.rank, s.size, s.stride[a++]);
  s.Canonicalise(static_cast<int>(inputs.size()));
  SplitPointwise(job);
  job.options.stream = ShouldStream(job, p.num_inputs);
  job.RunAll();
}

// Row programs.

// Strides of an argument over the leading dims; per-row arguments may come with or without the row dims.
void LeadingStrides(const TensorView& v, int rank, int lead, const int64_t* dims, bool per_row,
                    int64_t* out) {
  int64_t all[kMaxRank];
  if (per_row && v.rank() == lead && lead != rank) {
    for (int i = 0; i < lead; ++i) all[i] = v.dims[i] == 1 && dims[i] != 1 ? 0 : v.strides[i];
  } else {
    BroadcastStrides(v, rank, dims, all);
  }
  std::copy(all, all + lead, out);
}

// The stride between neighbours of a row, if the row's dims are one run; false if they are not.
bool RowStride(const TensorView& v, int rank, int lead, const int64_t* dims, int64_t& stride) {
  int64_t all[kMaxRank];
  BroadcastStrides(v, rank, dims, all);
  stride = 0;
  int64_t run = 1;
  bool first = true;
  for (int i = rank - 1; i >= lead; --i) {
    if (dims[i] == 1) continue;
    if (first)
      stride = all[i], first = false;
    else if (all[i] != stride * run)
      return false;
    run *= dims[i];
  }
  return true;
}

struct RowShape {
  int rank = 0, lead = 0;
  int64_t dims[kMaxRank];
  int64_t cols = 1;
};
RowShape RowShapeOf(const CompiledProgram& p, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs, int row_rank) {
  RowShape s;
  auto merge = [&s](const TensorView& v) {  // numpy broadcasting of what takes part in full
    const int rank = std::max(s.rank, v.rank());
    int64_t dims[kMaxRank];
    for (int i = 0; i < rank; ++i) {
      const int a = i - (rank - s.rank), b = i - (rank - v.rank());
      const int64_t x = a < 0 ? 1 : s.dims[a], y = b < 0 ? 1 : v.dims[b];
      dims[i] = x == 1 ? y : x;
    }
    s.rank = rank;
    std::copy(dims, dims + rank, s.dims);
  };
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!p.program.slots[p.program.outputs[o]].per_row) merge(outputs[o]);
  }
  if (s.rank == 0) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!p.slots[i].per_row) merge(inputs[i]);
    }
  }
  s.lead = std::max(0, s.rank - row_rank);
  for (int i = s.lead; i < s.rank; ++i) s.cols *= s.dims[i];
  return s;
}

// Rows whose dims are not one run go through a contiguous copy. `v` as wide as the row in the row's dims.
TensorView ExpandRow(const TensorView& v, const RowShape& shape) {
  TensorView e = v;
  e.dims = Dims::Filled(shape.rank, 1);
  e.strides = Dims::Filled(shape.rank, 0);
  BroadcastStrides(v, shape.rank, shape.dims, e.strides.begin());
  for (int i = 0; i < shape.rank; ++i) {
    const int j = i - (shape.rank - v.rank());
    e.dims[i] = i >= shape.lead ? shape.dims[i] : j < 0 ? 1 : v.dims[j];
  }
  return e;
}
TensorView Contiguous(const TensorView& v, AlignedBuffer& memory) {
  memory = AlignedBuffer(std::max<size_t>(v.bytes(), 1));
  return TensorView::Contiguous(memory.data(), v.dtype, v.dims);
}

// Where rows without elements lie, whatever address the caller gave: passes look at the first element of a
// row before they count.
alignas(64) char g_empty_row[4 * 64] = {};

void RunRows(const CompiledProgram& p, std::span<const TensorView> inputs,
             std::span<const TensorView> outputs, int row_rank) {
  const RowShape shape = RowShapeOf(p, inputs, outputs, row_rank);
  Job job;
  job.p = &p;
  FillJob(job, inputs, outputs);
  std::vector<AlignedBuffer> copies;
  std::vector<std::pair<TensorView, TensorView>> copy_back;
  Space& s = job.outer;
  s.rank = shape.lead;
  std::copy(shape.dims, shape.dims + shape.lead, s.size);
  job.cols = shape.cols;
  const int num_inputs = static_cast<int>(inputs.size());
  for (int a = 0; a < job.num_args; ++a) {
    const bool is_input = a < num_inputs;
    TensorView v = is_input ? inputs[a] : outputs[a - num_inputs];
    if (NumElements(v.dims) == 0) {
      job.args[a].data = g_empty_row;
      std::fill_n(s.stride[a], shape.lead, 0);
      continue;
    }
    const bool per_row =
        is_input ? p.slots[a].per_row : p.program.slots[p.program.outputs[a - num_inputs]].per_row;
    if (!per_row && !RowStride(v, shape.rank, shape.lead, shape.dims, job.args[a].col_stride)) {
      const TensorView original = ExpandRow(v, shape);
      v = Contiguous(original, copies.emplace_back());
      if (v.data == nullptr) return NoteScratchFailure();
      if (is_input)
        CopyConvert(original, v);
      else
        copy_back.emplace_back(v, original);
      job.args[a].data = v.data;
      RowStride(v, shape.rank, shape.lead, shape.dims, job.args[a].col_stride);
    }
    LeadingStrides(v, shape.rank, shape.lead, shape.dims, per_row, s.stride[a]);
  }
  for (int i = 0; i < s.rank; ++i) {
    if (s.size[i] == 0) return;
  }
  s.Canonicalise(num_inputs);
  if (s.rank > 0) {
    --s.rank;
    job.rows = s.size[s.rank];
    for (int a = 0; a < s.num_args; ++a) job.args[a].row_stride = s.stride[a][s.rank];
  }
  job.options.stream = ShouldStream(job, num_inputs);
  job.RunAll();
  for (const auto& [from, to] : copy_back) CopyConvert(from, to);
}

}  // namespace

void RunTensors(const CompiledProgram& p, std::span<const TensorView> inputs,
                std::span<const TensorView> outputs, int row_rank) {
  assert(static_cast<int>(inputs.size()) == p.num_inputs &&
         static_cast<int>(outputs.size()) == p.num_outputs);
  if (row_rank == 0 && !p.has_reduction) {
    RunPointwise(p, inputs, outputs);
  } else {
    RunRows(p, inputs, outputs, row_rank);
  }
}

namespace {

template <typename T>
void CopyElements(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t n) {
  const T* f = reinterpret_cast<const T*>(from);
  T* t = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) t[i * to_stride] = f[i * from_stride];
}

// Same type: bits are moved, whatever they mean.
void CopyBits(const TensorView& from, const TensorView& to) {
  Job job;
  FillJob(job, std::span(&from, 1), std::span(&to, 1));
  Space& s = job.outer;
  s.rank = to.rank();
  for (int i = 0; i < s.rank; ++i) {
    if (to.dims[i] == 0) return;
    s.size[i] = to.dims[i];
  }
  BroadcastStrides(from, s.rank, s.size, s.stride[0]);
  BroadcastStrides(to, s.rank, s.size, s.stride[1]);
  s.Canonicalise(1);
  SplitPointwise(job);
  const int64_t size = static_cast<int64_t>(SizeOf(from.dtype)), outer = job.OuterSize();
  const BlockArg &a = job.args[0], &b = job.args[1];
  auto run = [&](int64_t index, int) {
    int64_t rest = index, from_at = 0, to_at = 0;
    for (int i = s.rank - 1; i >= 0; --i) {
      from_at += rest % s.size[i] * s.stride[0][i], to_at += rest % s.size[i] * s.stride[1][i];
      rest /= s.size[i];
    }
    for (int64_t r = 0; r < job.rows; ++r) {
      const char* f = static_cast<const char*>(a.data) + (from_at + r * a.row_stride) * size;
      char* t = static_cast<char*>(b.data) + (to_at + r * b.row_stride) * size;
      if (a.col_stride == 1 && b.col_stride == 1)
        std::memcpy(t, f, static_cast<size_t>(job.cols * size));
      else if (size == 1)
        CopyElements<uint8_t>(f, a.col_stride, t, b.col_stride, job.cols);
      else if (size == 2)
        CopyElements<uint16_t>(f, a.col_stride, t, b.col_stride, job.cols);
      else if (size == 4)
        CopyElements<uint32_t>(f, a.col_stride, t, b.col_stride, job.cols);
      else
        CopyElements<uint64_t>(f, a.col_stride, t, b.col_stride, job.cols);
    }
  };
  const bool worth_threads = outer > 1 && outer * job.rows * job.cols * size > 4 * kMinTaskBytes;
  if (worth_threads) return ParallelFor(outer, run);
  for (int64_t i = 0; i < outer; ++i) run(i, 0);
}

}  // namespace

void CopyConvert(const TensorView& from, const TensorView& to) {
  // f32 has the passes with prefetch and streaming stores; they move bits, too.
  if (from.dtype == to.dtype && from.dtype != DType::kF32) return CopyBits(from, to);
  auto compile = [](ComputeType type) {
    ProgramBuilder b;
    b.Output(b.Unary(StageOp::kCopy, b.Input(type)));
    return Compile(std::move(b).Build()).value();
  };
  static const std::shared_ptr<const CompiledProgram> kCopies[] = {
      compile(ComputeType::kF32), compile(ComputeType::kF64), compile(ComputeType::kS32),
      compile(ComputeType::kS64)};
  // Integers stay integers; between floats and integers the float side computes, so that nothing wraps
  // unseen.
  const ComputeType a = ComputeTypeOf(from.dtype), b = ComputeTypeOf(to.dtype);
  const ComputeType type = a == ComputeType::kS32 && b == ComputeType::kF64 ? b : a;
  RunTensors(*kCopies[static_cast<int>(type)], std::span(&from, 1), std::span(&to, 1));
}

}  // namespace opsnn::vector
