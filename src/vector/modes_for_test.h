// What the tests of the ways to run a program share.
#ifndef OPSNN_VECTOR_MODES_FOR_TEST_H_
#define OPSNN_VECTOR_MODES_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "isa/tier.h"
#include "testing/testing.h"
#include "vector/canonical_programs.h"

namespace opsnn::vector {

using testing::Rng;

class ModesTier : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { isa::SetMaxTier(static_cast<isa::Tier>(GetParam())); }
  void TearDown() override { isa::SetMaxTier(saved_); }
  isa::Tier saved_ = isa::ActiveTier();
};
inline std::vector<float> RandomFloats(Rng& rng, int64_t n, double lo = -3, double hi = 3) {
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(rng.Real(lo, hi));
  return v;
}
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct RowCase {
  const char* name;
  Program program;
  int vectors;     // inputs after x: gamma, beta
  int statistics;  // per-row outputs after y
};
inline std::vector<RowCase> RowCases() {
  std::vector<RowCase> cases;
  for (int bits = 0; bits < 16; ++bits) {
    NormOptions o{1e-5, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    cases.push_back({"layer_norm", LayerNormProgram(o), o.gamma + o.beta, o.statistics ? 2 : 0});
    if (!o.beta && !o.narrow) cases.push_back({"rms_norm", RmsNormProgram(o), o.gamma, o.statistics ? 1 : 0});
  }
  cases.push_back({"softmax", SoftmaxProgram(), 0, 0});
  cases.push_back({"log_softmax", LogSoftmaxProgram(), 0, 0});
  return cases;
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_MODES_FOR_TEST_H_
