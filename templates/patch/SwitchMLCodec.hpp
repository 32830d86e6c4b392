/// Tensors, and the row of float32 or int32 that SwitchML sums in their place.
///
/// Every type but these two goes by way of float32 and is rounded once, when it comes back: to the
/// nearest, ties to even. So the sum of bfloat16 or float16 is nearer to the true one than where
/// each addition is rounded.
///
/// C++14. Tensor is a template, so that no torch header is needed here.
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

/// The part of a row that is the tensor at `offset`, in the shape of `like`.
template <typename Tensor>
Tensor partOf(const Tensor& row, std::int64_t offset, const Tensor& like) {
  return row.narrow(0, offset, like.numel()).view(like.sizes());
}

/// Tensors of one type, and where each has its place in a row of elements. There is at least one.
template <typename Tensor>
class Parts {
 public:
  Parts() = default;

  /// Places the tensors one after another.
  explicit Parts(const std::vector<Tensor>& tensors) {
    for (const auto& tensor : tensors) {
      add(tensor, numel_);
    }
  }

  void add(const Tensor& tensor, std::int64_t begin) {
    parts_.push_back({tensor.detach(), begin});
    numel_ = std::max(numel_, begin + tensor.numel());
  }

  /// Elements of the row.
  std::int64_t numel() const { return numel_; }

  const Tensor& first() const { return parts_[0].tensor; }

  /// True where both are one tensor, with each element in the same place of memory and of the row,
  /// and in a place of its own. Its parts may be written while later parts are still to be read.
  bool areOne(const Parts& other) const {
    return parts_.size() == 1 && other.parts_.size() == 1 && parts_[0].isAt(other.parts_[0]);
  }

  /// True where a target may take the place of a value that is still to be read: that of a source,
  /// but for the one that the row has for the same elements.
  bool mayMeet(const Parts& targets) const {
    std::vector<Extent> extents;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const bool same = parts_[i].isAt(targets.parts_[i]);
      extents.push_back(parts_[i].extent(/*read=*/true, /*written=*/same));
      if (!same) {
        extents.push_back(targets.parts_[i].extent(/*read=*/false, /*written=*/true));
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

  /// Calls `function` with what is in the row from `first` to before `last`, and with where that
  /// begins in the row: tensors, or slices of them.
  template <typename Function>
  void each(std::int64_t first, std::int64_t last, const Function& function) const {
    for (const auto& part : parts_) {
      slice(part.tensor, part.begin, first, last, function);
    }
  }

 private:
  struct Extent {
    const char* begin;
    const char* end;
    bool read;
    bool written;
  };

  struct Part {
    Tensor tensor;
    std::int64_t begin;

    /// True where it has the other one's elements, in the same places of memory and of the row, and
    /// each in a place of its own.
    bool isAt(const Part& other) const {
      return begin == other.begin && tensor.data_ptr() == other.tensor.data_ptr() &&
             tensor.sizes() == other.tensor.sizes() && tensor.strides() == other.tensor.strides() &&
             reach().second;
    }

    Extent extent(bool read, bool written) const {
      const auto* const data = static_cast<const char*>(tensor.data_ptr());
      return {data, data + reach().first * tensor.element_size(), read, written};
    }

    /// Elements from the first one in memory to the last one, and whether no two share a place.
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
      const auto place = begin + row * size;
      const auto whole = place < from ? 0 : (to - place) / size;
      if (whole > 0) {
        function(tensor.narrow(0, row, whole), place);
      } else {
        slice(tensor.select(0, row), place, first, last, function);
      }
      row += std::max<std::int64_t>(whole, 1);
    }
  }

  std::vector<Part> parts_;
  std::int64_t numel_ = 0;
};

/// Memory for parts of rows. Three pieces of it stay with the process: two parts are summed, and
/// one is filled. More is new for each part, which costs more than all copies.
template <typename Tensor>
class Pieces {
 public:
  static constexpr std::int64_t kNumel = 1 << 20;  // four bytes each
  static constexpr std::size_t kMost = 3;

