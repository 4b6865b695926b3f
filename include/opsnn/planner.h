// The planner as a subject of its own: ask it about a product without building one, and measure how good and
// how fast it is on this machine.
#ifndef OPSNN_PLANNER_H_
#define OPSNN_PLANNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "opsnn/decision.h"
#include "opsnn/export.h"
#include "opsnn/status.h"
#include "opsnn/tensor.h"

namespace opsnn {

// A matrix product with a pointwise chain behind it.
struct MatmulEdge {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::kF32;
  std::vector<std::string> epilogue;  // "bias", "add", "mul", or a unary stage such as "relu" and "gelu"
  int threads = 0;                    // 0: as many as are available; the host only
  bool training = false;              // the backward pass follows: what it lacks is charged
  bool precision_first = false;       // quantised weights with a cheap activation: the parts stay apart
  int concurrent = 1;                 // operators that share the on-chip memories, 1 to 4096
};
// What the judge says for a device profile ("" = the profile knob), overrides included:
// "910B1:l1_bytes=256K". Errors name the field, what it got and what is allowed.
OPSNN_API Result<plan::Decision> JudgeMatmul(const MatmulEdge& edge, const std::string& profile = "");

// A tile of a product and its chain: what it keeps on chip, and what happens where that does not fit.
struct TileQuestion {
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;  // 0: the solver's, which needs m, n and k
  int64_t m = 0, n = 0, k = 0;                 // of the product; 0: one tile of it
  DType dtype = DType::kF32;
  bool double_buffer = false;  // A and B twice: the next ones come in while these are used
  int epilogue_blocks = 1;     // operands and results of the chain, each as large as C's block; 0 to 16
  // Of the tries: sides as they are halved, "kmn"; those not named follow, longer first. "": the setting
  // retry_order.
  std::string order;
  bool pools = false;  // charge each block to the memory that the profile names, else all to L1
};
struct TileBudget {
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  std::vector<plan::BudgetItem> items;  // A, B, C, then the epilogue blocks
  int64_t total_bytes = 0;
  bool fits = false;
  std::string overflow;  // the first memory that is too small; "" where it fits
  double time_us = 0;    // of the whole product with such tiles, without its chain
};
struct TileReport {
  TileBudget tile;
  int64_t l1_available = 0, ub_available = 0, l0c_available = 0;  // bytes, after the reserve
  // The same with one side halved and doubled: tile_m / 2, tile_m * 2, tile_n / 2, ... Which blocks it
  // changes.
  std::vector<TileBudget> changes;
  std::vector<plan::Retry> retries;  // from this tile down to the first that fits
};
OPSNN_API Result<TileReport> AskTile(const TileQuestion& question, const std::string& profile = "");

// A cache of the planner in this process: look-ups that found something and that did not, and what it holds.
struct PlanCacheUse {
  int64_t hits = 0, misses = 0, entries = 0, bytes = 0;
};
struct PlanCaches {
  PlanCacheUse verdicts;    // of the judge, by shape class
  PlanCacheUse tiles;       // of AskTileBuckets, by preset size
  PlanCacheUse calls;       // plans of aclnn calls, by shape
  int64_t bound_bytes = 0;  // of each: the setting plan_cache_bytes
};
OPSNN_API PlanCaches PlanCachesUsed();

// Tiles of preset sizes: each side of a product counts as the next of 256, 512, 1024 and 2048 (beyond, as the
// last), and each such bucket has a tile of its own, which is solved for once.
struct TileBuckets {
  struct Row {
    int64_t size = 0;  // of all three sides
    TileBudget tile;
  };
  std::vector<Row> rows;
  // Of the question's product, where it names one: its bucket, that bucket's tile, and what the solver finds
  // for the product itself, both with the time of that product.
  int64_t m = 0, n = 0, k = 0;
  TileBudget found, own;
  PlanCacheUse cache;  // after all this
};
// The question's m, n and k (all of them, or none), type, buffers, chain and pools; its tile must be 0.
OPSNN_API Result<TileBuckets> AskTileBuckets(const TileQuestion& question, const std::string& profile = "");

// What deciding costs, in microseconds: a shape class never seen before, and one that is cached.
struct PlanningCost {
  double new_class_us = 0, cached_us = 0;
  int64_t classes = 0;                       // decided for the figures
  int64_t hits = 0, misses = 0;              // of the cache, meanwhile
  int64_t cache_bytes = 0, bound_bytes = 0;  // after 1,000 random shapes
};
OPSNN_API PlanningCost MeasurePlanning();

// Calls that ran by regions (Verdict::kHybrid) in this process, and their blocks of rows of either kind.
struct RegionCounters {
  int64_t calls = 0, fused = 0, split = 0;
};
OPSNN_API RegionCounters RegionsRun();

// One (chain, shape, threads) point: its forms measured in turns, and what the model said.
struct JudgePoint {
  std::string chain, shape;
  int threads = 1;
  double fused_us = 0, split_us = 0, predicted_fused_us = 0, predicted_split_us = 0;
  double hybrid_us = 0, predicted_hybrid_us = 0;  // 0 where regions were not chosen
  plan::Verdict verdict = plan::Verdict::kSplit;
  double regret = 1;  // time of the chosen form over the shortest one
};
struct JudgeReport {
  std::vector<JudgePoint> points;
  int threads = 1;  // the most that were used
  double regret_geomean = 1, regret_worst = 1;
  // Least of split over chosen where fusing, wholly or by regions, was chosen; 0 where it never was.
  double fused_vs_parts_worst = 0;
  int split_wins = 0, fuse_wins = 0;  // points where one of the two wins by 5 % or more
  int hybrid_chosen = 0;              // points that run by regions
  double prediction_error = 1;        // factor by which predicted times are off, geometric mean
  OPSNN_API std::vector<JudgePoint> Worst(size_t n) const;
};
struct JudgePoints {
  int threads = 0;   // 0: one, and as many as there are
  std::string only;  // points whose "chain shape", such as "matmul+relu 64x64x64", holds this; "": all
};
// Medians of `runs` runs per form; offenders are measured again, in other memory. progress(done, total) may
// be null.
OPSNN_API Result<JudgeReport> MeasureJudge(int runs, const std::function<void(int, int)>& progress = nullptr,
                                           const JudgePoints& which = {});

// The host's rates: what the planner uses (from its file) and what is measured now.
struct Rate {
  std::string name, unit;
  double used = 0;  // 0: there is no file yet
  double now = 0;
  // Does it enter `stale`? What neighbours share or what scatters by itself does not.
  bool checked = false;
  bool drifts = false;  // off by more than a quarter
};
struct Calibration {
  std::string file;  // that remembers them; "" where there is no cache folder
  std::vector<Rate> rates;
  bool stale = false;  // a compute or memory rate is off by more than a quarter, or there was no file
};
// Measures; `keep` writes the result where later processes find it.
OPSNN_API Calibration Calibrate(bool keep);

// What one term of the cost model predicts over what is measured, over `points` shapes and thread counts.
struct TermError {
  std::string term;
  int points = 0;
  double bias = 1;    // geometric mean of predicted over measured
  double factor = 1;  // geometric mean of the factor by which it is off, either way
  double worst = 1;
};
// Measures each term alone, `runs` times; a few seconds.
OPSNN_API Result<std::vector<TermError>> MeasureTerms(int runs);

}  // namespace opsnn

#endif  // OPSNN_PLANNER_H_
