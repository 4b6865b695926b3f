#include "kernels/conv/candidates.h"

#include "base/int_math.h"
#include "kernels/conv/columns.h"
#include "kernels/conv/winograd.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t Blocked(int64_t channels) { return RoundUp(channels, int64_t{kC0}); }

// Of the plain sum: every output lane of every block, whatever falls outside the input.
double PlainMultiplyAdds(const ConvShape& s) {
  const double taps =
      static_cast<double>(s.taps()) / static_cast<double>(s.transposed ? s.sd * s.sh * s.sw : 1);
  return static_cast<double>(s.n * Blocked(s.oc) * s.out_plane()) * static_cast<double>(s.c / s.groups) *
         taps;
}

int64_t WinogradTiles(const ConvShape& s, int m) { return s.n * CeilDiv(s.oh, m) * CeilDiv(s.ow, m); }

Candidate Winograd(const ConvShape& s, int m) {
  Candidate c;
  c.name = StrFormat("winograd, tiles of %dx%d outputs", m, m);
  ConvShape asked = s;
  asked.winograd = m;
  if (const char* refusal = Refusal(asked, Variant::kWinograd)) {
    c.refused = refusal;
    return c;
  }
  const int64_t side = WinogradTileSide(s, m), points = side * side * WinogradTiles(s, m);
  c.multiply_adds = static_cast<double>(points * Blocked(s.oc)) * static_cast<double>(s.c);
  c.buffer_bytes = points * (Blocked(s.c) + Blocked(s.oc)) * kFloatBytes;
  constexpr double kMega = 1e6;
  const double cycles = PredictedCycles(s, m) / kMega, direct = PredictedCycles(s, 0) / kMega,
               growth = WinogradGrowth(m, static_cast<int>(s.kh), s.c);
  const int fastest = ChooseWinograd(s);
  if (s.winograd == m) return c;
  if (s.winograd != 0) {
    c.refused = StrFormat("tiles of %dx%d were asked for", s.winograd, s.winograd);
  } else if (fastest == m) {
    c.refused = StrFormat(
        "its error, up to %.0f eps of the largest sum of a tile, is not accepted; it would take "
        "%.2f Mcycles, the plain sum %.2f",
        growth, cycles, direct);
  } else if (fastest != 0) {
    c.refused = StrFormat("expected to take %.2f Mcycles, tiles of %dx%d %.2f", cycles, fastest, fastest,
                          PredictedCycles(s, fastest) / kMega);
  } else {
    c.refused =
        StrFormat("expected to take %.2f Mcycles, the plain sum %.2f with a smaller error", cycles, direct);
  }
  return c;
}

Candidate Plain(const ConvShape& s, Variant v) {
  Candidate c;
  c.name = v == Variant::kPointwise ? "pointwise, 1x1 as a product" : Name(v);
  if (const char* refusal = Refusal(s, v)) {
    c.refused = refusal;
    return c;
  }
  c.multiply_adds = v == Variant::kDepthwise
                        ? static_cast<double>(s.n * Blocked(s.oc) * s.out_plane() * s.taps())
                        : PlainMultiplyAdds(s);
  // The first layer reads a copy of its rows with the padding written out.
  if (v == Variant::kFirstLayer)
    c.buffer_bytes = s.n * s.c * ((s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1) *
                     ((s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1) * kFloatBytes;
  return c;
}

// Columns [image][channel, tap][output pixel] in memory, then one product per group. Transposed: the product
// first, whose columns are then added up; that form stands for comparison alone.
Candidate Columns(const ConvShape& s) {
  Candidate c;
  c.name = s.transposed ? "product with col2im" : "im2col with a product";
  c.multiply_adds =
      s.transposed
          ? static_cast<double>(s.n * s.plane() * s.c * s.taps()) * static_cast<double>(s.oc / s.groups)
          : static_cast<double>(s.n * s.oc * s.out_plane() * s.taps()) * static_cast<double>(s.c / s.groups);
  c.buffer_bytes = s.n * s.taps() * (s.transposed ? s.oc * s.plane() : s.c * s.out_plane()) * kFloatBytes;
  const char* const refusal = ColumnsRefusal(s);
  if (!refusal) c.buffer_bytes = ColumnFloats(s) * kFloatBytes;  // in whole blocks
  if (s.im2col && !refusal) return c;
  constexpr double kMiB = 1 << 20;
  c.refused = StrFormat("writes and reads back %.2f MiB of columns, %.1f times the input",
                        static_cast<double>(c.buffer_bytes) / kMiB,
                        static_cast<double>(c.buffer_bytes) /
                            static_cast<double>(std::max<int64_t>(1, s.n * s.c * s.plane() * kFloatBytes)));
  c.refused += refusal ? std::string("; not implemented for ") + refusal : "; runs where it is asked for";
  return c;
}

}  // namespace

std::vector<Candidate> Candidates(const ConvShape& shape) {
  const ConvShape s = AsKernelsSee(shape);
  std::vector<Candidate> all;
  for (const Variant v : VariantsFor(s)) {
    if (v == Variant::kWinograd) {
      all.push_back(Winograd(s, 4));
      all.push_back(Winograd(s, 2));
    } else {
      all.push_back(Plain(s, v));
    }
  }
  all.push_back(Columns(s));
  if (all.back().refused.empty()) {
    for (size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].refused.empty()) all[i].refused = "im2col was asked for";
    return all;
  }
  const Candidate* chosen = nullptr;
  for (Candidate& c : all) {
    if (!c.refused.empty()) continue;
    if (chosen) c.refused = "not needed: " + chosen->name + " comes first";
    if (!chosen) chosen = &c;
  }
  return all;
}

BlockPadding PaddingOfBlocks(const ConvShape& shape) {
  const ConvShape s = AsKernelsSee(shape);
  BlockPadding p;
  const bool few = !s.transposed && s.groups == 1 && !Refusal(s, Variant::kFirstLayer);  // read as it is
  p.in_channels = few ? 0 : Blocked(s.c) - s.c;
  p.out_channels = Blocked(s.oc) - s.oc;
  p.bytes = s.n * (p.in_channels * s.plane() + p.out_channels * s.out_plane()) * kFloatBytes;
  p.products = static_cast<double>(p.out_channels) / static_cast<double>(std::max<int64_t>(1, Blocked(s.oc)));
  if (p.in_channels == 0 && p.out_channels == 0) return p;
  p.hint = StrFormat(
      "blocks of %d channels: %lld of %lld input and %lld of %lld output channels are padding, %.0f %% "
      "of the products and %.2f MiB",
      kC0, static_cast<long long>(p.in_channels), static_cast<long long>(s.c + p.in_channels),
      static_cast<long long>(p.out_channels), static_cast<long long>(s.oc + p.out_channels), 100 * p.products,
      static_cast<double>(p.bytes) / (1 << 20));
  if (p.out_channels > 0)
    p.hint += StrFormat("; %lld output channels would cost the same", static_cast<long long>(Blocked(s.oc)));
  return p;
}

}  // namespace opsnn::conv
