/// Codec between tensors and the row of float32 or int32 elements that SwitchML sums.
///
/// Tensors of any other type are copied to float32, and their sums are rounded once when they are
/// copied back: to the nearest, ties to even. So the sum of bfloat16 or float16 is nearer to the
/// true one than if each addition were rounded.
///
/// C++14. Tensor is a template parameter, so that no torch header is needed here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace switchml_delegate {

template <typename Tensor>
std::int64_t numelOf(const std::vector<Tensor>& tensors) {
  std::int64_t numel = 0;
  for (const auto& tensor : tensors) {
    numel += tensor.numel();
  }
  return numel;
}

/// View of the elements of a row from `offset` on, in the shape of `like`.
template <typename Tensor>
Tensor viewOf(const Tensor& row, std::int64_t offset, const Tensor& like) {
  return row.narrow(0, offset, like.numel()).view(like.sizes());
}

/// Layout of a row: tensors of one type, and the index in the row at which each begins. There is at
/// least one tensor. A value of one call.
template <typename Tensor>
class RowLayout {
 public:
  RowLayout() = default;

  /// Lays out the tensors one after another.
  explicit RowLayout(const std::vector<Tensor>& tensors) {
    for (const auto& tensor : tensors) {
      add(tensor, numel_);
    }
  }

  void add(const Tensor& tensor, std::int64_t begin) {
    entries_.push_back({tensor.detach(), begin});
    numel_ = std::max(numel_, begin + tensor.numel());
  }

  /// Elements of the row.
  std::int64_t numel() const { return numel_; }

  const Tensor& first() const { return entries_[0].tensor; }

  /// True if both are one tensor, each element of which has the same index in the row and the same
  /// address, and no two elements share an address. Then a part may be written while later ones
  /// are still to be read.
  bool isSameAs(const RowLayout& other) const {
    return entries_.size() == 1 && other.entries_.size() == 1 &&
           entries_[0].isAt(other.entries_[0]);
  }

  /// True if writing to a target may overwrite a source that is still to be read. A source and the
  /// target that is the same tensor at the same index do not count.
  bool mayOverlap(const RowLayout& targets) const {
    std::vector<Extent> extents;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const bool same = entries_[i].isAt(targets.entries_[i]);
      extents.push_back(entries_[i].extent(/*read=*/true, /*written=*/same));
      if (!same) {
        extents.push_back(targets.entries_[i].extent(/*read=*/false, /*written=*/true));
      }
    }
    std::sort(extents.begin(), extents.end(),
              [](const Extent& one, const Extent& other) { return one.begin < other.begin; });
    const char* read = nullptr;
    const char* written = nullptr;
    for (const auto& extent : extents) {
      if ((extent.written && extent.begin < read) || (extent.read && extent.begin < written)) {
        return true;
      }
      read = extent.read ? std::max(read, extent.end) : read;
      written = extent.written ? std::max(written, extent.end) : written;
    }
    return false;
  }

  /// Calls `function` with each tensor, or slice of one, that lies in the row from `first` to
  /// before `last`, and with the index at which it begins.
  template <typename Function>
  void each(std::int64_t first, std::int64_t last, const Function& function) const {
    for (const auto& entry : entries_) {
      slice(entry.tensor, entry.begin, first, last, function);
    }
  }

 private:
  /// Addresses that an entry covers.
  struct Extent {
    const char* begin;
    const char* end;
    bool read;
    bool written;
  };

  struct Entry {
    Tensor tensor;
    std::int64_t begin;  // index of its first element in the row

    /// True if both are one tensor at one index, and no two of its elements share an address.
    bool isAt(const Entry& other) const {
      return begin == other.begin && tensor.data_ptr() == other.tensor.data_ptr() &&
             tensor.sizes() == other.tensor.sizes() && tensor.strides() == other.tensor.strides() &&
             reach().second;
    }

    Extent extent(bool read, bool written) const {
      const auto* const data = static_cast<const char*>(tensor.data_ptr());
      return {data, data + reach().first * tensor.element_size(), read, written};
    }

    /// Elements from the first one in memory to the last one, and true if no two share an address.
    std::pair<std::int64_t, bool> reach() const {
      std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
      for (std::int64_t i = 0; i < tensor.dim(); ++i) {
        dimensions.emplace_back(tensor.stride(i), tensor.size(i) - 1);
      }
      std::sort(dimensions.begin(), dimensions.end());
      std::pair<std::int64_t, bool> reach(1, true);
      for (const auto& dimension : dimensions) {
        reach.second = reach.second && (dimension.second <= 0 || dimension.first >= reach.first);
        reach.first += dimension.first * dimension.second;
      }
      return reach;
    }
  };

  template <typename Function>
  static void slice(const Tensor& tensor, std::int64_t begin, std::int64_t first, std::int64_t last,
                    const Function& function) {
    const auto from = std::max(first, begin);
    const auto to = std::min(last, begin + tensor.numel());
    if (from >= to) {
      return;
    }
    if (to - from == tensor.numel()) {
      return function(tensor, begin);
    }
    if (tensor.is_contiguous()) {
      return function(tensor.view({-1}).narrow(0, from - begin, to - from), from);
    }
    const auto size = tensor.numel() / tensor.size(0);
    for (auto row = (from - begin) / size; begin + row * size < to;) {
      const auto index = begin + row * size;
      const auto whole = index < from ? 0 : (to - index) / size;
      if (whole > 0) {
        function(tensor.narrow(0, row, whole), index);
      } else {
        slice(tensor.select(0, row), index, first, last, function);
      }
      row += std::max<std::int64_t>(whole, 1);
    }
  }

  std::vector<Entry> entries_;
  std::int64_t numel_ = 0;
};

