// The small C API of opsnn/ops_nn.h.
#include "opsnn/ops_nn.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "base/buffer.h"
#include "base/caught.h"
#include "base/knobs.h"
#include "base/log.h"
#include "capi/judge_tail.h"
#include "device/profile.h"
#include "op/operator.h"
#include "plan/plan_cache.h"
#include "plan/tiling.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

thread_local std::string last_error;

int Fail(const std::string& message) {
  last_error = message;
  return -1;
}

// Runs body(), which gives a Status; nothing passes the C boundary but 0 and -1.
template <typename F>
int Guarded(const char* function, F&& body) noexcept {
  try {
    last_error.clear();
    const Status s = body();
    return s.ok() ? 0 : Fail(std::string(function) + ": " + s.message());
  } catch (const std::exception&) {
    try {
      return Fail(std::string(function) + ": " + CaughtStatus().message());
    } catch (const std::exception&) {
      return -1;
    }
  }
}

Result<device::DeviceProfile> ChosenProfile() {
  OPSNN_RETURN_IF_ERROR(InitKnobs());
  // Capacities and tiles need no measured rates, and must not depend on them.
  if (GetKnobs().profile == "host") return device::HostProfileUnmeasured();
  return device::FindProfile(GetKnobs().profile);
}

int ToInt(double v) { return static_cast<int>(std::min(v, static_cast<double>(INT_MAX))); }

Status CheckSizes(std::initializer_list<std::pair<const char*, int>> sizes) {
  for (const auto& [name, value] : sizes) {
    if (value < 0) return InvalidArgument("%s is %d; allowed: 0 or more", name, value);
  }
  return OkStatus();
}

Status CheckPointers(std::initializer_list<std::pair<const char*, const void*>> pointers) {
  for (const auto& [name, p] : pointers) {
    if (!p) return Errorf(Code::kNull, "%s is null", name);
  }
  return OkStatus();
}

struct Floats {
  const char* name;
  const float* data;
  int rows, cols;
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const { return begin() + sizeof(float) * static_cast<uintptr_t>(rows) * cols; }
};

// Processors address 2^57 bytes at most: sizes beyond that are a mistake, not memory.
constexpr uint64_t kMostBytes = uint64_t{1} << 57;
Status CheckExtent(const Floats& x) {
  const uint64_t floats = static_cast<uint64_t>(x.rows) * static_cast<uint64_t>(x.cols);
  if (floats <= kMostBytes / sizeof(float)) return OkStatus();
  return InvalidArgument("%s has %dx%d floats; allowed: at most %llu bytes in all", x.name, x.rows, x.cols,
                         static_cast<unsigned long long>(kMostBytes));
}

// An output may be an input, but not meet it partly.
Status CheckApart(const Floats& in, const Floats& out) {
  OPSNN_RETURN_IF_ERROR(CheckExtent(in));
  OPSNN_RETURN_IF_ERROR(CheckExtent(out));
  if (in.begin() == in.end() || out.begin() == out.end()) return OkStatus();
  if (in.begin() >= out.end() || out.begin() >= in.end()) return OkStatus();
  if (in.begin() == out.begin() && in.end() == out.end()) return OkStatus();
  return InvalidArgument(
      "%s (%dx%d floats at %p) overlaps %s (%dx%d floats at %p) partly; allowed: one memory, or none in "
      "common",
      out.name, out.rows, out.cols, static_cast<const void*>(out.data), in.name, in.rows, in.cols,
      static_cast<const void*>(in.data));
}

enum class Kind : uint64_t { kMatmul, kMatmulRelu, kRelu };
struct Key {
  static constexpr int kWords = 4;
  uint64_t w[kWords];
  const uint64_t* words() const { return w; }
  friend bool operator==(const Key& a, const Key& b) { return std::memcmp(a.w, b.w, sizeof(a.w)) == 0; }
};
struct Planned {
  op::KernelPtr kernel, then;  // then: relu on the product where it runs apart; else null
};

op::TensorDesc Matrix(int64_t rows, int64_t cols) {
  op::TensorDesc d;
  d.dims = {rows, cols};
  return d;
}

bool JudgedFused(int m, int n, int k) {
  ProgramBuilder relu;
  relu.Output(relu.Unary(StageOp::kRelu, relu.Input()));
  const Program tail = std::move(relu).Build();
  plan::ContractionEdge e;
  e.m = m, e.n = n, e.k = k;
  e.tail = &tail;
  return plan::Fuses(*JudgeProduct("ops_nn_fused_matmul_relu", e));
}

