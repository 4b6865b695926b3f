// Bytes as an .npy file: a tensor that can be saved and read again, or a message that names the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "fuzz/fuzz.h"
#include "opsnn/tensor.h"

namespace opsnn::fuzz {
namespace {

// A file in memory, named through /proc.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {}
  ~MemoryFile() { close(fd_); }
  void Write(const void* data, size_t size) {
    Require(ftruncate(fd_, 0) == 0 && pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size),
            "memory file");
  }
  std::string Read() {
    std::string s(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    Require(pread(fd_, s.data(), s.size(), 0) == static_cast<ssize_t>(s.size()), "memory file");
    return s;
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  MemoryFile file;
  auto add = [&](const Result<Tensor>& t) {
    Require(t.ok() && SaveNpy(file.path(), *t).ok(), "a tensor can be saved");
    seeds.push_back(file.Read());
  };
  add(Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  add(Tensor::From<int64_t>({}, {7}));
  add(Tensor::From<int8_t>({0, 4}, {}));
  std::string fortran = seeds[0];
  const size_t at = fortran.find("False,");
  fortran.replace(at, 6, "True, ");
  seeds.push_back(fortran);
  return seeds;
}

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn;  // NOLINT
  fuzz::MemoryFile file;
  file.Write(data, size);
  const auto t = LoadNpy(file.path());
  if (!t.ok()) {
    fuzz::Require(t.status().message().find(file.path()) != std::string::npos, "the error names the file",
                  t.status().message());
    return 0;
  }
  fuzz::MemoryFile copy;
  fuzz::Require(SaveNpy(copy.path(), *t).ok(), "what was read can be saved");
  const auto again = LoadNpy(copy.path());
  fuzz::Require(again.ok() && again->dtype() == t->dtype() && again->dims() == t->dims() &&
                    (t->bytes() == 0 || std::memcmp(again->raw(), t->raw(), t->bytes()) == 0),
                "reading and saving keep the tensor");
  return 0;
}
