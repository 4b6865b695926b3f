#include "ocr/pipeline.h"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace ocr {
namespace {

constexpr int kMaxSide = 960;     // longer images are scaled down for the detector
constexpr int kDetMultiple = 32;  // the detector's total stride
constexpr int kLineHeight = 48;   // what the recogniser was trained on
constexpr int kClsWidth = 192;
constexpr int kRecMultiple = 8;  // the recogniser's horizontal stride
constexpr float kTurnThreshold = 0.9f;
constexpr float kDetMean[3] = {0.485f, 0.456f, 0.406f}, kDetDeviation[3] = {0.229f, 0.224f, 0.225f};
constexpr float kHalf[3] = {0.5f, 0.5f, 0.5f};

int RoundTo(double value, int multiple) {
  return std::max(multiple, static_cast<int>(std::lround(value / multiple)) * multiple);
}

opsnn::Result<std::vector<std::string>> ReadKeys(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    keys.push_back(line);
  }
  if (keys.empty()) return opsnn::Status(opsnn::Code::kInvalid, path + ": missing or empty key list");
  keys.push_back(" ");  // the recogniser's last class
  return keys;
}

// Reading order: lines whose boxes overlap by half their height are one line, left to right.
void SortBoxes(std::vector<Box>& boxes) {
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.y0 < b.y0; });
  for (size_t i = 0; i < boxes.size();) {
    size_t j = i + 1;
    while (j < boxes.size() && boxes[j].y0 < (boxes[i].y0 + boxes[i].y1) / 2) ++j;
    std::sort(boxes.begin() + i, boxes.begin() + j, [](const Box& a, const Box& b) { return a.x0 < b.x0; });
    i = j;
  }
}

}  // namespace

opsnn::Result<Pipeline> Pipeline::Load(const std::string& folder, const opsnn::ModelOptions& options) {
  auto det = opsnn::Model::Load(folder + "/ch_PP-OCRv4_det_infer.onnx", options);
  if (!det.ok()) return det.status();
  auto cls = opsnn::Model::Load(folder + "/ch_ppocr_mobile_v2.0_cls_infer.onnx", options);
  if (!cls.ok()) return cls.status();
  auto rec = opsnn::Model::Load(folder + "/ch_PP-OCRv4_rec_infer.onnx", options);
  if (!rec.ok()) return rec.status();
  auto keys = ReadKeys(folder + "/ppocr_keys_v1.txt");
  if (!keys.ok()) return keys.status();
  return Pipeline(std::move(*det), std::move(*cls), std::move(*rec), std::move(*keys));
}

opsnn::Result<opsnn::Tensor> Pipeline::RunOne(const char* name, const opsnn::Tensor& input,
                                              std::vector<Feed>* feeds) {
  if (feeds) feeds->push_back({name, input});
  opsnn::Model& m = model(name);
  auto outputs = m.Run({{m.inputs()[0].name, input}});
  if (!outputs.ok()) return outputs.status();
  return std::move((*outputs)[0]);
}

opsnn::Result<std::vector<Box>> Pipeline::Detect(const Image& image, std::vector<Feed>* feeds) {
  const double scale = std::min(1.0, static_cast<double>(kMaxSide) / std::max(image.width, image.height));
  const int width = RoundTo(image.width * scale, kDetMultiple),
            height = RoundTo(image.height * scale, kDetMultiple);
  auto input = ToTensor(Resize(image, width, height), kDetMean, kDetDeviation);
  if (!input.ok()) return input.status();
  auto map = RunOne("det", *input, feeds);
  if (!map.ok()) return map.status();
  std::vector<Box> boxes = FindBoxes(map->data<float>(), height, width);
  const double sx = static_cast<double>(image.width) / width, sy = static_cast<double>(image.height) / height;
  for (Box& b : boxes) {
    b = {static_cast<int>(b.x0 * sx), static_cast<int>(b.y0 * sy), static_cast<int>(std::ceil(b.x1 * sx)),
         static_cast<int>(std::ceil(b.y1 * sy)), b.score};
  }
  SortBoxes(boxes);
  return boxes;
}

opsnn::Result<std::string> Pipeline::ReadLine(Image line, std::vector<Feed>* feeds) {
  const double ratio = static_cast<double>(line.width) / line.height;
  const int cls_width = std::min(kClsWidth, RoundTo(kLineHeight * ratio, 1));
  auto cls_input = ToTensor(Resize(line, cls_width, kLineHeight), kHalf, kHalf, kClsWidth);
  if (!cls_input.ok()) return cls_input.status();
  auto turned = RunOne("cls", *cls_input, feeds);
  if (!turned.ok()) return turned.status();
  if (turned->data<float>()[1] > kTurnThreshold) line = Rotate180(line);

  const int width = RoundTo(kLineHeight * ratio, kRecMultiple);
  auto input = ToTensor(Resize(line, width, kLineHeight), kHalf, kHalf);
  if (!input.ok()) return input.status();
  auto out = RunOne("rec", *input, feeds);
  if (!out.ok()) return out.status();
  const int steps = static_cast<int>(out->dims()[1]), classes = static_cast<int>(out->dims()[2]);
  return DecodeCtc(out->data<float>(), steps, classes, keys_);
}

opsnn::Result<std::vector<std::string>> Pipeline::Read(const Image& image, std::vector<Feed>* feeds) {
  auto boxes = Detect(image, feeds);
  if (!boxes.ok()) return boxes.status();
  std::vector<std::string> lines;
  int last_middle = -1;
  for (const Box& b : *boxes) {
    auto text = ReadLine(Crop(image, b.x0, b.y0, b.x1, b.y1), feeds);
    if (!text.ok()) return text.status();
    const bool same_line = last_middle >= 0 && b.y0 < last_middle;
    if (same_line) {
      lines.back() += " " + *text;
    } else {
      lines.push_back(*text);
      last_middle = (b.y0 + b.y1) / 2;
    }
  }
  return lines;
}

}  // namespace ocr
