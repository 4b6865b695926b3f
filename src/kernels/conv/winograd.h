// Winograd's minimal filtering F(m x m, r x r) for stride 1: an input tile of n^2 pixels, n = m + r - 1, and
// the kernel are transformed, multiplied point by point, summed over channels as n^2 products of matrices,
// and transformed back to m x m outputs.
//
//   Y = A' [ (G g G') . (B' d B) ] A        n = 4: points 0, 1, -1, inf;  n = 6: 0, 3/4, -3/4, 3/2, -3/2, inf
//
// The products take r^2 m^2 / n^2 times fewer multiplications: for r = 3 2.25 (m = 2) and 4 (m = 4), for r =
// 5 2.78 (m = 2). The points of n = 6 are exact in binary and chosen for their error: with r = 3 about 1.8
// times that of the direct sum (root mean square, 128 channels; with the usual points 1 and 2 it is 3.5; n =
// 4 gives 0.6); the bound of r = 5 is the same. A Winograd output carries rounding of its whole tile, so its
// error is relative to the largest values there, not to its own terms: kernel users state the bound through
// WinogradGrowth. So two kinds of tiles are computed as plain sums: those in which an output sees values
// kWinogradRange times smaller than the tile's largest (one bright pixel in the dark, or nothing but
// padding), and those with a result that is not finite, so that infinities and NaN reach the outputs whose
// window covers them and no others.
//
// Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2015 (the algorithm); Toom, Cook (the
// matrices for given points).
#ifndef OPSNN_KERNELS_CONV_WINOGRAD_H_
#define OPSNN_KERNELS_CONV_WINOGRAD_H_

#include <algorithm>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

inline constexpr float kWinogradRange = 256;

// Why Winograd cannot compute this shape; null if it can.
const char* WinogradRefusal(const ConvShape& s);

// The transform matrices for points 0, p, -p(, q, -q) and infinity, row major: in = B' (n x n), weights = G
// (n x r), out = A' (m x n), n = m + r - 1.
struct WinogradMatrices {
  int m = 0, r = 0, n = 0;
  double in[36] = {}, weights[30] = {}, out[24] = {};
};
WinogradMatrices MatricesOf(int m, int r);
// Pixels per side of an input tile.
inline int WinogradTileSide(const ConvShape& s, int m) { return m + static_cast<int>(s.kh) - 1; }

// Lays out oc_groups' weights: one run per point, then the plain weights for tiles that are computed again.
void LayOutWinograd(ConvPlan* plan);
// Floats of workspace for the magnitudes of pixels and a byte for each tile.
int64_t WinogradMagnitudeFloats(const ConvShape& s);
void PackWinograd(const ConvPlan& plan, const float* w, float* packed);
void RunWinograd(const ConvPlan& plan, const ConvArgs& args);

// Bytes of transformed tiles that are worked on together. Beside weights that stay in L2 they should stay
// there too; weights that come from memory each time should come seldom.
inline int64_t WinogradChunkBytes(int64_t weight_bytes) {
  constexpr int64_t kResidentWeights = 1 << 20, kInL2 = 640 << 10, kLeast = 2 << 20, kMost = 16 << 20;
  return weight_bytes <= kResidentWeights ? kInL2 : std::clamp(weight_bytes / 4, kLeast, kMost);
}

// out[p] = largest |x| over the channels at pixel p of a row; x as in WinogradPlain.
void PixelMagnitudes(const float* x, int64_t plane, int64_t channels, int64_t pixels, float* out);

// ---- one tile and one block of channels (winograd_transform.cc)

struct WinogradInput {
  const float* x = nullptr;   // pixel (0, 0) of the channel block
  int64_t h = 0, w = 0;       // of the image
  int64_t top = 0, left = 0;  // of the tile; may lie outside
  float* v = nullptr;         // point 0 of the tile
  int64_t point_stride = 0;   // floats between points
};
void TransformInput(int n, const WinogradInput& in);

// What the plain sums of one tile need: x and weights from the first input channel on.
struct WinogradPlain {
  const float* x = nullptr;  // pixel (0, 0) of the image, in its first block
  int64_t plane = 0;         // floats between its blocks
  int64_t channels = 0, h = 0, w = 0;
  int64_t top = 0, left = 0;       // of the tile in the image; may lie outside
  const float* weights = nullptr;  // [channel][tap][kC0]
};

struct WinogradOutput {
  const float* v = nullptr;  // point 0 of the tile
  int64_t point_stride = 0;
  const float* bias = nullptr;      // [kC0] or null
  const float* residual = nullptr;  // as y, or null
  float* y = nullptr;               // first output pixel of the tile
  int64_t row_stride = 0;           // floats between rows of y
  int rows = 0, cols = 0;           // stored, at most m
  const Post* post = nullptr;
  // The same outputs as plain sums: where a result is not finite, or always if `plain`.
  WinogradPlain sums;
  bool plain = false;
};
void TransformOutput(int m, int r, const WinogradOutput& out);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_WINOGRAD_H_
