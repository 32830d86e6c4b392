/// An open file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace switchml_delegate {

/// Owner of a file descriptor, which it closes. The number is negative if opening has failed.
class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const noexcept { return number_; }

 private:
  int number_;
};

}  // namespace switchml_delegate