  /// Never destroyed: works may outlive the destruction of statics.
  static Pieces& get() {
    static auto* const pieces = new Pieces;
    return *pieces;
  }

  /// A row of elements of four bytes. Its piece is free when the row is destroyed.
  template <typename Options>
  std::shared_ptr<Tensor> take(std::int64_t numel, const Tensor& like, const Options& options) {
    if (numel > kNumel) {
      return std::make_shared<Tensor>(like.new_empty({numel}, options));
    }
    const auto piece = free(like, options);
    // A tensor of its own, since one that was made in inference mode is not written outside of it.
    auto row = like.new_empty({0}, options);
    row.set_(piece.storage(), 0, {numel}, {1});
    return {new Tensor(row), [this, piece](Tensor* last) {
              delete last;
              const std::lock_guard<std::mutex> lock(mutex_);
              if (free_.size() < kMost) {
                free_.push_back(piece);
              }
            }};
  }

 private:
  Pieces() { free_.reserve(kMost); }

  template <typename Options>
  Tensor free(const Tensor& like, const Options& options) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (free_.empty()) {
      lock.unlock();
      return like.new_empty({kNumel}, options);
    }
    auto piece = free_.back();
    free_.pop_back();
    return piece;
  }

  std::mutex mutex_;
  std::vector<Tensor> free_;
};

/// The row in which `sources` are summed for `targets`, in elements of `type`. The one tensor that
/// is such a row is its own memory; else each part has its own, or the row, where a target may lie
/// among the sources.
///
/// The members are called for parts in their order.
template <typename Tensor, typename Type>
class Row {
 public:
  Row(const Parts<Tensor>& sources, const Parts<Tensor>& targets, Type type)
      : sources_(sources),
        targets_(targets),
        type_(type),
        inPlace_(sources.areOne(targets) && sources.first().scalar_type() == type &&
                 sources.first().is_contiguous() && targets.first().is_contiguous()) {
    if (inPlace_) {
      whole_ = std::make_shared<Tensor>(sources.first().view({-1}));
    } else if (sources.mayMeet(targets)) {
      whole_ = std::make_shared<Tensor>(
          sources.first().new_empty({sources.numel()}, sources.first().options().dtype(type)));
    }
  }

  /// True where the values are there, and the sums need not be given back.
  bool isInPlace() const { return inPlace_; }

  /// Memory for the elements from `first` to before `last`.
  std::shared_ptr<Tensor> place(std::int64_t first, std::int64_t last) {
    const auto& like = sources_.first();
    placed_.emplace_back(
        first, whole_
                   ? std::make_shared<Tensor>(whole_->narrow(0, first, last - first))
                   : Pieces<Tensor>::get().take(last - first, like, like.options().dtype(type_)));
    return placed_.back().second;
  }

  /// Fills elements of the newest part; those of a whole row are filled at once.
  void fill(std::int64_t first, std::int64_t last) const {
    if (whole_ && first > 0) {
      return;
    }
    const auto& newest = placed_.back();
    sources_.each(
        first, whole_ ? sources_.numel() : last, [&](const Tensor& part, std::int64_t begin) {
          partOf(whole_ ? *whole_ : *newest.second, begin - newest.first, part).copy_(part);
        });
  }

  /// Gives the targets what the oldest part is now.
  void copyOut(std::int64_t first, std::int64_t last) {
    const auto oldest = std::move(placed_.front());
    placed_.pop_front();
    if (!inPlace_) {
      targets_.each(first, last, [&](Tensor part, std::int64_t begin) {
        part.copy_(partOf(*oldest.second, begin - first, part));
      });
    }
  }

 private:
  const Parts<Tensor>& sources_;
  const Parts<Tensor>& targets_;
  const Type type_;
  const bool inPlace_;
  std::shared_ptr<Tensor> whole_;
  std::deque<std::pair<std::int64_t, std::shared_ptr<Tensor>>> placed_;  // by their first elements
};

}  // namespace switchml_delegate
