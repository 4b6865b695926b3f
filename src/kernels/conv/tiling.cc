#include "kernels/conv/tiling.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

#include "base/int_math.h"
#include "kernels/conv/segments.h"

namespace opsnn::conv {
namespace {

std::array<std::vector<TileKernel>, isa::kNumTiers> MakeTileLists() {
  std::array<std::vector<TileKernel>, isa::kNumTiers> lists;
  for (int t = 0; t < isa::kNumTiers; ++t) {
    for (const auto& tiles : {OneBlockTiles, TwoBlockTiles, ManyBlockTiles}) {
      const std::span<const TileKernel> s = tiles(static_cast<isa::Tier>(t));
      lists[t].insert(lists[t].end(), s.begin(), s.end());
    }
  }
  return lists;
}

const std::vector<TileKernel>& TileList(isa::Tier tier) {
  static const auto lists = MakeTileLists();
  return lists[static_cast<int>(tier)];
}

// Cuts rows of `cols` pixels into register tiles: as few as there must be, and as even as the tier's shapes
// allow. No tiles where they would be narrow or compute many pixels for nothing: rows are then better strung
// together.
void CutRow(isa::Tier tier, int blocks, int64_t cols, std::vector<const TileKernel*>* across) {
  constexpr double kMostSpare = 0.05;
  across->clear();
  const int64_t widest = FindTile(tier, blocks, kMaxPixels).pixels;
  int64_t at = 0;
  for (int64_t tiles = CeilDiv(cols, widest); tiles > 0; --tiles) {
    const TileKernel& k = FindTile(tier, blocks, CeilDiv(cols - at, tiles));
    if (2 * k.pixels < widest) return across->clear();
    across->push_back(&k);
    at += k.pixels;
    if (at >= cols) break;
  }
  if (static_cast<double>(at - cols) > kMostSpare * static_cast<double>(cols)) across->clear();
}

constexpr int64_t StepFloats(Step s) { return s == Step::kBlock ? kC0 : s == Step::kTwo ? 2 : 1; }

}  // namespace

const TileKernel& FindTile(isa::Tier tier, int blocks, int64_t pixels) {
  const TileKernel* best = nullptr;
  for (const TileKernel& k : TileList(tier)) {
    if (k.blocks != blocks) continue;
    best = &k;
    if (k.pixels >= pixels) break;
  }
  assert(best);
  return *best;
}

const TileKernel& FindRowTile(isa::Tier tier, int blocks, int64_t pixels) {
  const TileKernel* k = &FindTile(tier, blocks, pixels);
  while (!k->For(Step::kBlock)) k = &FindTile(tier, blocks, k->pixels + 1);
  return *k;
}

int MaxBlocks(isa::Tier tier) {
  int most = 1;
  for (const TileKernel& k : TileList(tier)) most = std::max(most, k.blocks);
  return most;
}

Tiling::Tiling(const ConvPlan& plan) : plan_(plan), s_(plan.shape) {
  blocks_ = CeilDiv(s_.oc, kC0);
  in_blocks_ = CeilDiv(s_.c, kC0);
  for (const Phase& p : plan.phases) {
    slices_ = std::max(slices_, p.slices);
    rows_ = std::max(rows_, p.rows);
  }
  if (first_layer()) padded_w_ = (s_.ow - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1;
  step_ = ChooseStep();
}

// Row tiles need pixels that are neighbours in input and output alike and never at a border.
Step Tiling::ChooseStep() const {
  if (plan_.variant == Variant::kPointwise) return Step::kBlock;
  if (first_layer() && s_.sw == 1) return Step::kOne;
  if (first_layer() && s_.sw == 2) return Step::kTwo;
  return Step::kTable;
}

void Tiling::Make(const Phase& phase, RowRange rows, int blocks, TileSet* set) const {
  set->tiles.clear();
  set->offsets.clear();
  set->masks.clear();
  if (step_ != Step::kTable) return MakeRowTiles(rows, blocks, set);
  // Rows of the range that this phase has: phases may be a slice or a row shorter than the longest.
  const auto before = [&](int64_t r) {
    const int64_t slice = r / rows_, z = slice % slices_;
    const int64_t rest =
        z < phase.slices ? z * phase.rows + std::min(r % rows_, phase.rows) : phase.slices * phase.rows;
    return slice / slices_ * phase.slices * phase.rows + rest;
  };
  const RowRange have{before(rows.begin), before(rows.end)};
  CutRow(plan_.tier, blocks, phase.cols, &set->across);
  if (!set->across.empty()) return MakeTilesOfRows(phase, rows, have, set);
  const int64_t end = have.end * phase.cols;
  for (int64_t at = have.begin * phase.cols; at < end;) {
    // Tiles of a volume keep to a slice: the taps that fall outside are then those of whole kernel slices.
    const int64_t slice = phase.rows * phase.cols;
    const int64_t left = s_.flat() ? end - at : std::min(end, (at / slice + 1) * slice) - at;
    const TileKernel& kernel = FindTile(plan_.tier, blocks, left);
    TileGeometry& tile = set->tiles.emplace_back();
    tile.kernel = &kernel;
    tile.pixels = static_cast<int>(std::min<int64_t>(kernel.pixels, left));
    PlacePixels(phase, rows, at, &tile, set);
    ExtendAlongRow(phase, at % phase.cols, phase.cols / kernel.pixels, &tile, set);
    at += tile.pixels * tile.repeat;
  }
}

// Tiles that keep to a row each: most of their taps have all pixels in a row of the image, or all but one.
// Rows that meet the same padding differ by where they begin alone.
void Tiling::MakeTilesOfRows(const Phase& phase, RowRange rows, RowRange have, TileSet* set) const {
  set->forms.clear(), set->form_tiles.clear();
  for (int64_t r = have.begin; r < have.end; ++r) {
    const int64_t row = r % phase.rows, slice = r / phase.rows, z = slice % phase.slices,
                  n = slice / phase.slices;
    const TileSet::RowForm& form = FormOf(phase, rows, row, set);
    const int64_t down = row - form.row;
    const int64_t x =
        first_layer()
            ? down * s_.sh * padded_w_
            : (((n * in_blocks_ * s_.d + z * plan_.in_step_d) * s_.h + down * plan_.in_step_h) * s_.w) * kC0;
    const int64_t y =
        (((n * blocks_ * s_.od + z * plan_.out_step_d) * s_.oh + down * plan_.out_step_h) * s_.ow) * kC0;
    for (size_t i = form.begin; i < form.end; ++i) {
      TileGeometry& tile = set->tiles.emplace_back(set->form_tiles[i]);
      tile.x += x, tile.y += y;
      if (!s_.flat() && !phase.taps.empty()) FindSlices(phase, z * plan_.in_step_d, &tile);
    }
  }
}

const TileSet::RowForm& Tiling::FormOf(const Phase& phase, RowRange rows, int64_t row, TileSet* set) const {
  bool inner = true;
  if (!phase.taps.empty()) {
    const auto [low, high] = std::minmax(phase.taps.front().dy, phase.taps.back().dy);
    inner = row * plan_.in_step_h + low >= 0 && row * plan_.in_step_h + high < s_.h;
  }
  for (const TileSet::RowForm& form : set->forms)
    if (inner ? form.inner : form.row == row) return form;
  const size_t begin = set->form_tiles.size();
  MakeRow(phase, rows, row, set, &set->form_tiles);
  return set->forms.emplace_back(TileSet::RowForm{row, inner, begin, set->form_tiles.size()});
}

void Tiling::MakeRow(const Phase& phase, RowRange rows, int64_t row, TileSet* set,
                     std::vector<TileGeometry>* tiles) const {
  int64_t x = 0;
  for (size_t i = 0; i < set->across.size();) {
    const TileKernel& kernel = *set->across[i];
    TileGeometry& tile = tiles->emplace_back();
    tile.kernel = &kernel;
    tile.pixels = static_cast<int>(std::min<int64_t>(kernel.pixels, phase.cols - x));
    tile.skips = true;
    PlacePixels(phase, rows, row * phase.cols + x, &tile, set);
    size_t next = i + 1;
    while (next < set->across.size() && set->across[next] == &kernel) ++next;
    ExtendAlongRow(phase, x, static_cast<int64_t>(next - i), &tile, set);
    x += tile.pixels * tile.repeat;
    i += static_cast<size_t>(tile.repeat);
  }
}

// A table tile whose pixels and followers lie in one row, away from the borders, becomes a repeated row tile.
void Tiling::ExtendAlongRow(const Phase& phase, int64_t x, int64_t most, TileGeometry* tile,
                            TileSet* set) const {
  // Tiles that store a part of their lanes are not repeated.
  const bool plain = plan_.variant != Variant::kGrouped && plan_.in_step_w == 1 && plan_.out_step_w == 1 &&
                     tile->kernel->For(Step::kBlock);
  if (!plain || !tile->in_row || tile->masks >= 0 || phase.taps.empty()) return;
  const int64_t reach = std::max(phase.taps.front().dx, phase.taps.back().dx);
  tile->repeat = std::min(most, (std::min(phase.cols, s_.w - reach) - x) / tile->kernel->pixels);
  tile->x = set->offsets[static_cast<size_t>(tile->table)];
  tile->y = set->offsets[static_cast<size_t>(tile->table + tile->kernel->pixels)];
  set->offsets.resize(static_cast<size_t>(tile->table));
  tile->table = -1;
  tile->step = Step::kBlock;
}

// Tiles of neighbouring pixels: of a row (first layer), or of a range of rows of one image (pointwise).
void Tiling::MakeRowTiles(RowRange rows, int blocks, TileSet* set) const {
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t n = r / s_.oh, y = r % s_.oh;
    const int64_t next = first_layer() ? r + 1 : std::min(rows.end, (n + 1) * s_.oh);
    const int64_t count = (next - r) * s_.ow;
    const int64_t x0 =
        first_layer() ? (r - rows.begin) * s_.sh * padded_w_ : (n * in_blocks_ * s_.oh + y) * s_.ow * kC0;
    const int64_t y0 = (n * blocks_ * s_.oh + y) * s_.ow * kC0;
    for (int64_t at = 0; at < count;) {
      TileGeometry& tile = set->tiles.emplace_back();
      tile.kernel = &FindTile(plan_.tier, blocks, count - at);
      tile.pixels = static_cast<int>(std::min<int64_t>(tile.kernel->pixels, count - at));
      // Row tiles read all their pixels: in an image, a partly filled one would leave it at the end.
      if (!first_layer() && (!tile.kernel->For(Step::kBlock) || tile.pixels < tile.kernel->pixels)) {
        PlacePixels(plan_.phases[0], rows, r * s_.ow + at, &tile, set);
      } else {
        tile.step = step_;
        tile.x = x0 + at * StepFloats(step_);
        tile.y = y0 + at * kC0;
        tile.repeat = std::max<int64_t>(1, (count - at) / tile.kernel->pixels);
      }
      at += tile.pixels * tile.repeat;
    }
    r = next;
  }
}

void Tiling::PlacePixels(const Phase& phase, const RowRange& rows, int64_t first, TileGeometry* tile,
                         TileSet* set) const {
  int64_t x = first % phase.cols, y = first / phase.cols % phase.rows,
          z = first / phase.cols / phase.rows % phase.slices,
          n = first / phase.cols / phase.rows / phase.slices;
  const int64_t first_z = z;
  Positions at;
  const int in_tile = tile->kernel->pixels;
  tile->table = static_cast<int64_t>(set->offsets.size());
  set->offsets.resize(set->offsets.size() + 2 * static_cast<size_t>(in_tile));
  int64_t* pixel_offset = set->offsets.data() + tile->table;
  int64_t* out_offset = pixel_offset + in_tile;
  for (int p = 0; p < tile->pixels; ++p) {
    at.y[p] = y * plan_.in_step_h;
    at.x[p] = x * plan_.in_step_w;
    if (first_layer()) {
      pixel_offset[p] = (y - rows.begin % s_.oh) * s_.sh * padded_w_ + at.x[p];
    } else {
      pixel_offset[p] =
          (((n * in_blocks_ * s_.d + z * plan_.in_step_d) * s_.h + at.y[p]) * s_.w + at.x[p]) * kC0;
    }
    const int64_t oz = z * plan_.out_step_d, oy = y * plan_.out_step_h, ox = x * plan_.out_step_w;
    out_offset[p] = (((n * blocks_ * s_.od + oz) * s_.oh + oy) * s_.ow + ox) * kC0;  // of phase (0, 0, 0)
    if (++x < phase.cols) continue;
    x = 0;
    if (++y < phase.rows) continue;
    y = 0;
    if (++z == phase.slices) z = 0, ++n;
  }
  for (int p = tile->pixels; p < in_tile; ++p) {
    pixel_offset[p] = pixel_offset[0];
    out_offset[p] = out_offset[0];
    at.y[p] = at.y[0], at.x[p] = at.x[0];
  }
  const bool strided = plan_.in_step_w == 2 && tile->kernel->For(Step::kTable2);
  if (strided) tile->step = Step::kTable2;
  tile->in_row = (plan_.in_step_w == 1 || strided) && tile->pixels == in_tile &&
                 first % phase.cols + in_tile <= phase.cols;
  if (first_layer() || plan_.variant == Variant::kPointwise || phase.taps.empty()) return;
  if (!s_.flat()) FindSlices(phase, first_z * plan_.in_step_d, tile);
  if (!Inside(phase, at, in_tile)) MakeMasks(phase, at, tile, set);
}

bool Tiling::Inside(const Phase& phase, const Positions& at, int pixels) const {
  const Tap &one = phase.taps.front(), &other = phase.taps.back();  // the extreme taps, in either order
  const auto within = [pixels](const int64_t* p, int32_t a, int32_t b, int64_t size) {
    const auto [lo, hi] = std::minmax_element(p, p + pixels);
    return *lo + std::min(a, b) >= 0 && *hi + std::max(a, b) < size;
  };
  return within(at.y, one.dy, other.dy, s_.h) && within(at.x, one.dx, other.dx, s_.w);
}

void Tiling::FindSlices(const Phase& phase, int64_t z, TileGeometry* tile) const {
  const int in_slice = TapsInSlice(phase), slices = static_cast<int>(phase.taps.size()) / in_slice;
  const auto outside = [&](int slice) {
    const int64_t at = z + phase.taps[static_cast<size_t>(slice * in_slice)].dz;
    return at < 0 || at >= s_.d;
  };
  int begin = 0, end = slices;
  while (begin < end && outside(begin)) ++begin;
  while (end > begin && outside(end - 1)) --end;
  tile->slice_begin = begin, tile->slice_end = end;
}

// Which pixels lie inside the image at each tap. The taps of a phase are all triples of some slices, some
// rows and some columns.
void Tiling::MakeMasks(const Phase& phase, const Positions& at, TileGeometry* tile, TileSet* set) const {
  const int pixels = tile->kernel->pixels;
  const auto mask_of = [pixels](const int64_t* p, int64_t d, int64_t size) {
    uint32_t mask = pixels < 32 ? ~0u << pixels : 0;
    for (int i = 0; i < pixels; ++i)
      mask |= uint32_t{static_cast<uint64_t>(p[i] + d) < static_cast<uint64_t>(size)} << i;
    return mask;
  };
  const std::vector<Tap>& taps = phase.taps;
  const auto same_row = [](const Tap& s, const Tap& t) { return s.dz == t.dz && s.dy == t.dy; };
  size_t columns = 0;
  set->column_masks.clear();
  for (; columns < taps.size() && same_row(taps[columns], taps[0]); ++columns) {
    set->column_masks.push_back(mask_of(at.x, taps[columns].dx, s_.w));
  }
  const size_t first = set->masks.size();
  uint32_t all = ~0u, row = 0;
  for (size_t i = 0; i < taps.size(); ++i) {
    if (i % columns == 0) row = mask_of(at.y, taps[i].dy, s_.h);
    set->masks.push_back(row & set->column_masks[i % columns]);
    all &= set->masks.back();
  }
  if (all == ~0u) {
    set->masks.resize(first);
  } else {
    tile->masks = static_cast<int64_t>(first);
  }
}

}  // namespace opsnn::conv
