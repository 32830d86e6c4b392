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
#include <vector>

namespace switchml_torch {

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

  /// True where both are the same one tensor, in the same place of the row. Its parts may be
  /// written while later parts are still to be read.
  bool areOne(const Parts& other) const {
    return parts_.size() == 1 && other.parts_.size() == 1 &&
           parts_[0].begin == other.parts_[0].begin && numel_ == other.numel_ &&
           first().data_ptr() == other.first().data_ptr();
  }

  /// Calls `function` with what is in the row from `first` to before `last`, and with where that
  /// begins in the row: tensors, or pieces of them. A tensor that is not contiguous comes whole,
  /// with its first element or with its last one.
  template <typename Function>
  void each(std::int64_t first, std::int64_t last, bool withLast, const Function& function) const {
    for (const auto& part : parts_) {
      const auto end = part.begin + part.tensor.numel();
      if (!part.tensor.is_contiguous()) {
        const auto place = withLast ? end - 1 : part.begin;
        if (first <= place && place < last) {
          function(part.tensor, part.begin);
        }
        continue;
      }
      const auto from = std::max(first, part.begin);
      const auto to = std::min(last, end);
      if (from < to) {
        function(part.tensor.view({-1}).narrow(0, from - part.begin, to - from), from);
      }
    }
  }

  template <typename Function>
  void each(const Function& function) const {
    for (const auto& part : parts_) {
      function(part.tensor);
    }
  }

 private:
  struct Part {
    Tensor tensor;
    std::int64_t begin;
  };

  std::vector<Part> parts_;
  std::int64_t numel_ = 0;
};

/// The row in which `sources` are summed for `targets`, in elements of `type`: memory of its own,
/// or that of the one tensor that is such a row.
template <typename Tensor, typename Type>
class Row {
 public:
  Row(const Parts<Tensor>& sources, const Parts<Tensor>& targets, Type type)
      : sources_(sources),
        targets_(targets),
        cut_(sources.areOne(targets)),
        own_(!cut_ || sources.first().scalar_type() != type || !sources.first().is_contiguous() ||
             !targets.first().is_contiguous()),
        values_(own_ ? sources.first().new_empty({sources.numel()},
                                                 sources.first().options().dtype(type))
                     : sources.first()) {}

  const Tensor& values() const { return values_; }

  /// True where the row has memory of its own, which has to be filled.
  bool isOwn() const { return own_; }

  /// Fills the elements from `first` to before `last`. Called in order, from 0 on. What is written
  /// to a target may be a source as well, so other than one tensor all is filled at once.
  void fill(std::int64_t first, std::int64_t last) const {
    if (cut_ || first == 0) {
      sources_.each(first, cut_ ? last : sources_.numel(), /*withLast=*/false,
                    [this](const Tensor& part, std::int64_t begin) {
                      partOf(values_, begin, part).copy_(part);
                    });
    }
  }

  /// Gives the targets what these elements are now.
  void giveBack(std::int64_t first, std::int64_t last) const {
    if (own_) {
      targets_.each(first, last, /*withLast=*/true, [this](Tensor part, std::int64_t begin) {
        part.copy_(partOf(values_, begin, part));
      });
    }
  }

 private:
  const Parts<Tensor>& sources_;
  const Parts<Tensor>& targets_;
  const bool cut_;
  const bool own_;
  const Tensor values_;
};

}  // namespace switchml_torch
