// NumPy .npy files: magic, version, a header that is a Python dict literal, then the elements.
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/half.h"
#include "opsnn/tensor.h"
#include "tensor/shape.h"

namespace opsnn {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in the file");

struct NpyType {
  const char* descr;
  DType type;
};
constexpr NpyType kTypes[] = {{"<f4", DType::kF32}, {"<f8", DType::kF64}, {"<f2", DType::kF16},
                              {"|i1", DType::kS8},  {"|u1", DType::kU8},  {"<i2", DType::kS16},
                              {"<i4", DType::kS32}, {"<i8", DType::kS64}, {"|b1", DType::kBool}};
constexpr size_t kMagicBytes = 8, kMaxHeader = 1 << 16;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Status Bad(const std::string& path, const std::string& why) {
  return Status(Code::kInvalid, path + ": " + why);
}

// The text after `'key':`, up to what ends the value at this level.
Result<std::string> Field(const std::string& header, const char* key, const std::string& path) {
  const size_t at = header.find(std::string("'") + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos)
    return Bad(path, std::string("not an .npy file: its header has no '") + key + "'");
  size_t begin = header.find_first_not_of(' ', colon + 1);
  if (begin == std::string::npos) return Bad(path, "not an .npy file: its header ends early");
  const char close = header[begin] == '(' ? ')' : header[begin] == '\'' ? '\'' : ',';
  const size_t end = header.find_first_of(close == ',' ? ",}" : std::string(1, close), begin + 1);
  if (end == std::string::npos) return Bad(path, "not an .npy file: its header ends early");
  if (close != ',') ++begin;
  return header.substr(begin, end - begin);
}

Result<std::vector<int64_t>> ParseShape(const std::string& text, const std::string& path) {
  std::vector<int64_t> dims;
  const char* p = text.c_str();
  while (*p) {
    if (*p == ' ' || *p == ',') {
      ++p;
      continue;
    }
    char* end = nullptr;
    errno = 0;
    const long long v = std::strtoll(p, &end, 10);
    if (end == p || errno || v < 0) return Bad(path, "not an .npy file: shape (" + text + ")");
    dims.push_back(v);
    p = *end == 'L' ? end + 1 : end;
  }
  return dims;
}

Status ReadAll(std::FILE* f, void* to, size_t bytes, const std::string& path, const char* what) {
  if (std::fread(to, 1, bytes, f) == bytes) return OkStatus();
  return Bad(path, std::string("truncated: the file ends inside its ") + what);
}

// Column-major elements into row-major order.
Status FromFortranOrder(Tensor& t) {
  auto copy = Tensor::Make(t.dtype(), t.dims());
  if (!copy.ok()) return copy.status();
  const size_t size = SizeOf(t.dtype());
  const Dims dims(t.dims());
  Dims reversed;
  for (int i = dims.rank() - 1; i >= 0; --i) reversed.push_back(dims[i]);
  std::vector<int64_t> index(dims.rank(), 0);
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t from = 0, step = 1;
    for (int k = 0; k < dims.rank(); ++k) {
      from += index[k] * step;
      step *= dims[k];
    }
    std::memcpy(copy->data<char>() + i * size, t.data<char>() + from * size, size);
    for (int k = dims.rank() - 1; k >= 0 && ++index[k] == dims[k]; --k) index[k] = 0;
  }
  t = std::move(*copy);
  return OkStatus();
}

}  // namespace

Result<Tensor> LoadNpy(const std::string& path) {
  struct stat st;  // opening a pipe would wait for its writer
  if (stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) return Bad(path, "not a regular file");
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return Bad(path, std::string("cannot be read (") + std::strerror(errno) + ")");
  unsigned char magic[kMagicBytes];
  if (std::fread(magic, 1, sizeof magic, file.get()) != sizeof magic ||
      std::memcmp(magic, "\x93NUMPY", 6) != 0) {
    return Bad(path, "not an .npy file");
  }
  uint32_t length = 0;
  OPSNN_RETURN_IF_ERROR(ReadAll(file.get(), &length, magic[6] == 1 ? 2 : 4, path, "header"));
  if (magic[6] < 1 || magic[6] > 3 || length > kMaxHeader)
    return Bad(path, "not an .npy file of version 1, 2 or 3");
  std::string header(length, '\0');
  OPSNN_RETURN_IF_ERROR(ReadAll(file.get(), header.data(), length, path, "header"));
  OPSNN_ASSIGN_OR_RETURN(const std::string descr, Field(header, "descr", path));
  OPSNN_ASSIGN_OR_RETURN(const std::string order, Field(header, "fortran_order", path));
  OPSNN_ASSIGN_OR_RETURN(const std::string shape, Field(header, "shape", path));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> dims, ParseShape(shape, path));
  for (const NpyType& t : kTypes) {
    if (descr != t.descr) continue;
    Result<Tensor> tensor = Tensor::Make(t.type, dims);
    if (!tensor.ok()) return tensor.status().WithContext(path);
    OPSNN_RETURN_IF_ERROR(ReadAll(file.get(), tensor->raw(), tensor->bytes(), path, "elements"));
    if (std::fgetc(file.get()) != EOF) {
      return Bad(path, "more bytes follow than its shape (" + shape + ") has elements for");
    }
    if (order.rfind("True", 0) == 0) OPSNN_RETURN_IF_ERROR(FromFortranOrder(*tensor));
    return tensor;
  }
  return Bad(path, "element type '" + descr + "'; allowed: <f4, <f8, <f2, |i1, |u1, <i2, <i4, <i8, |b1");
}

Status SaveNpy(const std::string& path, const Tensor& tensor) {
  Tensor t = tensor;
  if (!t.valid() || t.size() < 0) return Bad(path, "not written: the tensor holds no values");
  if (t.dtype() == DType::kBF16) {
    auto wide = Tensor::Make(DType::kF32, t.dims());
    if (!wide.ok()) return wide.status();
    for (int64_t i = 0; i < t.size(); ++i) wide->data<float>()[i] = ToFloat(t.data<BF16>()[i]);
    t = std::move(*wide);
  }
  std::string descr;
  for (const NpyType& n : kTypes) {
    if (n.type == t.dtype()) descr = n.descr;
  }
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t d : t.dims()) header += std::to_string(d) + ",";
  header += "), }";
  // The elements start at a multiple of 64 bytes: magic, version, two bytes of length, header, newline.
  header.append(63 - (kMagicBytes + 2 + header.size()) % 64, ' ');
  header += '\n';
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) return Bad(path, std::string("cannot be written (") + std::strerror(errno) + ")");
  const uint16_t length = static_cast<uint16_t>(header.size());
  const bool ok = std::fwrite("\x93NUMPY\x01\x00", 1, kMagicBytes, file.get()) == kMagicBytes &&
                  std::fwrite(&length, 1, 2, file.get()) == 2 &&
                  std::fwrite(header.data(), 1, header.size(), file.get()) == header.size() &&
                  std::fwrite(t.raw(), 1, t.bytes(), file.get()) == t.bytes() &&
                  std::fclose(file.release()) == 0;
  return ok ? OkStatus() : Bad(path, std::string("cannot be written (") + std::strerror(errno) + ")");
}

}  // namespace opsnn
