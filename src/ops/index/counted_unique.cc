#include "kernels/gather/compact.h"
#include "kernels/gather/sort_keys.h"
#include "ops/index/counted.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CountedUnique";

// X as (outer, n, inner), of which the n slices are compared; flattened: (1, elements, 1).
struct Slices {
  int64_t outer = 1, n = 1, inner = 1;
  int64_t length() const { return outer * inner; }
};

Result<Slices> SlicesOf(const op::Attrs* attrs, const Dims& x, int* axis) {
  Slices s;
  *axis = -1;
  if (!op::AttrsOf(attrs).Has("axis")) {
    s.n = NumElements(x);
    return s;
  }
  OPSNN_ASSIGN_OR_RETURN(*axis,
                         NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), x.rank()));
  s.n = x[*axis];
  for (int i = 0; i < *axis; ++i) s.outer *= x[i];
  for (int i = *axis + 1; i < x.rank(); ++i) s.inner *= x[i];
  return s;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  int axis = 0;
  OPSNN_ASSIGN_OR_RETURN(const Slices s, SlicesOf(c.attrs, x.dims, &axis));
  const int64_t room = RoomOf(c.attrs);
  Dims y = {room};
  if (axis >= 0) y = x.dims, y[axis] = room;
  c.outputs = {Desc(x.dtype, y), Desc(DType::kS64, {}), Desc(DType::kS64, axis < 0 ? x.dims : Dims{s.n}),
               Desc(DType::kS64, {room})};
  c.outputs.resize(static_cast<size_t>(std::max(c.num_outputs, 2)));
  return OkStatus();
}

// Words of 8 bytes: the keys, what FindUnique needs, the first slice of every group.
struct Scratch {
  int64_t keys, find, first;
  int64_t total() const { return keys + find + first; }
};

// keys (n, length) from x (outer, n, inner).
void KeysOfSlices(const Slices& s, const void* x, DType t, uint64_t* keys) {
  if (s.outer == 1) return kernels::SortKeys(x, t, s.n * s.inner, keys);
  const auto step = s.inner * static_cast<int64_t>(SizeOf(t));
  ParallelFor(s.n, [&](int64_t i, int) {
    for (int64_t o = 0; o < s.outer; ++o) {
      kernels::SortKeys(static_cast<const char*>(x) + (o * s.n + i) * step, t, s.inner,
                        keys + i * s.length() + o * s.inner);
    }
  });
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  int axis = 0;
  OPSNN_ASSIGN_OR_RETURN(const Slices s, SlicesOf(c.attrs, x.dims, &axis));
  const Scratch scratch = {s.n * s.length(), kernels::UniqueScratch(s.n), s.n};
  const int64_t room = std::min(RoomOf(c.attrs), s.n);
  const bool inverse = c.outputs.size() > 2, counts = c.outputs.size() > 3;
  const auto run = [=, dtype = x.dtype, given = RoomOf(c.attrs),
                    consecutive =
                        op::AttrsOf(c.attrs).Int("consecutive", 0) != 0](const op::RunArgs& args) -> Status {
    auto* words = static_cast<int64_t*>(args.workspace);
    auto* keys = reinterpret_cast<uint64_t*>(words);
    KeysOfSlices(s, args.inputs[0], dtype, keys);
    kernels::UniqueParams p;
    p.n = s.n, p.length = s.length(), p.keys = keys;
    p.consecutive = consecutive, p.room = room;
    p.first = words + scratch.keys + scratch.find;
    p.inverse = inverse ? static_cast<int64_t*>(args.outputs[2]) : nullptr;
    p.counts = counts ? static_cast<int64_t*>(args.outputs[3]) : nullptr;
    const int64_t groups = kernels::FindUnique(p, words + scratch.keys);
    if (groups > room) return NoRoom(kOp, groups, given);
    char* to = static_cast<char*>(args.outputs[0]);
    ClearStrided(y, to);
    const auto bytes = static_cast<size_t>(s.inner) * SizeOf(dtype);
    const int64_t row = y.IsContiguous() ? groups : given, step = static_cast<int64_t>(bytes);
    ParallelFor(s.outer * kernels::CompactChunks(groups), [&](int64_t task, int) {
      const int64_t o = task % s.outer, begin = task / s.outer * kernels::kCompactChunk;
      for (int64_t g = begin; g < std::min(groups, begin + kernels::kCompactChunk); ++g) {
        std::memcpy(to + (o * row + g) * step,
                    static_cast<const char*>(args.inputs[0]) + (o * s.n + p.first[g]) * step, bytes);
      }
    });
    *static_cast<int64_t*>(args.outputs[1]) = groups;
    return OkStatus();
  };
  return Staged(c, MakeKernel("sort", run, static_cast<size_t>(scratch.total()) * sizeof(int64_t)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CountedUnique) {
  def.infer = Infer;
  def.plan = Plan;
}
