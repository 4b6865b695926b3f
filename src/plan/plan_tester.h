// Profiles, programs and edges that the planner's tests share.
#ifndef OPSNN_PLAN_PLAN_TESTER_H_
#define OPSNN_PLAN_PLAN_TESTER_H_

#include <utility>
#include <vector>

#include "plan/judge.h"

namespace opsnn::plan {

using device::DeviceProfile;
using device::Field;

inline DeviceProfile Npu(const char* name) { return *device::FindProfile(name); }

// A host with round numbers, so that tests do not depend on the machine they run on.
inline DeviceProfile TestHost() {
  DeviceProfile p;
  p.name = "host";
  auto set = [&p](Field f, double v) { p.Set(f, v, "test"); };
  set(Field::k_cores, 2), set(Field::k_vector_cores, 2);
  set(Field::k_clock_mhz, 3000), set(Field::k_vector_clock_mhz, 3000);
  set(Field::k_mac_f32, 32), set(Field::k_vector_bytes, 64);
  set(Field::k_ub_bytes, 48 << 10), set(Field::k_l1_bytes, 2 << 20), set(Field::k_l2_bytes, 32 << 20);
  set(Field::k_l0c_bytes, 2048), set(Field::k_hbm_bytes, 16e9);
  set(Field::k_ub_rate, 80), set(Field::k_l1_rate, 40), set(Field::k_l2_read_rate, 12),
      set(Field::k_l2_write_rate, 6);
  set(Field::k_hbm_rate, 5), set(Field::k_hbm_total_rate, 8);
  set(Field::k_sync_us, 2);
  p.Set(Field::k_launch_us, 0.5, "test", true);
  set(Field::k_fractal_rows, 1), set(Field::k_fractal_bytes, 64), set(Field::k_line_bytes, 64);
  return p;
}

inline Program Chain(std::vector<StageOp> ops) {
  ProgramBuilder b;
  SlotId x = b.Input();
  for (StageOp op : ops) x = b.Unary(op, x);
  b.Output(x);
  return std::move(b).Build();
}

inline Program AddRelu() {
  ProgramBuilder b;
  const SlotId x = b.Input(), y = b.Input();
  b.Output(b.Unary(StageOp::kRelu, b.Binary(StageOp::kAdd, x, y)));
  return std::move(b).Build();
}

inline ContractionEdge Gemm(int64_t m, int64_t n, int64_t k, int64_t batch, const Program& tail,
                            DType t = DType::kF32, int threads = 1) {
  ContractionEdge e;
  e.chain = "matmul+tail";
  e.m = m, e.n = n, e.k = k, e.batch = batch;
  e.dtype = e.out_dtype = t;
  e.tail = &tail;
  e.threads = threads;
  return e;
}

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_PLAN_TESTER_H_
