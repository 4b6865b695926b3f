#include "ocr/image.h"

#include <algorithm>

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include "stb_image.h"
#include "stb_image_resize.h"
#pragma GCC diagnostic pop

namespace ocr {

opsnn::Result<Image> ReadImage(const std::string& path) {
  int width = 0, height = 0, channels = 0;
  uint8_t* pixels = stbi_load(path.c_str(), &width, &height, &channels, 3);
  if (!pixels) {
    return opsnn::Status(opsnn::Code::kInvalid,
                         path + ": not a readable PNG or JPEG image (" + stbi_failure_reason() + ")");
  }
  Image image{width, height, std::vector<uint8_t>(pixels, pixels + size_t{3} * width * height)};
  stbi_image_free(pixels);
  return image;
}

Image Crop(const Image& image, int x0, int y0, int x1, int y1) {
  x0 = std::clamp(x0, 0, image.width - 1);
  y0 = std::clamp(y0, 0, image.height - 1);
  x1 = std::clamp(x1, x0 + 1, image.width);
  y1 = std::clamp(y1, y0 + 1, image.height);
  Image part{x1 - x0, y1 - y0, {}};
  part.rgb.reserve(size_t{3} * part.width * part.height);
  for (int y = y0; y < y1; ++y) {
    const uint8_t* row = image.rgb.data() + size_t{3} * (size_t{1} * y * image.width + x0);
    part.rgb.insert(part.rgb.end(), row, row + size_t{3} * part.width);
  }
  return part;
}

Image Resize(const Image& image, int width, int height) {
  if (width == image.width && height == image.height) return image;
  Image out{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
  stbir_resize_uint8(image.rgb.data(), image.width, image.height, 0, out.rgb.data(), width, height, 0, 3);
  return out;
}

Image Rotate180(const Image& image) {
  Image out = image;
  const size_t n = size_t{1} * image.width * image.height;
  for (size_t i = 0; i < n; ++i) std::copy_n(&image.rgb[3 * i], 3, &out.rgb[3 * (n - 1 - i)]);
  return out;
}

opsnn::Result<opsnn::Tensor> ToTensor(const Image& image, const float mean[3], const float deviation[3],
                                      int pad_to) {
  const int width = std::max(image.width, pad_to);
  auto tensor = opsnn::Tensor::Make(opsnn::DType::kF32, {1, 3, image.height, width});
  if (!tensor.ok()) return tensor;
  float* out = tensor->data<float>();
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < image.height; ++y) {
      float* row = out + (size_t{1} * c * image.height + y) * width;
      std::fill(row, row + width, 0.0f);
      for (int x = 0; x < image.width; ++x) {
        const uint8_t pixel = image.rgb[size_t{3} * (size_t{1} * y * image.width + x) + (2 - c)];
        row[x] = (static_cast<float>(pixel) / 255.0f - mean[c]) / deviation[c];
      }
    }
  }
  return tensor;
}

}  // namespace ocr
