// Owners of file descriptors and of mapped memory. One thread uses each at a time.
#ifndef SOFTSWITCH_DESCRIPTOR_H_
#define SOFTSWITCH_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace softswitch {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Mapping of a file, shared with other processes that map it.
class Mapping {
 public:
  Mapping() = default;
  // Throws std::runtime_error.
  Mapping(const Descriptor& file, std::size_t bytes);
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// Describes errno after a failed system call, as `what: reason`.
std::string Failure(const std::string& what);

}  // namespace softswitch

#endif  // SOFTSWITCH_DESCRIPTOR_H_
