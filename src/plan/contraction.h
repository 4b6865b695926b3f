// One contraction edge in figures, and the cost terms of its two forms. Between the judge's files only.
#ifndef OPSNN_PLAN_CONTRACTION_H_
#define OPSNN_PLAN_CONTRACTION_H_

#include "plan/cost.h"
#include "plan/judge.h"
#include "plan/judge_terms.h"
#include "plan/tiling.h"

namespace opsnn::plan {

// Everything about one contraction edge that both sides of the comparison need.
struct Contraction {
  const ContractionEdge& e;
  const device::DeviceProfile& p;
  MatrixShape shape;
  int cores = 1;
  int64_t elements = 0;      // of the result
  int64_t result_bytes = 0;  // of the intermediate
  int64_t output_bytes = 0;
  int64_t operand_bytes = 0;  // further operands of the chain
  double instructions = 0;    // of the chain, per element
  Level level = Level::kHbm;  // where the intermediate would live
  Level operand_level = Level::kHbm, output_level = Level::kHbm;
  bool is_part = false;  // a block of rows that follows another
  // Of a region: what bringing B into panels again adds to the cube, as a share, and the region's part of the
  // cube's time for the whole, which it cannot beat.
  double repack_share = 0, least_cube_us = 0;
};

Contraction Describe(const ContractionEdge& e, const device::DeviceProfile& p);
TileBlocks BlocksOf(const Contraction& c);

// The chain as an operator of its own: reads the intermediate and the other operands, writes the output.
// Returns the cube's part.
double AddSplitTerms(const Contraction& c, const Tile& tile, CostSum& t);
// The chain on blocks that are still on chip; `handover_cycles` per block on an NPU.
void AddFusedTerms(const Contraction& c, const Tile& tile, double handover_cycles, CostSum& t);

// The cube's time of a region, with B brought into panels again.
double CubeOf(const Contraction& c, const Tile& tile);
// `rows` of the product, as a contraction of its own that shares caches and operands with the rest; `e` is
// whole.e with m = rows, `cube_us` what the cube takes for the whole.
Contraction PartOf(const Contraction& whole, const ContractionEdge& e, int64_t rows, double cube_us);
// Bytes of the intermediate of one block: of the host's own caches a share that leaves room for B and what
// streams through; on an NPU a share of L2, where the vector cores read it.
double BlockBytes(const device::DeviceProfile& p, int cores);
// Starting one more block of rows, the threads joined after each of its two steps.
double StartMicroseconds(const Contraction& c);
inline constexpr int64_t kRowUnit = 16;  // rows of a block are a multiple of this

// The hybrid form: the rows in blocks whose intermediate stays in a cache, each fused or split as it is
// cheaper, and the remainder likewise. Where that beats both whole forms by a margin, the verdict becomes
// kHybrid and d.regions says what was chosen. The tiles are those of the whole forms, `cube_us` is what the
// split one takes on the cube.
void ConsiderRegions(const Contraction& whole, const Tile& fused, const Tile& split, double cube_us,
                     Decision& d);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_CONTRACTION_H_
