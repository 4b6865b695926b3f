// The fusion judge: should this edge be fused on this device, and why?
//
// benefit = time(split) - time(fused). The split side runs each operator with its own best tile, writes the
// intermediate where it lives (a cache level or device memory) and reads it back, and pays another launch.
// The fused side runs with the tile that the joint budget allows, pays vector work that no longer overlaps,
// lost parallelism, conversions inserted by the join, a charge for long chains, and on an NPU a hand-over per
// block. The judge works on plain numbers: whoever owns operators fills the edge structs.
//
// Deciding is cheap: under 20 us for a new shape class, under 1 us for one decided before (see
// CachedJudge...). A shape class holds all shapes whose sizes round to the same bucket; a new length costs
// microseconds at most.
#ifndef OPSNN_PLAN_JUDGE_H_
#define OPSNN_PLAN_JUDGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "base/knobs.h"
#include "device/profile.h"
#include "plan/decision.h"
#include "plan/plan_cache.h"
#include "program/program.h"

namespace opsnn::plan {

enum class ContractionKind : uint8_t { kGemm, kConv, kDepthwise };

// A contraction (m x k) x (k x n), `batch` times, followed by a pointwise chain on its m x n result. A conv
// is its implicit gemm: m = output pixels of the batch, n = output channels per group, k = input channels per
// group x window, batch = groups. A depthwise conv gives m = output pixels, n = channels, k = window, batch
// = 1.
struct ContractionEdge {
  std::string chain;  // "conv+add+relu"
  std::string where;  // node of a model, "" for a direct call
  std::string shape;  // for people; "" prints m, n, k
  ContractionKind kind = ContractionKind::kGemm;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::kF32;        // of A and B
  DType out_dtype = DType::kF32;    // of the chain's output
  int64_t input_bytes = 0;          // what is read of A; 0 = m * k * batch elements. For a conv: its image
  const Program* tail = nullptr;    // the chain; null or no stages: nothing to fuse
  int full_operands = 0;            // further operands of the chain as large as the result (a residual add)
  int64_t small_operand_bytes = 0;  // the others (biases, scales), all together
  int64_t convert_elements = 0;     // elements that the join makes somebody convert (dtype, quantise, format)
  int64_t cast_elements = 0;        // elements that casts in the chain convert, fused or not
  bool precision_first = false;     // quantised weights with a cheap activation: keep the parts apart
  bool training = false;            // the backward pass follows
  int concurrent = 1;               // operators that run at the same time and share the on-chip memories
  bool legal = true;                // false: the graph already knows why not (`illegal_reason`)
  std::string illegal_reason;
  int threads = 0;  // 0 = as many as are available; the host only
  // false: the decision has verdict, regions and times alone, which takes half as long. Planning a run wants
  // no more; `explain` asks again with words.
  bool words = true;
};

// Two products in a chain, (m x k) x (k x hidden) and what comes out times (hidden x n), with a chain between
// them that the first takes. Fused means in blocks of rows: what lies between stays on chip.
struct ChainedEdge {
  std::string chain, where, shape;
  int64_t m = 0, k = 0, hidden = 0, n = 0;
  DType dtype = DType::kF32;
  const Program* between = nullptr;
  int threads = 0;
};

// Two pointwise programs that meet at an intermediate of `elements` values.
struct PointwiseEdge {
  std::string chain, where, shape;
  int64_t elements = 0;
  DType dtype = DType::kF32;  // storage type of the intermediate
  const Program* first = nullptr;
  const Program* second = nullptr;
  int64_t first_bytes = 0;   // read by the first, without the intermediate
  int64_t second_bytes = 0;  // read by the second, without the intermediate
  int64_t output_bytes = 0;
  bool intermediate_kept = false;  // somebody else reads it: it is written either way
  int threads = 0;
  bool words = true;  // as in ContractionEdge
};

// A pointwise chain before or behind a row program (softmax, norms), or a row program behind another.
struct RowEdge {
  std::string chain, where, shape;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  const Program* program = nullptr;  // the joined program
  int threads = 0;
};

// Random numbers and what is done with them (dropout: draw, compare, scale), for `elements` values.
struct RandomEdge {
  std::string chain, where, shape;
  int64_t elements = 0;
  DType dtype = DType::kF32;
  const Program* apply = nullptr;  // what reads the mask, its input 0
  bool mask_kept = false;          // the backward pass wants it
  int threads = 0;
};

// A change of dtype or layout next to an operator that could absorb it into its load or store.
struct ConversionEdge {
  std::string chain, where, shape;
  int64_t elements = 0;
  DType from = DType::kF32, to = DType::kF32;
  bool changes_layout = false;  // not in the order the neighbour walks: absorbing makes its access strided
  int threads = 0;
};

Decision JudgeContraction(const ContractionEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
// A row reduction behind a product (softmax, a norm; e.tail holds it, after the chain before it): in blocks
// of whole rows that stay in the host's own caches. kHybrid with regions that are all split, or why not.
Decision JudgeRowsBehind(const ContractionEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
// A verdict of kFuse has one region: all rows, in blocks that fit the budget.
Decision JudgeChained(const ChainedEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
Decision JudgePointwiseChain(const PointwiseEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
Decision JudgeRowProgram(const RowEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
Decision JudgeConversion(const ConversionEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
Decision JudgeRandom(const RandomEdge& e, const device::DeviceProfile& p, const Knobs& knobs);
// A verdict by rule: the edge cannot be fused, whatever it would cost.
Decision RefuseEdge(std::string chain, std::string where, std::string shape, DType dtype, std::string reason,
                    const device::DeviceProfile& p);
// The rule for channel softmax, LayerNorm over channels and the like behind a conv or gemm whose blocks do
// not hold whole rows.
inline constexpr const char* kNeedsGather =
    "needs cross-channel gather: the producer's blocks do not hold whole rows";

// The decision of the edge's shape class, from the plan cache or judged now. `where` and `shape` of the
// result are empty: the class covers many. Never null.
std::shared_ptr<const Decision> CachedJudgeContraction(const ContractionEdge& e,
                                                       const device::DeviceProfile& p, const Knobs& knobs);
std::shared_ptr<const Decision> CachedJudgePointwise(const PointwiseEdge& e, const device::DeviceProfile& p,
                                                     const Knobs& knobs);

CacheCounters JudgeCacheCounters();
void ClearJudgeCache();

// Blocks of rows that hybrid calls ran, and those calls.
struct RegionCounters {
  int64_t calls = 0, fused = 0, split = 0;
};
void CountRegions(int64_t fused, int64_t split);  // of one call; any thread
RegionCounters RegionsRun();

inline bool Fuses(const Decision& d) { return d.verdict == Verdict::kFuse || d.verdict == Verdict::kHybrid; }

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_JUDGE_H_
