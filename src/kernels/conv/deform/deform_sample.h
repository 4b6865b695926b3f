// Sampling between pixels for deformable convolution: one vector of channels per place.
#ifndef OPSNN_KERNELS_CONV_DEFORM_DEFORM_SAMPLE_H_
#define OPSNN_KERNELS_CONV_DEFORM_DEFORM_SAMPLE_H_

#include <cstdint>

namespace opsnn::conv {

// The four pixels around a place and how far it lies from the first.
struct Corners {
  int32_t at[4] = {};  // pixels: top left, top right, bottom left, bottom right
  float down = 0, right = 0, mask = 1;
};

// out[p][lane] = mask * x(place p) for one block of channels: x[pixel][kC0].
void SampleBlock(const float* x, const Corners* corners, int64_t pixels, float* out);

// Where gradients by places are added, per pixel; mask may be absent.
struct PlaceGrads {
  float *down = nullptr, *right = nullptr, *mask = nullptr;
};
// Adds those of one block of channels whose sampled values have the gradients g[pixel][kC0]; `lanes` of them
// are channels.
void AddPlaceGrads(const float* x, const Corners* corners, int64_t pixels, const float* g, int lanes,
                   const PlaceGrads& to);

// dx[pixel][kC0] += g times mask and share, for the four pixels around every place.
void SpreadBlock(const Corners* corners, int64_t pixels, const float* g, float* dx);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_DEFORM_DEFORM_SAMPLE_H_
