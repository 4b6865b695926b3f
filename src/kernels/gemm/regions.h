// A product whose rows are treated by regions: some with the epilogue on chip, others as product and pass.
#ifndef OPSNN_KERNELS_GEMM_REGIONS_H_
#define OPSNN_KERNELS_GEMM_REGIONS_H_

#include <cstdint>
#include <span>

#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

// Rows that follow those of the region before, in blocks of `block` that are computed one after the other.
struct RowRegion {
  int64_t rows = 0, block = 0;
  bool fused = true;
};

// The chain as an operator of its own: its inputs behind the product (input 0), then its outputs.
struct RegionChain {
  const vector::CompiledProgram* program = nullptr;
  std::span<const vector::EpilogueArg> args;
  int row_rank = 0;  // 1: it reduces rows, and every region is split
};

// Floats of the buffer that the products of split blocks are written to: C of the largest of them.
int64_t RegionScratch(std::span<const RowRegion> regions, int64_t n);

// p, as for Run, is one matrix (batch 1) whose rows the regions cover; its epilogue does what the chain does,
// and all forms agree bit by bit, as long as ChoosePath(p) is not kGemv. `scratch` is shared by all blocks,
// so that it stays in the caches.
void RunRegions(const Params& p, const RegionChain& chain, std::span<const RowRegion> regions,
                float* scratch);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_REGIONS_H_
