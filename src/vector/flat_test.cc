// FlatRun gives the bits of RunTensors, whatever the program, sizes, types, threads and shared operands.
#include "vector/flat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "isa/tier.h"
#include "testing/testing.h"
#include "vector/compiled.h"
#include "vector/run.h"
#include "vector/streaming.h"

namespace opsnn::vector {
namespace {

using testing::Rng;

class FlatTier : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { isa::SetMaxTier(static_cast<isa::Tier>(GetParam())); }
  void TearDown() override { isa::SetMaxTier(saved_), SetNumThreads(0); }
  isa::Tier saved_ = isa::ActiveTier();
};
INSTANTIATE_TEST_SUITE_P(Tiers, FlatTier, ::testing::Range(0, isa::kNumTiers),
                         [](const auto& i) { return isa::Name(static_cast<isa::Tier>(i.param)); });

Program RandomProgram(Rng& rng, int inputs) {
  using enum StageOp;
  ProgramBuilder b;
  std::vector<SlotId> slots;
  for (int i = 0; i < inputs; ++i) slots.push_back(b.Input());
  SlotId last = slots[0];
  for (int i = static_cast<int>(rng.Int(1, 4)); i > 0; --i) {
    constexpr StageOp kUnary[] = {kRelu, kNeg, kAffine, kTanh, kCopy}, kBinary[] = {kAdd, kMul, kMax};
    const SlotId other = slots[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(slots.size()) - 1))];
    last = rng.Chance(0.5)   ? b.Unary(kUnary[rng.Int(0, 4)], last, 0.5, -0.25)
           : rng.Chance(0.2) ? b.Binary(kMul, last, b.Const(1.5))
                             : b.Binary(kBinary[rng.Int(0, 2)], last, other);
    slots.push_back(last);
  }
  b.Output(last);
  if (rng.Chance(0.2)) b.Output(slots[0]);
  return std::move(b).Build();
}

TEST_P(FlatTier, SameBitsAsRunTensors) {
  Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    const int inputs = static_cast<int>(rng.Int(1, 3));
    const auto p = Compile(RandomProgram(rng, inputs)).value();
    const int64_t n = rng.Chance(0.5) ? rng.Int(1, 300) : rng.Int(20000, 200000);
    constexpr DType kTypes[] = {DType::kF32,  DType::kF32, DType::kF32,
                                DType::kBF16, DType::kF16, DType::kS32};
    const size_t args = static_cast<size_t>(inputs) + p->source.outputs.size();
    std::vector<std::vector<char>> memory(args);
    std::vector<TensorView> views(args);
    for (size_t i = 0; i < args; ++i) {
      const DType t = kTypes[rng.Int(0, 5)];
      const bool one = i < static_cast<size_t>(inputs) && rng.Chance(0.2);
      memory[i].resize(static_cast<size_t>(one ? 1 : n) * SizeOf(t) + 64);
      for (char& c : memory[i]) c = static_cast<char>(rng.Int(0, 60));
      // A view that walks over the memory, or one that repeats its first element.
      views[i] = TensorView::Contiguous(memory[i].data(), t, {n});
      if (one && n > 1) views[i].strides = Dims{0};
    }
    const std::span<const TensorView> all(views);
    const auto in = all.first(static_cast<size_t>(inputs)), out = all.subspan(static_cast<size_t>(inputs));
    if (rng.Chance(0.3) && in[0].dtype == out[0].dtype && in[0].strides == out[0].strides) {
      views[static_cast<size_t>(inputs)].data = views[0].data;  // in place
    }
    const FlatRun flat(*p, in, out);
    ASSERT_TRUE(flat.ok());
    const auto before = memory;
    SetNumThreads(1);
    RunTensors(*p, in, out);
    const auto want = memory;
    for (const int threads : {1, 2, 3}) {
      for (size_t i = 0; i < args; ++i) std::copy(before[i].begin(), before[i].end(), memory[i].begin());
      SetNumThreads(threads);
      void* data[8];
      for (size_t i = 0; i < args; ++i) data[i] = views[i].data;
      std::optional<PartOfResult> streamed;
      if (rng.Chance(0.3)) streamed.emplace(StreamingThreshold());
      flat.Run(*p, data);
      for (size_t i = 0; i < args; ++i)
        ASSERT_TRUE(memory[i] == want[i])
            << p->source.ToString() << " operand " << i << " of " << n << ", " << threads << " threads";
    }
  }
}

TEST(FlatRunTest, RefusesWhatIsNotFlat) {
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kRelu, b.Input()));
  const auto p = Compile(std::move(b).Build()).value();
  float x[12];
  const TensorView whole = TensorView::Contiguous(x, DType::kF32, {3, 4});
  TensorView turned = whole, row = whole;
  turned.strides = Dims{1, 3}, row.strides = Dims{0, 1};
  EXPECT_TRUE(FlatRun(*p, std::span(&whole, 1), std::span(&whole, 1)).ok());
  EXPECT_FALSE(FlatRun(*p, std::span(&turned, 1), std::span(&whole, 1)).ok());
  EXPECT_FALSE(FlatRun(*p, std::span(&row, 1), std::span(&whole, 1)).ok());
  EXPECT_FALSE(FlatRun(*p, std::span(&whole, 1), std::span(&turned, 1)).ok());
}

}  // namespace
}  // namespace opsnn::vector
