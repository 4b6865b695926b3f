// Judges of edges without a contraction: pointwise chains, row programs, conversions, and the refusals by
// rule.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "plan/cost.h"
#include "plan/judge.h"
#include "plan/judge_terms.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;

// One streaming pass: arithmetic and memory overlap.
double PassMicroseconds(double instructions, int64_t elements, DType dtype, int64_t read, int64_t written,
                        const DeviceProfile& p, int cores) {
  const Level level = LevelOf(read + written, cores, p);
  const double moves =
      ReadMicroseconds(read, level, p, cores) + WriteMicroseconds(written, level, p, cores, true);
  return Overlapped(moves, VectorMicroseconds(instructions, elements, dtype, p, cores));
}

// The same by what it is spent on, so that the two sides have terms in common: moves of operands and output,
// of what one pass writes for the next, and the arithmetic that they do not hide.
struct PassOf {
  double instructions;
  int64_t elements;
  DType dtype;
  int64_t read = 0, written = 0;  // beside the intermediate
  int64_t intermediate_read = 0, intermediate_written = 0;
};

void AddPass(const PassOf& a, const char* intermediate, const DeviceProfile& p, int cores, CostSum& t) {
  const int64_t read = a.read + a.intermediate_read, written = a.written + a.intermediate_written;
  const Level level = LevelOf(read + written, cores, p);
  const auto moves = [&](int64_t in, int64_t out) {
    return ReadMicroseconds(in, level, p, cores) + WriteMicroseconds(out, level, p, cores, true);
  };
  t.Add("operands and output", moves(a.read, a.written));
  if (a.intermediate_read + a.intermediate_written > 0)
    t.Add(intermediate, moves(a.intermediate_read, a.intermediate_written));
  t.Add("arithmetic", PassMicroseconds(a.instructions, a.elements, a.dtype, read, written, p, cores) -
                          moves(read, written));
}

// A block of the interpreter with all live values; more of them than UB holds would spill to L1.
constexpr int64_t kBlockBytes = 8 << 10;

// What a pass of its own writes for the next.
constexpr const char *kBetween = "intermediate", *kMask = "mask";

void Describe(const std::string& chain, const std::string& where, const std::string& shape, DType dtype,
              const DeviceProfile& p, Decision& d) {
  d.chain = chain;
  d.where = where;
  d.shape = shape;
  d.dtype = Name(dtype);
  d.profile = p.name;
}

}  // namespace

Decision JudgePointwiseChain(const PointwiseEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  if (e.words) {
    Describe(e.chain, e.where,
             e.shape.empty() ? StrFormat("elements=%lld", static_cast<long long>(e.elements)) : e.shape,
             e.dtype, p, d);
  }
  if (!e.first || !e.second) {
    Rule(d, Verdict::kRefuse, "one side is not a vector program");
    return d;
  }
  if (knobs.fusion == FusionMode::kOff) {
    Rule(d, Verdict::kSplit, "fusion is switched off");
    return d;
  }
  const int cores = ActiveCores(p, e.threads);
  const int live = PeakLiveSlots(*e.first) + PeakLiveSlots(*e.second) - 1;
  const int64_t block = std::min<int64_t>(kBlockBytes, 4 * std::max<int64_t>(e.elements, 1));
  if (e.words) d.budget.push_back({StrFormat("%d live blocks", live), "UB", live * block});
  const bool fits = live * block <= static_cast<int64_t>(p.ub_bytes());

  const int64_t middle = e.elements * static_cast<int64_t>(SizeOf(e.dtype));
  const double a = InstructionsPerElement(*e.first, p), b = InstructionsPerElement(*e.second, p);
  CostSum split(e.words ? &d.split_terms : nullptr), fused(e.words ? &d.fused_terms : nullptr);
  AddPass({a, e.elements, e.dtype, e.first_bytes, 0, 0, middle}, kBetween, p, cores, split);
  AddPass({b, e.elements, e.dtype, e.second_bytes, e.output_bytes, middle, 0}, kBetween, p, cores, split);
  split.Add("launch", p.launch_us());
  split.Add("join cores", cores > 1 ? p.sync_us() : 0);
  const int64_t kept = e.intermediate_kept ? middle : 0;
  AddPass({a + b, e.elements, e.dtype, e.first_bytes + e.second_bytes, e.output_bytes, 0, kept}, kBetween, p,
          cores, fused);
  // Values that do not fit UB go to L1 and back once per stage that uses them.
  const double spilled =
      fits ? 0 : static_cast<double>(live * block) / p.ub_bytes() * static_cast<double>(middle);
  fused.Add("long chain",
            ReadMicroseconds(static_cast<int64_t>(spilled), p.is_host() ? Level::kL1 : Level::kL2, p, cores));
  SumUp(knobs, split.us(), fused.us(), d);
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
  } else if (!e.words) {
    DecideByCost(d);
  } else {
    DecideByCost(knobs, d.time_fused_us, SplitWithoutAssumed(d, p),
                 StrFormat("the intermediate of %s would live in %s", SizeText(middle).c_str(),
                           Name(LevelOf(2 * middle, cores, p))),
                 d);
  }
  return d;
}

