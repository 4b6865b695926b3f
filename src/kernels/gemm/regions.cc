#include "kernels/gemm/regions.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "vector/streaming.h"

namespace opsnn::gemm {
namespace {

constexpr size_t kMaxChainArgs = 64;

char* At(const void* data, int64_t elements, DType t) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * static_cast<int64_t>(SizeOf(t));
}

vector::EpilogueArg FromRow(vector::EpilogueArg x, int64_t row) {
  x.data = At(x.data, row * x.row_stride, x.dtype);
  return x;
}

Params Rows(const Params& whole, int64_t row, int64_t rows) {
  Params p = whole;
  p.m = rows;
  p.a.data = At(p.a.data, row * p.a.row_stride, p.a.dtype);
  if (p.c) p.c += row * p.c_row_stride;
  return p;
}

void RunFused(const Params& whole, int64_t row, int64_t rows) {
  Params p = Rows(whole, row, rows);
  std::array<vector::EpilogueArg, kMaxChainArgs> args;
  const size_t count = p.epilogue.args.size();
  for (size_t i = 0; i < count; ++i) args[i] = FromRow(p.epilogue.args[i], row);
  p.epilogue.args = {args.data(), count};
  Run(p);
}

TensorView Block(const vector::EpilogueArg& x, int64_t row, int64_t rows, int64_t cols) {
  TensorView v;
  v.data = FromRow(x, row).data;
  v.dtype = x.dtype;
  v.dims = {rows, cols};
  v.strides = {x.row_stride, x.col_stride};
  return v;
}

void RunSplit(const Params& whole, const RegionChain& chain, int64_t row, int64_t rows, float* scratch) {
  Params p = Rows(whole, row, rows);
  p.epilogue = {};
  p.c = scratch;
  p.c_row_stride = p.n;
  Run(p);
  const size_t inputs = static_cast<size_t>(vector::Source(*chain.program).num_inputs);
  std::array<TensorView, kMaxChainArgs> views;
  views[0] = TensorView::Contiguous(scratch, DType::kF32, {rows, p.n});
  for (size_t i = 0; i < chain.args.size(); ++i) views[i + 1] = Block(chain.args[i], row, rows, p.n);
  vector::RunTensors(*chain.program, {views.data(), inputs},
                     {views.data() + inputs, chain.args.size() + 1 - inputs}, chain.row_rank);
}

}  // namespace

int64_t RegionScratch(std::span<const RowRegion> regions, int64_t n) {
  int64_t rows = 0;
  for (const RowRegion& r : regions) rows = r.fused ? rows : std::max(rows, std::min(r.block, r.rows));
  return rows * n;
}

void RunRegions(const Params& p, const RegionChain& chain, std::span<const RowRegion> regions,
                float* scratch) {
  assert(p.batch == 1 && chain.args.size() < kMaxChainArgs && p.epilogue.args.size() <= kMaxChainArgs);
  const vector::EpilogueArg& out = chain.args.back();
  const vector::PartOfResult whole(p.m * p.n * static_cast<int64_t>(SizeOf(out.dtype)));
  // A few rows alone might take another path, which may sum in another order.
  Params same = p;
  same.path = ChoosePath(p);
  int64_t row = 0;
  for (const RowRegion& r : regions) {
    for (int64_t i = 0; i < r.rows; i += r.block) {
      const int64_t rows = std::min(r.block, r.rows - i);
      assert(!r.fused || chain.row_rank == 0);
      if (r.fused) {
        RunFused(same, row + i, rows);
      } else {
        RunSplit(same, chain, row + i, rows, scratch);
      }
    }
    row += r.rows;
  }
  assert(row == p.m);
}

}  // namespace opsnn::gemm
