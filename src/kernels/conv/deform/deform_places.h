// What deformable convolution and its gradient share: images in blocks of channels, and places between
// pixels.
#ifndef OPSNN_KERNELS_CONV_DEFORM_DEFORM_PLACES_H_
#define OPSNN_KERNELS_CONV_DEFORM_DEFORM_PLACES_H_

#include <vector>

#include "base/int_math.h"
#include "kernels/conv/deform/deform.h"
#include "kernels/conv/deform/deform_sample.h"

namespace opsnn::conv {

inline int64_t SegmentBlocks(const DeformSegment& s) { return CeilDiv(s.count, int64_t{kC0}); }

// By convolution group; *x_blocks: how many blocks an image has.
std::vector<std::vector<DeformSegment>> DeformSegments(const ConvShape& s, int64_t offset_groups,
                                                       int64_t* x_blocks);

// Channels of a group's columns: [segment][tap][block][lane].
int64_t ColumnChannels(const ConvShape& s, const std::vector<DeformSegment>& segments);

// Everything but what only one of them needs.
enum class DeformProduct : uint8_t { kFromColumns, kToColumns };
void PlanDeformColumns(const ConvShape& s, int64_t offset_groups, DeformProduct product, DeformColumns* p);

// Pixels of a blocked plane, and one more for what lies outside.
inline int64_t DeformPlaneFloats(const ConvShape& s) { return (s.plane() + 1) * kC0; }

// The blocks of one image x (C, H, W), with zeros outside.
void BlockDeformImage(const ConvShape& s, const std::vector<std::vector<DeformSegment>>& segments,
                      const float* x, float* blocked);

// Shifts and factors of places.
struct DeformFields {
  DeformField dy, dx, mask;
};
// Output pixels of some rows of one image; arrays hold `room` pixels.
struct DeformRows {
  int64_t n = 0, row = 0, pixels = 0, room = 0;
};
// corners[(offset group * taps + tap) * room + pixel]
void FindCorners(const ConvShape& s, int64_t offset_groups, const DeformFields& fields,
                 const DeformRows& rows, Corners* corners);

// Both runs' view of their workspace.
class DeformWorkspace {
 protected:
  DeformWorkspace(const DeformColumns& plan, void* workspace)
      : columns_(plan), ws_(static_cast<char*>(workspace)) {}
  float* Floats(size_t offset) const { return reinterpret_cast<float*>(ws_ + offset); }
  int64_t ChunkPixels() const { return columns_.chunk_pixels(); }
  Corners* corners() const { return reinterpret_cast<Corners*>(ws_ + columns_.corners_offset); }

  const DeformColumns& columns_;
  char* const ws_;
};

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_DEFORM_DEFORM_PLACES_H_
