#include "onnx/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace opsnn::onnx {

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not waited for
  if (fd < 0) return InvalidArgument("cannot open \"%s\": %s.", path.c_str(), std::strerror(errno));
  struct stat st;
  Status failed;
  void* data = nullptr;
  if (fstat(fd, &st) != 0) {
    failed = InvalidArgument("cannot read \"%s\": %s.", path.c_str(), std::strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    failed = InvalidArgument("cannot read \"%s\": it is not a regular file.", path.c_str());
  } else if (st.st_size > 0) {
    data = mmap(nullptr, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
      failed = InvalidArgument("cannot map \"%s\": %s.", path.c_str(), std::strerror(errno));
  }
  close(fd);
  if (!failed.ok()) return failed;
  return MappedFile(data, st.st_size);
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, size_);
}

}  // namespace opsnn::onnx
