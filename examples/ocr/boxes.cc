#include <algorithm>
#include <cmath>

#include "ocr/pipeline.h"

namespace ocr {
namespace {

constexpr float kPixelThreshold = 0.3f;  // of the detector's training, as are the next two
constexpr float kBoxThreshold = 0.6f;
constexpr float kUnclipRatio = 1.5f;
constexpr int kMinSide = 3;  // map pixels; smaller regions are noise

}  // namespace

std::vector<Box> FindBoxes(const float* probability, int height, int width) {
  std::vector<Box> boxes;
  std::vector<bool> seen(size_t{1} * height * width, false);
  std::vector<int> stack;
  for (int start = 0; start < height * width; ++start) {
    if (seen[start] || probability[start] <= kPixelThreshold) continue;
    Box box{width, height, 0, 0, 0};
    double sum = 0;
    int count = 0;
    stack.assign(1, start);
    seen[start] = true;
    while (!stack.empty()) {  // flood fill over the eight neighbours
      const int at = stack.back(), x = at % width, y = at / width;
      stack.pop_back();
      box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x + 1), std::max(box.y1, y + 1), 0};
      sum += probability[at];
      ++count;
      for (int ny = std::max(0, y - 1); ny <= std::min(height - 1, y + 1); ++ny) {
        for (int nx = std::max(0, x - 1); nx <= std::min(width - 1, x + 1); ++nx) {
          const int next = ny * width + nx;
          if (seen[next] || probability[next] <= kPixelThreshold) continue;
          seen[next] = true;
          stack.push_back(next);
        }
      }
    }
    const int w = box.x1 - box.x0, h = box.y1 - box.y0;
    box.score = static_cast<float>(sum / count);
    if (std::min(w, h) < kMinSide || box.score < kBoxThreshold) continue;
    // The map marks the shrunken core of a line; area * ratio / perimeter is how far its edge lies outside.
    const int grow = static_cast<int>(std::lround(kUnclipRatio * w * h / (2.0f * (w + h))));
    box.x0 = std::max(0, box.x0 - grow);
    box.y0 = std::max(0, box.y0 - grow);
    box.x1 = std::min(width, box.x1 + grow);
    box.y1 = std::min(height, box.y1 + grow);
    boxes.push_back(box);
  }
  return boxes;
}

std::string DecodeCtc(const float* probability, int steps, int classes,
                      const std::vector<std::string>& keys) {
  std::string text;
  int last = 0;
  for (int t = 0; t < steps; ++t) {
    const float* row = probability + size_t{1} * t * classes;
    const int best = static_cast<int>(std::max_element(row, row + classes) - row);
    if (best != 0 && best != last && best <= static_cast<int>(keys.size())) text += keys[best - 1];
    last = best;
  }
  return text;
}

}  // namespace ocr
