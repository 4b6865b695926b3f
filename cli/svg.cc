#include "cli/svg.h"

#include <cstdio>

namespace cli {
namespace {

std::string Escaped(const std::string& s) {
  std::string out;
  for (const char c : s)
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string Number(int i) { return "\"" + std::to_string(i) + "\""; }

}  // namespace

Svg::Svg(int width, int height)
    : body_("<svg xmlns=\"http://www.w3.org/2000/svg\" width=" + Number(width) + " height=" + Number(height) +
            " font-family=\"sans-serif\" font-size=\"11\">\n") {}

void Svg::Cell(int x, int y, int size, const std::string& colour, const std::string& title) {
  body_ += "<rect x=" + Number(x) + " y=" + Number(y) + " width=" + Number(size) + " height=" + Number(size) +
           " fill=\"" + colour + "\"><title>" + Escaped(title) + "</title></rect>\n";
}

void Svg::Dot(int x, int y) {
  body_ += "<circle cx=" + Number(x) + " cy=" + Number(y) + " r=\"2\" pointer-events=\"none\"/>\n";
}

void Svg::Text(int x, int y, const std::string& text, Anchor anchor, int font_size) {
  body_ += "<text x=" + Number(x) + " y=" + Number(y);
  if (font_size != 11) body_ += " font-size=" + Number(font_size);
  if (anchor == Anchor::kEnd) body_ += " text-anchor=\"end\"";
  if (anchor == Anchor::kTilted)
    body_ += " transform=\"rotate(45 " + std::to_string(x) + " " + std::to_string(y) + ")\"";
  body_ += ">" + Escaped(text) + "</text>\n";
}

opsnn::Status Svg::Write(const std::string& file) const {
  for (const char* other : {".png", ".jpg", ".pdf"}) {
    if (file.size() >= 4 && file.compare(file.size() - 4, 4, other) == 0)
      return opsnn::Status(
          opsnn::Code::kInvalid,
          "--out: got \"" + file + "\"; allowed: names that end in .svg, which is what is drawn");
  }
  const std::string text = body_ + "</svg>\n";
  std::FILE* f = std::fopen(file.c_str(), "w");
  bool ok = f != nullptr && std::fwrite(text.data(), 1, text.size(), f) == text.size();
  if (f) ok = std::fclose(f) == 0 && ok;
  if (ok) return opsnn::OkStatus();
  return opsnn::Status(opsnn::Code::kRuntime, "--out: \"" + file + "\" cannot be written");
}

std::string Tint(const int full[3], double depth) {
  constexpr int kLight = 225;
  const auto mix = [&](int i) { return static_cast<int>(kLight + (full[i] - kLight) * depth); };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(0), mix(1), mix(2));
  return text;
}

}  // namespace cli