Result<op::KernelPtr> MakeKernel(Kind kind, int m, int n, int k) {
  const op::OpDef* def = op::FindOperator(kind == Kind::kRelu ? "Relu" : "MatMul");
  if (!def) return Errorf(Code::kNotImplemented, "the operator is not part of this build");
  const op::TensorDesc a = kind == Kind::kRelu ? Matrix(m, n) : Matrix(m, k), b = Matrix(k, n),
                       c = Matrix(m, n);
  const op::TensorDesc* inputs[] = {&a, &b};
  op::Attrs attrs;
  op::FusedTail tail;
  op::PlanContext p;
  p.inputs = op::InputDescs(inputs, kind == Kind::kRelu ? 1 : 2);
  p.outputs = {&c, 1};
  p.attrs = &attrs;
  if (kind == Kind::kMatmulRelu) {
    if (!def->takes_tail)
      return Errorf(Code::kNotImplemented, "MatMul takes no fused operators in this build");
    ProgramBuilder builder;
    builder.Output(builder.Unary(StageOp::kRelu, builder.Input()));
    tail.program = std::move(builder).Build();
    p.tail = &tail;
  }
  return op::Plan(*def, p);
}

Status Run(Kind kind, const float* a, const float* b, float* c, int m, int n, int k) {
  // Never destroyed: other threads may still call while static objects go.
  static auto* cache = new plan::PlanCache<Key, Planned>;
  constexpr int64_t kBytesPerPlan = 4096;
  if (m == 0 || n == 0) return OkStatus();
  const Knobs& knobs = GetKnobs();
  const Key key{{static_cast<uint64_t>(kind) | static_cast<uint64_t>(knobs.fusion) << 8 |
                     static_cast<uint64_t>(knobs.product) << 16,
                 static_cast<uint64_t>(m), static_cast<uint64_t>(n), static_cast<uint64_t>(k)}};
  std::shared_ptr<const Planned> planned = cache->Find(key);
  if (!planned) {
    Planned made;
    const bool apart = kind == Kind::kMatmulRelu && !JudgedFused(m, n, k);
    OPSNN_ASSIGN_OR_RETURN(made.kernel, MakeKernel(apart ? Kind::kMatmul : kind, m, n, k));
    if (apart) {
      OPSNN_ASSIGN_OR_RETURN(made.then, MakeKernel(Kind::kRelu, m, n, 0));
    }
    planned =
        cache->Insert(key, std::make_shared<Planned>(std::move(made)), kBytesPerPlan, knobs.plan_cache_bytes);
  }
  size_t bytes = planned->kernel->workspace_bytes();
  if (planned->then) bytes = std::max(bytes, planned->then->workspace_bytes());
  AlignedBuffer workspace;
  if (bytes) {
    workspace = AlignedBuffer(bytes);
    if (!workspace) return Errorf(Code::kRuntime, "cannot allocate %zu bytes of workspace", bytes);
  }
  void* inputs[] = {const_cast<float*>(a), const_cast<float*>(b)};
  void* outputs[] = {c};
  op::RunArgs args;
  args.inputs = inputs;
  args.outputs = outputs;
  args.workspace = workspace.data();
  OPSNN_RETURN_IF_ERROR(planned->kernel->Run(args));
  if (!planned->then) return OkStatus();
  inputs[0] = c;
  return planned->then->Run(args);
}

Status Matmul(Kind kind, const float* a, const float* b, float* c, int m, int n, int k) {
  OPSNN_RETURN_IF_ERROR(CheckSizes({{"m", m}, {"n", n}, {"k", k}}));
  if (m && n) OPSNN_RETURN_IF_ERROR(CheckPointers({{"c", c}}));
  if (m && k) OPSNN_RETURN_IF_ERROR(CheckPointers({{"a", a}}));
  if (n && k) OPSNN_RETURN_IF_ERROR(CheckPointers({{"b", b}}));
  const Floats result{"c", c, m, n};
  OPSNN_RETURN_IF_ERROR(CheckApart({"a", a, m, k}, result));
  OPSNN_RETURN_IF_ERROR(CheckApart({"b", b, k, n}, result));
  return Run(kind, a, b, c, m, n, k);
}

}  // namespace
}  // namespace opsnn::capi

using namespace opsnn;
using namespace opsnn::capi;

