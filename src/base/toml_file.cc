#include "base/toml_file.h"

#include <sys/stat.h>

#include <cstdio>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace opsnn {
namespace {

std::string ValueText(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  if (const auto* f = node.as_floating_point()) return StrFormat("%.17g", f->get());
  std::string joined;
  if (const auto* a = node.as_array()) {
    for (const toml::node& item : *a) joined += (joined.empty() ? "" : ",") + ValueText(item);
  }
  return joined;
}

TomlEntry::Form FormOf(const toml::node& node) {
  if (node.is_table()) return TomlEntry::Form::kNested;
  const auto* list = node.as_array();
  if (!list) return TomlEntry::Form::kScalar;
  for (const toml::node& item : *list)
    if (item.is_array() || item.is_table()) return TomlEntry::Form::kNested;
  return TomlEntry::Form::kList;
}

void Flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>& out) {
  for (auto&& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const auto* child = node.as_table();
    if (child && !child->empty()) {
      Flatten(*child, name + ".", out);
    } else {
      out.push_back({name, ValueText(node), FormOf(node)});
    }
  }
}

}  // namespace

Result<std::vector<TomlEntry>> ParseToml(std::string_view text, const std::string& name) {
  try {
    std::vector<TomlEntry> entries;
    Flatten(toml::parse(text), "", entries);
    return entries;
  } catch (const toml::parse_error& e) {
    return InvalidArgument(
        "%s: line %u, column %u: %s", name.c_str(), static_cast<unsigned>(e.source().begin.line),
        static_cast<unsigned>(e.source().begin.column), std::string(e.description()).c_str());
  } catch (const std::exception&) {  // of the standard library: there is no memory
    return Errorf(Code::kRuntime, "%s: no memory to read the file", name.c_str());
  }
}

Result<std::vector<TomlEntry>> ReadTomlFile(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return InvalidArgument("%s: the file cannot be read", path.c_str());
  if (!S_ISREG(st.st_mode)) return InvalidArgument("%s: not a regular file", path.c_str());
  constexpr off_t kMostBytes = 1 << 20;  // settings are a few lines
  if (st.st_size > kMostBytes)
    return InvalidArgument("%s: %lld bytes; allowed: 1 MiB", path.c_str(),
                           static_cast<long long>(st.st_size));
  std::FILE* f = std::fopen(path.c_str(), "rb");
  if (!f) return InvalidArgument("%s: the file cannot be read", path.c_str());
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) text.append(buffer, n);
  std::fclose(f);
  return ParseToml(text, path);
}

}  // namespace opsnn
