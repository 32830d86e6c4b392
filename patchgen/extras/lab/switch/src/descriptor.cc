#include "descriptor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace softswitch {

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Mapping::Mapping(const Descriptor& file, std::size_t bytes) {
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (found == MAP_FAILED) throw std::runtime_error(Failure("mmap"));
  data_ = static_cast<std::uint8_t*>(found);
  size_ = bytes;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::string Failure(const std::string& what) {
  return what + ": " + std::generic_category().message(errno);
}

}  // namespace softswitch