/// Memory for parts of rows. The process keeps three buffers: two parts are summed while a third is
/// filled. New memory for each part would cost more than all copies.
///
/// Any thread calls take(), and releases what it returns. `mutex_` guards `free_`.
template <typename Tensor>
class BufferPool {
 public:
  static constexpr std::int64_t kNumel = 1 << 20;  // elements of a buffer, of four bytes each
  static constexpr std::size_t kMaxFree = 3;       // buffers that are kept

  /// Never destroyed: works may outlive the destruction of statics.
  static BufferPool& get() {
    static auto* const pool = new BufferPool;
    return *pool;
  }

  /// Returns `numel` elements of four bytes. Their buffer is free when the last copy of the pointer
  /// is destroyed. More elements than a buffer has are new memory.
  template <typename Options>
  std::shared_ptr<Tensor> take(std::int64_t numel, const Tensor& like, const Options& options) {
    if (numel > kNumel) {
      return std::make_shared<Tensor>(like.new_empty({numel}, options));
    }
    const auto buffer = takeFree(like, options);
    // A tensor of its own, since one that was made in inference mode is not written outside of it.
    auto row = like.new_empty({0}, options);
    row.set_(buffer.storage(), 0, {numel}, {1});
    return {new Tensor(row), [this, buffer](Tensor* last) {
              delete last;
              const std::lock_guard<std::mutex> lock(mutex_);
              if (free_.size() < kMaxFree) {
                free_.push_back(buffer);
              }
            }};
  }

 private:
  BufferPool() { free_.reserve(kMaxFree); }

  template <typename Options>
  Tensor takeFree(const Tensor& like, const Options& options) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (free_.empty()) {
      lock.unlock();
      return like.new_empty({kNumel}, options);
    }
    auto buffer = free_.back();
    free_.pop_back();
    return buffer;
  }

  std::mutex mutex_;
  std::vector<Tensor> free_;
};

/// The row in which `sources` are summed for `targets`, in elements of `type`, part by part:
///
///   1. allocate() gives a part its memory.
///   2. fill() copies the sources into it, in pieces. SwitchML sums it.
///   3. copyOut() copies the sums to the targets.
///
/// The next part may be allocated or filled while one is summed. Each function is called for the
/// parts in their order, by one thread at a time. A single tensor that is such a row itself is
/// summed in place. Else each part has memory of its own; or the whole row has, if a target may
/// overlap a source.
template <typename Tensor, typename Type>
class Row {
 public:
  Row(const RowLayout<Tensor>& sources, const RowLayout<Tensor>& targets, Type type)
      : sources_(sources),
        targets_(targets),
        type_(type),
        inPlace_(sources.isSameAs(targets) && sources.first().scalar_type() == type &&
                 sources.first().is_contiguous() && targets.first().is_contiguous()) {
    if (inPlace_) {
      whole_ = std::make_shared<Tensor>(sources.first().view({-1}));
    } else if (sources.mayOverlap(targets)) {
      whole_ = std::make_shared<Tensor>(
          sources.first().new_empty({sources.numel()}, sources.first().options().dtype(type)));
    }
  }

  /// True if the row is the tensor: then nothing is filled or copied out.
  bool isInPlace() const { return inPlace_; }

  /// Memory for the elements from `first` to before `last`, the next part.
  std::shared_ptr<Tensor> allocate(std::int64_t first, std::int64_t last) {
    const auto& like = sources_.first();
    parts_.emplace_back(
        first,
        whole_ ? std::make_shared<Tensor>(whole_->narrow(0, first, last - first))
               : BufferPool<Tensor>::get().take(last - first, like, like.options().dtype(type_)));
    return parts_.back().second;
  }

  /// Fills elements of the newest part. A whole row is filled at once.
  void fill(std::int64_t first, std::int64_t last) const {
    if (whole_ && first > 0) {
      return;
    }
    const auto& newest = parts_.back();
    sources_.each(
        first, whole_ ? sources_.numel() : last, [&](const Tensor& tensor, std::int64_t begin) {
          viewOf(whole_ ? *whole_ : *newest.second, begin - newest.first, tensor).copy_(tensor);
        });
  }

  /// Copies the oldest part to the targets, and releases it.
  void copyOut(std::int64_t first, std::int64_t last) {
    const auto oldest = std::move(parts_.front());
    parts_.pop_front();
    if (!inPlace_) {
      targets_.each(first, last, [&](Tensor tensor, std::int64_t begin) {
        tensor.copy_(viewOf(*oldest.second, begin - first, tensor));
      });
    }
  }

 private:
  const RowLayout<Tensor>& sources_;
  const RowLayout<Tensor>& targets_;
  const Type type_;
  const bool inPlace_;
  std::shared_ptr<Tensor> whole_;  // memory of all parts, if they share it
  std::deque<std::pair<std::int64_t, std::shared_ptr<Tensor>>> parts_;  // by their first elements
};

}  // namespace switchml_delegate
