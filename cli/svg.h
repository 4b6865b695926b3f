// The few SVG elements that the drawings of the tool are made of.
#ifndef CLI_SVG_H_
#define CLI_SVG_H_

#include <string>

#include "opsnn/status.h"

namespace cli {

class Svg {
 public:
  Svg(int width, int height);
  // A filled square with a text that shows under the pointer.
  void Cell(int x, int y, int size, const std::string& colour, const std::string& title);
  void Dot(int x, int y);
  enum class Anchor { kStart, kEnd, kTilted };  // kTilted: turned by 45 degrees, for crowded axes
  void Text(int x, int y, const std::string& text, Anchor anchor = Anchor::kStart, int font_size = 11);
  // Errors name --out and the file.
  opsnn::Status Write(const std::string& file) const;

 private:
  std::string body_;
};

// "#rrggbb": from a light grey (depth 0) to `full` (depth 1).
std::string Tint(const int full[3], double depth);

}  // namespace cli

#endif  // CLI_SVG_H_
