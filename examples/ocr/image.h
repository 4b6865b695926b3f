// 8-bit RGB images: reading, cropping, resizing, and the float tensors that the models take.
#ifndef EXAMPLES_OCR_IMAGE_H_
#define EXAMPLES_OCR_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opsnn/status.h"
#include "opsnn/tensor.h"

namespace ocr {

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // row-major, three bytes a pixel
};

// PNG or JPEG. The error names the file and the decoder's reason.
opsnn::Result<Image> ReadImage(const std::string& path);
// The part [x0, x1) x [y0, y1), clipped to the image.
Image Crop(const Image& image, int x0, int y0, int x1, int y1);
Image Resize(const Image& image, int width, int height);
Image Rotate180(const Image& image);

// A 1 x 3 x height x max(width, pad_to) tensor in BGR order, (pixel / 255 - mean) / deviation; columns beyond
// the image are 0.
opsnn::Result<opsnn::Tensor> ToTensor(const Image& image, const float mean[3], const float deviation[3],
                                      int pad_to = 0);

}  // namespace ocr

#endif  // EXAMPLES_OCR_IMAGE_H_