Decision JudgeRowProgram(const RowEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  Describe(e.chain, e.where,
           e.shape.empty() ? StrFormat("rows=%lld cols=%lld", static_cast<long long>(e.rows),
                                       static_cast<long long>(e.cols))
                           : e.shape,
           e.dtype, p, d);
  if (!e.program) {
    Rule(d, Verdict::kRefuse, "one side is not a vector program");
    return d;
  }
  const int live = PeakLiveSlots(*e.program);
  const double row = static_cast<double>(e.cols) * 4 * live;
  const bool host = p.is_host();
  const double capacity = host ? (1 - knobs.l1_reserve) * p.l1_bytes() : p.ub_bytes();
  const char* pool = host ? "L1" : "UB";
  const int64_t bytes = row < 9e18 ? static_cast<int64_t>(row) : int64_t{1} << 62;
  d.budget.push_back(
      {StrFormat("row of %lld elements, %d live values", static_cast<long long>(e.cols), live), pool, bytes});
  d.retries.push_back({1, e.cols, 1, bytes, static_cast<int64_t>(capacity), row <= capacity});
  if (knobs.fusion == FusionMode::kOff) {
    Rule(d, Verdict::kSplit, "fusion is switched off");
  } else if (row > capacity) {
    Rule(d, Verdict::kSplit,
         StrFormat("a whole row block does not fit %s: %lld of %.0f bytes", pool,
                   static_cast<long long>(bytes), capacity));
  } else {
    Rule(d, Verdict::kFuse,
         StrFormat("a whole row block fits %s: %lld of %.0f bytes", pool, static_cast<long long>(bytes),
                   capacity));
  }
  return d;
}

Decision JudgeConversion(const ConversionEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  Describe(e.chain, e.where,
           e.shape.empty() ? StrFormat("elements=%lld", static_cast<long long>(e.elements)) : e.shape, e.from,
           p, d);
  if (knobs.fusion == FusionMode::kOff) {
    Rule(d, Verdict::kSplit, "fusion is switched off");
    return d;
  }
  const int cores = ActiveCores(p, e.threads);
  const int64_t from = e.elements * static_cast<int64_t>(SizeOf(e.from));
  const int64_t to = e.elements * static_cast<int64_t>(SizeOf(e.to));
  constexpr double kConvertInstructions = 2;  // widen or narrow, and round
  // Without absorbing: a pass of its own, and the neighbour reads what it wrote.
  d.split_terms.push_back(
      {"conversion pass", PassMicroseconds(kConvertInstructions, e.elements, e.from, from, to, p, cores)});
  d.split_terms.push_back({"read converted", ReadMicroseconds(to, LevelOf(to, cores, p), p, cores)});
  d.split_terms.push_back({"launch", p.launch_us()});
  d.split_terms.push_back({"join cores", cores > 1 ? p.sync_us() : 0});
  // Absorbed: the neighbour reads the original and converts each value as it loads it. In another order it
  // uses only a part of each line it touches: two of them per value that it reads in its own order.
  constexpr double kStridedFactor = 2;
  const double read = ReadMicroseconds(from, LevelOf(from, cores, p), p, cores);
  d.fused_terms.push_back({"read original", e.changes_layout ? kStridedFactor * read : read});
  const double convert = e.from == e.to ? 0 : kConvertInstructions;
  d.fused_terms.push_back({"conversion", VectorMicroseconds(convert, e.elements, e.from, p, cores)});
  // A gather of single elements instead of whole vectors.
  const double lanes = p.vector_bytes() / static_cast<double>(std::max(SizeOf(e.from), SizeOf(e.to)));
  d.fused_terms.push_back(
      {"strided access", e.changes_layout ? VectorMicroseconds(lanes / 4, e.elements, e.from, p, cores) : 0});
  SumUp(knobs, d);
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
    return d;
  }
  DecideByCost(
      knobs, d.time_fused_us, SplitWithoutAssumed(d, p),
      e.changes_layout ? "the neighbour walks in another order" : "the neighbour walks in the same order", d);
  return d;
}

Decision JudgeRandom(const RandomEdge& e, const DeviceProfile& p, const Knobs& knobs) {
  Decision d;
  Describe(e.chain, e.where,
           e.shape.empty() ? StrFormat("elements=%lld", static_cast<long long>(e.elements)) : e.shape,
           e.dtype, p, d);
  if (!e.apply) {
    Rule(d, Verdict::kRefuse, "what reads the mask is not a vector program");
    return d;
  }
  if (knobs.fusion == FusionMode::kOff) {
    Rule(d, Verdict::kSplit, "fusion is switched off");
    return d;
  }
  const int cores = ActiveCores(p, e.threads);
  // Ten rounds of a counter-based generator give four words; each round multiplies, adds and exchanges.
  constexpr double kDrawInstructions = 20;
  const int64_t values = e.elements * static_cast<int64_t>(SizeOf(e.dtype)), mask = e.elements;
  const double apply = InstructionsPerElement(*e.apply, p);
  CostSum split(&d.split_terms), fused(&d.fused_terms);
  AddPass({kDrawInstructions, e.elements, DType::kF32, 0, 0, 0, mask}, kMask, p, cores, split);
  AddPass({apply, e.elements, e.dtype, values, values, mask, 0}, kMask, p, cores, split);
  split.Add("launch", p.launch_us());
  split.Add("join cores", cores > 1 ? p.sync_us() : 0);
  AddPass({kDrawInstructions + apply, e.elements, e.dtype, values, values, 0, e.mask_kept ? mask : 0}, kMask,
          p, cores, fused);
  SumUp(knobs, d);
  if (knobs.fusion == FusionMode::kForce) {
    Rule(d, Verdict::kFuse, "fusion is forced");
    return d;
  }
  // A counter per element: the numbers are the same either way.
  DecideByCost(knobs, d.time_fused_us, SplitWithoutAssumed(d, p),
               StrFormat("the mask takes %s%s", SizeText(mask).c_str(), e.mask_kept ? " and is kept" : ""),
               d);
  return d;
}

Decision RefuseEdge(std::string chain, std::string where, std::string shape, DType dtype, std::string reason,
                    const DeviceProfile& p) {
  Decision d;
  Describe(chain, where, shape, dtype, p, d);
  Rule(d, Verdict::kRefuse, std::move(reason));
  return d;
}

}  // namespace opsnn::plan