int calc_tiling(int m, int n, int k, TilingArgs* args) {
  return Guarded("calc_tiling", [&]() -> Status {
    OPSNN_RETURN_IF_ERROR(CheckPointers({{"args", args}}));
    args->fuse_enable = 0;
    OPSNN_RETURN_IF_ERROR(CheckSizes(
        {{"args->tile_m", args->tile_m}, {"args->tile_n", args->tile_n}, {"args->tile_k", args->tile_k}}));
    if (m <= 0 || n <= 0 || k <= 0)
      return InvalidArgument("m, n, k are %d, %d, %d; allowed: 1 or more", m, n, k);
    OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile profile, ChosenProfile());
    const plan::TilingAnswer answer =
        plan::CalcTiling(m, n, k, {args->tile_m, args->tile_n, args->tile_k}, profile, GetKnobs());
    args->tile_m = static_cast<int>(answer.tile.m);
    args->tile_n = static_cast<int>(answer.tile.n);
    args->tile_k = static_cast<int>(answer.tile.k);
    args->l1_budget = ToInt(static_cast<double>(answer.l1_budget));
    args->ub_budget = ToInt(static_cast<double>(answer.ub_budget));
    args->fuse_enable = answer.fuse ? 1 : 0;
    return answer.fuse ? OkStatus() : InvalidArgument("%s", answer.reason.c_str());
  });
}

int get_l1_capacity(void) {
  int bytes = -1;
  return Guarded("get_l1_capacity",
                 [&]() -> Status {
                   OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile profile, ChosenProfile());
                   bytes = ToInt(profile.l1_bytes());
                   return OkStatus();
                 }) == 0
             ? bytes
             : -1;
}

int get_ub_capacity(void) {
  int bytes = -1;
  return Guarded("get_ub_capacity",
                 [&]() -> Status {
                   OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile profile, ChosenProfile());
                   bytes = ToInt(profile.ub_bytes());
                   return OkStatus();
                 }) == 0
             ? bytes
             : -1;
}

void* alloc_device(size_t bytes) {
  void* p = nullptr;
  Guarded("alloc_device", [&]() -> Status {
    OPSNN_ASSIGN_OR_RETURN(p, runtime::Allocate(bytes, runtime::MemoryKind::kDevice, 0));
    return OkStatus();
  });
  return p;
}

void free_device(void* ptr) {
  if (ptr) Guarded("free_device", [&] { return runtime::Free(ptr, runtime::MemoryKind::kDevice); });
}

int ops_nn_fused_matmul_relu(const float* a, const float* b, float* c, int m, int n, int k, TilingArgs args) {
  return Guarded("ops_nn_fused_matmul_relu", [&]() -> Status {
    OPSNN_RETURN_IF_ERROR(CheckSizes(
        {{"args.tile_m", args.tile_m}, {"args.tile_n", args.tile_n}, {"args.tile_k", args.tile_k}}));
    if (!args.fuse_enable) {
      OPSNN_LOG(kInfo, "ops_nn_fused_matmul_relu: fuse_enable is 0, matmul and relu run one after the other");
      OPSNN_RETURN_IF_ERROR(Matmul(Kind::kMatmul, a, b, c, m, n, k));
      return Run(Kind::kRelu, c, nullptr, c, m, n, 0);
    }
    if (args.tile_m || args.tile_n || args.tile_k) {
      if (GetKnobs().strict) {
        return InvalidArgument(
            "args: the tile %dx%dx%d would be planned anew for the host, which the knob strict forbids; "
            "allowed "
            "with it: 0x0x0",
            args.tile_m, args.tile_n, args.tile_k);
      }
      OPSNN_LOG(
          kInfo,
          "ops_nn_fused_matmul_relu: the tile %dx%dx%d is planned anew for the host's registers and caches",
          args.tile_m, args.tile_n, args.tile_k);
    }
    return Matmul(Kind::kMatmulRelu, a, b, c, m, n, k);
  });
}

int asccl_matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  return Guarded("asccl_matmul", [&] { return Matmul(Kind::kMatmul, a, b, c, m, n, k); });
}

int asccl_relu(const float* x, float* y, int m, int n) {
  return Guarded("asccl_relu", [&]() -> Status {
    OPSNN_RETURN_IF_ERROR(CheckSizes({{"m", m}, {"n", n}}));
    if (m && n) OPSNN_RETURN_IF_ERROR(CheckPointers({{"x", x}, {"y", y}}));
    OPSNN_RETURN_IF_ERROR(CheckApart({"x", x, m, n}, {"y", y, m, n}));
    return Run(Kind::kRelu, x, nullptr, y, m, n, 0);
  });
}

const char* ops_nn_last_error(void) { return last_error.c_str(); }
