// Where the register tiles over a range of output rows lie, what they read and which of it is padding.
#ifndef OPSNN_KERNELS_CONV_TILING_H_
#define OPSNN_KERNELS_CONV_TILING_H_

#include <cstdint>
#include <vector>

#include "kernels/conv/conv.h"
#include "kernels/conv/tile.h"

namespace opsnn::conv {

// One register tile of pixels: where they are, shared by all output groups.
struct TileGeometry {
  const TileKernel* kernel = nullptr;
  int pixels = 0;
  int64_t repeat = 1;  // row tiles: neighbours that one call does
  int64_t masks = -1;  // index of its first mask, or -1 when every tap of every pixel lies in the image
  Step step = Step::kTable;
  bool in_row = false;
  bool skips = false;  // as TileArgs::skips: only for tiles whose place depends on the shape alone
  int slice_begin = 0, slice_end = 1;  // slices of the kernel that lie in the volume
  // Row tiles: offsets of the first pixel; table tiles: what is added to those of the table.
  int64_t x = 0, y = 0;
  int64_t table = -1;  // table tiles: index of the first of their input offsets, then their output offsets
};

// Rows [begin, end) of the phase grid, counted through all slices of all images.
struct RowRange {
  int64_t begin = 0, end = 0;
  bool operator==(const RowRange&) const = default;
};

struct TileSet {
  std::vector<TileGeometry> tiles;
  std::vector<int64_t> offsets;
  std::vector<uint32_t> masks, column_masks;
  std::vector<const TileKernel*> across;  // the tiles of a row
  // Tiles of rows that meet the same padding, as placed in row `row` of the first slice of the first image.
  struct RowForm {
    int64_t row = 0;
    bool inner = false;  // no padding on top or below
    size_t begin = 0, end = 0;
  };
  std::vector<RowForm> forms;
  std::vector<TileGeometry> form_tiles;
};

class Tiling {
 public:
  explicit Tiling(const ConvPlan& plan);
  // Tiles over the pixels of `rows` in one phase, flattened across rows and images.
  void Make(const Phase& phase, RowRange rows, int blocks, TileSet* set) const;
  int64_t slices() const { return slices_; }      // of the longest phase
  int64_t rows() const { return rows_; }          // of one of its slices
  int64_t padded_w() const { return padded_w_; }  // first layer: columns of the padded copy of the input

 private:
  bool first_layer() const { return plan_.variant == Variant::kFirstLayer; }
  Step ChooseStep() const;
  void MakeRowTiles(RowRange rows, int blocks, TileSet* set) const;
  void MakeTilesOfRows(const Phase& phase, RowRange rows, RowRange have, TileSet* set) const;
  const TileSet::RowForm& FormOf(const Phase& phase, RowRange rows, int64_t row, TileSet* set) const;
  void MakeRow(const Phase& phase, RowRange rows, int64_t row, TileSet* set,
               std::vector<TileGeometry>* tiles) const;
  // `most`: neighbours of the tile in its row, it included, that have its width.
  void ExtendAlongRow(const Phase& phase, int64_t x, int64_t most, TileGeometry* tile, TileSet* set) const;
  void PlacePixels(const Phase& phase, const RowRange& rows, int64_t first, TileGeometry* tile,
                   TileSet* set) const;
  // Input positions of a tile's pixels under a tap of offset 0.
  struct Positions {
    int64_t y[kMaxPixels], x[kMaxPixels];
  };
  bool Inside(const Phase& phase, const Positions& at, int pixels) const;
  void FindSlices(const Phase& phase, int64_t z, TileGeometry* tile) const;
  void MakeMasks(const Phase& phase, const Positions& at, TileGeometry* tile, TileSet* set) const;

  const ConvPlan& plan_;
  const ConvShape& s_;
  int64_t blocks_ = 0, in_blocks_ = 0, slices_ = 0, rows_ = 0, padded_w_ = 0;
  Step step_ = Step::kTable;
};

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_TILING_H_
