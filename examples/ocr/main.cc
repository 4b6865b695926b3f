// Reads the text in images.   usage: ocr --models DIR [--report] IMAGE ... | --samples
//
// An image with a .txt file of the same name beside it is checked: the program fails when the text differs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ocr/report.h"
#include "opsnn/system.h"

namespace {

int Fail(const opsnn::Status& status) {
  std::fprintf(stderr, "ocr: %s\n", status.message().c_str());
  return 1;
}

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& l : lines) text += l + "\n";
  return text;
}

// True unless a .txt file lies beside the image and says something else.
bool Matches(const std::string& image, const std::string& text) {
  std::filesystem::path expected(image);
  expected.replace_extension(".txt");
  std::ifstream file(expected);
  if (!file) return true;
  std::stringstream want;
  want << file.rdbuf();
  if (want.str() == text) return true;
  std::printf("  MISMATCH, expected:\n%s", want.str().c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reads the text in images with the PP-OCRv4 models"};
  std::string models = "models/ocr";
  std::vector<std::string> images;
  bool samples = false, report = false;
  int runs = 5;
  app.add_option("--models", models, "Folder with the models and the key list");
  app.add_option("images", images, "PNG or JPEG files");
  app.add_flag("--samples", samples, "Read the sample images of the project");
  app.add_flag("--report", report, "Show the hottest nodes, what was fused and what it gained");
  app.add_option("--runs", runs, "Timed runs per model for --report")->check(CLI::Range(1, 10000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return Fail(opsnn::Status(opsnn::Code::kInvalid, e.what()));
  }
  if (auto s = opsnn::Initialize(); !s.ok()) return Fail(s);
  if (samples) {
    for (const char* name : {"receipt", "sign"})
      images.push_back(std::string(OCR_SAMPLES_DIR "/") + name + ".png");
  }
  if (images.empty()) {
    std::fprintf(stderr, "ocr: no image given; name PNG or JPEG files, or --samples\n");
    return 1;
  }
  opsnn::ModelOptions unfused_options;
  unfused_options.fusion = opsnn::Fusion::kOff;
  auto fused = ocr::Pipeline::Load(models, {});
  if (!fused.ok()) return Fail(fused.status());

  bool ok = true;
  std::vector<ocr::Feed> feeds;
  for (const std::string& path : images) {
    auto image = ocr::ReadImage(path);
    if (!image.ok()) return Fail(image.status());
    std::vector<ocr::Feed> used;
    auto lines = fused->Read(*image, &used);
    if (!lines.ok()) return Fail(lines.status());
    std::printf("%s\n", path.c_str());
    for (const std::string& l : *lines) std::printf("  | %s\n", l.c_str());
    ok &= Matches(path, Join(*lines));
    if (feeds.empty()) feeds = std::move(used);
  }
  if (report) {
    auto unfused = ocr::Pipeline::Load(models, unfused_options);
    if (!unfused.ok()) return Fail(unfused.status());
    if (auto s = ocr::PrintReport(*fused, *unfused, feeds, runs); !s.ok()) return Fail(s);
  }
  return ok ? 0 : 1;
}
