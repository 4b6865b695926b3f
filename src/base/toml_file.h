// Flat TOML files as key and value text: the one place that knows the TOML library.
#ifndef OPSNN_BASE_TOML_FILE_H_
#define OPSNN_BASE_TOML_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace opsnn {

struct TomlEntry {
  enum class Form : uint8_t { kScalar, kList, kNested };  // kNested: lists in a list, or a table without keys
  std::string key;                                        // "table.key" inside a table
  std::string
      value;  // strings bare, arrays joined by commas, booleans as true/false, numbers as written in C
  Form form = Form::kScalar;
};

// In the order of the file's keys (sorted). Syntax errors name file, line and column.
Result<std::vector<TomlEntry>> ReadTomlFile(const std::string& path);
Result<std::vector<TomlEntry>> ParseToml(std::string_view text, const std::string& name);

}  // namespace opsnn

#endif  // OPSNN_BASE_TOML_FILE_H_
