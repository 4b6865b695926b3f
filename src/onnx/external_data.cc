#include "onnx/external_data.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "onnx/onnx_fields.h"

namespace opsnn::onnx {
namespace {

Status Bad(const std::string& why) { return InvalidArgument("%s", why.c_str()); }

// The path without links and dots; "" where there is no such file.
std::string Resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) ? buffer : "";
}

bool Within(const std::string& file, const std::string& folder) {
  return !folder.empty() && file.size() > folder.size() && file.compare(0, folder.size(), folder) == 0 &&
         (folder.back() == '/' || file[folder.size()] == '/');
}

// The location as it is written must not lead out of the folder.
Status CheckLocation(const std::string& location) {
  if (location.empty())
    return Bad("names no file for its external data; allowed: a path in the model's folder");
  const std::string where = "names the external data \"" + location + "\", ";
  if (location.find('\0') != std::string::npos) return Bad(where + "which holds a zero byte");
  if (location[0] == '/' || location[0] == '\\' || (location.size() > 1 && location[1] == ':'))
    return Bad(where + "an absolute path; allowed: a path relative to the model's folder");
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find_first_of("/\\", at), location.size());
    if (location.compare(at, end - at, "..") == 0)
      return Bad(where + "which leads out of the model's folder by \"..\"; allowed: a path below it");
    at = end + 1;
  }
  return OkStatus();
}

// Offset and length are numbers written as text.
Status ParseCount(const char* what, const std::string& text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc() && stop == end && *value <= INT64_MAX) return OkStatus();
  return Bad(std::string("has the external data ") + what + " \"" + text +
             "\"; allowed: an integer of 0 or more");
}

}  // namespace

void ExternalData::ReadEntry(Message m) {
  std::string key, value;
  while (m.Next()) {
    if (m.field() == field::StringStringEntryProto::key) key = m.String();
    if (m.field() == field::StringStringEntryProto::value) value = m.String();
  }
  if (key == "location") location = value, has_location = true;
  if (key == "offset") offset = value, has_offset = true;
  if (key == "length") length = value, has_length = true;
}

Status CopyExternal(const ExternalData& data, const DataFolder& folder, uint64_t need, void* out) {
  if (folder.path.empty()) return Bad("keeps its data in a file, which a model given as bytes cannot have");
  OPSNN_RETURN_IF_ERROR(CheckLocation(data.location));
  uint64_t offset = 0, length = need;
  if (data.has_offset) OPSNN_RETURN_IF_ERROR(ParseCount("offset", data.offset, &offset));
  if (data.has_length) OPSNN_RETURN_IF_ERROR(ParseCount("length", data.length, &length));
  const std::string path = folder.path + "/" + data.location;
  const auto number = [](uint64_t v) { return std::to_string(v); };
  if (length != need)
    return Bad("has the external data length " + number(length) + "; its shape needs " + number(need) +
               " bytes");
  // What links lead to is compared with the folder and then opened by that name.
  const std::string file_path = Resolved(path);
  if (file_path.empty())
    return Bad("needs external data: cannot open \"" + path + "\": " + std::strerror(errno));
  if (!Within(file_path, Resolved(folder.path)) && !Within(file_path, folder.linked))
    return Bad("names the external data \"" + data.location + "\", a link to \"" + file_path +
               "\", outside of the model's folder \"" + folder.path + "\"; allowed: files in it or below");
  auto file = MappedFile::Open(file_path);
  if (!file.ok()) return Bad("needs external data: " + file.status().message());
  const std::string_view bytes = file->bytes();
  if (offset > bytes.size() || need > bytes.size() - offset)
    return Bad("needs " + number(need) + " bytes at offset " + number(offset) + " of \"" + path +
               "\", which has " + number(bytes.size()));
  if (need) std::memcpy(out, bytes.data() + offset, need);
  return OkStatus();
}

}  // namespace opsnn::onnx
