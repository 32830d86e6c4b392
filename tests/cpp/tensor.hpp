// A tensor in the place of torch's, for the delegate's templates.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "SwitchMLCodec.hpp"
#include "check.hpp"

/// Words of any strides in a piece of memory, which others may share.
template <typename Type, typename Word>
class MadeUpTensor {
 public:
  using Storage = std::shared_ptr<std::vector<Word>>;
  using Sizes = std::vector<std::int64_t>;
  struct Options {
    Type type;
    Options dtype(Type other) const { return {other}; }
  };

  /// True where this thread makes tensors that are not to be written when it is over.
  static inline thread_local bool inference = false;
  /// Words that were asked for until now, as whole pieces.
  static inline std::atomic<int> pieces{0};

  MadeUpTensor(Type type, std::vector<Word> words)
      : type_(type),
        storage_(std::make_shared<std::vector<Word>>(std::move(words))),
        offset_(0),
        sizes_{static_cast<std::int64_t>(storage_->size())},
        strides_{1} {}
  MadeUpTensor(Type type, Storage storage, std::int64_t offset, Sizes sizes, Sizes strides)
      : type_(type),
        storage_(std::move(storage)),
        offset_(offset),
        sizes_(std::move(sizes)),
        strides_(std::move(strides)) {}

  Type scalar_type() const { return type_; }
  Options options() const { return {type_}; }
  const Storage& storage() const { return storage_; }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  std::int64_t dim() const { return static_cast<std::int64_t>(sizes_.size()); }
  std::int64_t size(std::int64_t d) const { return sizes_[static_cast<std::size_t>(d)]; }
  std::int64_t stride(std::int64_t d) const { return strides_[static_cast<std::size_t>(d)]; }
  std::int64_t element_size() const { return sizeof(Word); }
  void* data_ptr() const { return storage_->data() + offset_; }
  MadeUpTensor detach() const { return *this; }
  std::int64_t numel() const {
    return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{1}, std::multiplies<>());
  }
  bool is_contiguous() const {
    std::int64_t step = 1;
    for (auto d = dim() - 1; d >= 0; step *= size(d--)) {
      if (size(d) > 1 && stride(d) != step) {
        return false;
      }
    }
    return true;
  }
  MadeUpTensor view(Sizes sizes) const {
    check(is_contiguous(), "torch would refuse this view");
    if (sizes == Sizes{-1}) {
      sizes = {numel()};
    }
    auto whole = *this;
    whole.strides_.assign(sizes.size(), 1);
    for (auto d = sizes.size(); d-- > 1;) {
      whole.strides_[d - 1] = whole.strides_[d] * sizes[d];
    }
    whole.sizes_ = std::move(sizes);
    return whole;
  }
  MadeUpTensor narrow(std::int64_t d, std::int64_t first, std::int64_t count) const {
    check(first >= 0 && count >= 0 && first + count <= size(d), "a part of the tensor");
    auto part = *this;
    part.offset_ += first * stride(d);
    part.sizes_[static_cast<std::size_t>(d)] = count;
    return part;
  }
  MadeUpTensor select(std::int64_t d, std::int64_t index) const {
    auto part = narrow(d, index, 1);
    part.sizes_.erase(part.sizes_.begin() + d);
    part.strides_.erase(part.strides_.begin() + d);
    return part;
  }
  MadeUpTensor new_empty(std::initializer_list<std::int64_t> sizes, Options options) const {
    const auto numel = *sizes.begin();
    pieces += numel == switchml_delegate::BufferPool<MadeUpTensor>::kNumel ? 1 : 0;
    return {options.type, std::vector<Word>(static_cast<std::size_t>(numel), Word{-1})};
  }
  void set_(Storage storage, std::int64_t offset, Sizes sizes, Sizes strides) {
    storage_ = std::move(storage);
    offset_ = offset;
    sizes_ = std::move(sizes);
    strides_ = std::move(strides);
  }
  void copy_(const MadeUpTensor& other) {
    check(!inference_ || inference, "a tensor of inference mode is written outside of it");
    check(sizes_ == other.sizes_, "a copy of the same shape");
    const auto from = other.values();
    if (is_contiguous()) {
      std::copy(from.begin(), from.end(), static_cast<Word*>(data_ptr()));
      return;
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      at(i) = from[i];
    }
  }
  std::vector<Word> values() const {
    const auto* const first = static_cast<const Word*>(data_ptr());
    std::vector<Word> found(first, first + (is_contiguous() ? numel() : 0));
    for (auto i = found.size(); i < static_cast<std::size_t>(numel()); ++i) {
      found.push_back(at(i));
    }
    return found;
  }
  Word& at(std::size_t i) const {
    auto place = offset_;
    auto rest = static_cast<std::int64_t>(i);
    for (auto d = dim() - 1; d >= 0; --d) {
      place += rest % size(d) * stride(d);
      rest /= size(d);
    }
    return storage_->at(static_cast<std::size_t>(place));
  }

 private:
  Type type_;
  Storage storage_;
  std::int64_t offset_;
  Sizes sizes_;
  Sizes strides_;
  bool inference_ = inference;
};
