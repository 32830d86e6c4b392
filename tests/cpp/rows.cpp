// Rows of tensors that are made up, part by part as the delegate sums them: x becomes 2x + 1. With
// tensors of any strides, in parts of any size, each target has what it would have if all sources
// were read before anything is written; and memory that stays is nobody else's meanwhile. Prints
// ok.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "SwitchMLCodec.hpp"

namespace {

void check(bool holds, const std::string& what) {
  if (!holds) {
    std::fprintf(stderr, "not so: %s\n", what.c_str());
    std::_Exit(1);
  }
}

enum class Type { kFloat, kHalf };

/// True where this thread makes tensors that are not to be written when it is over.
bool& inference() {
  thread_local bool mode = false;
  return mode;
}

/// Words that were asked for until now, as whole pieces.
std::atomic<int>& piecesMade() {
  static std::atomic<int> made{0};
  return made;
}

class Tensor {
 public:
  using Storage = std::shared_ptr<std::vector<float>>;
  using Sizes = std::vector<std::int64_t>;
  struct Options {
    Type type;
    Options dtype(Type other) const { return {other}; }
  };

  Tensor(Type type, Storage storage, std::int64_t offset, Sizes sizes, Sizes strides)
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
  std::int64_t element_size() const { return sizeof(float); }
  void* data_ptr() const { return storage_->data() + offset_; }
  Tensor detach() const { return *this; }
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
  Tensor view(Sizes sizes) const {
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
  Tensor narrow(std::int64_t d, std::int64_t first, std::int64_t count) const {
    check(first >= 0 && count >= 0 && first + count <= size(d), "a part of the tensor");
    auto part = *this;
    part.offset_ += first * stride(d);
    part.sizes_[static_cast<std::size_t>(d)] = count;
    return part;
  }
  Tensor select(std::int64_t d, std::int64_t index) const {
    auto part = narrow(d, index, 1);
    part.sizes_.erase(part.sizes_.begin() + d);
    part.strides_.erase(part.strides_.begin() + d);
    return part;
  }
  Tensor new_empty(std::initializer_list<std::int64_t> sizes, Options options) const {
    const auto numel = *sizes.begin();
    piecesMade() += numel == switchml_torch::Pieces<Tensor>::kNumel ? 1 : 0;
    return {options.type, std::make_shared<std::vector<float>>(numel, -1.0F), 0, {numel}, {1}};
  }
  void set_(Storage storage, std::int64_t offset, Sizes sizes, Sizes strides) {
    storage_ = std::move(storage);
    offset_ = offset;
    sizes_ = std::move(sizes);
    strides_ = std::move(strides);
  }
  void copy_(const Tensor& other) {
    check(!inference_ || inference(), "a tensor of inference mode is written outside of it");
    check(sizes_ == other.sizes_, "a copy of the same shape");
    const auto from = other.values();
    if (is_contiguous()) {
      std::copy(from.begin(), from.end(), static_cast<float*>(data_ptr()));
      return;
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      at(i) = from[i];
    }
  }
  std::vector<float> values() const {
    const auto* const first = static_cast<const float*>(data_ptr());
    std::vector<float> found(first, first + (is_contiguous() ? numel() : 0));
    for (auto i = found.size(); i < static_cast<std::size_t>(numel()); ++i) {
      found.push_back(at(i));
    }
    return found;
  }
  float& at(std::size_t i) const {
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
  bool inference_ = inference();
};

using Parts = switchml_torch::Parts<Tensor>;
using Row = switchml_torch::Row<Tensor, Type>;

float sumOf(float value) { return 2 * value + 1; }

/// Sums a row as the delegate does: two parts are under way, and one is filled.
void sum(const Parts& sources, const Parts& targets, std::int64_t size) {
  Row row(sources, targets, Type::kFloat);
  std::vector<std::pair<std::int64_t, std::shared_ptr<Tensor>>> underWay;
  const auto finish = [&] {
    const auto [first, values] = underWay.front();
    underWay.erase(underWay.begin());
    auto* const data = static_cast<float*>(values->data_ptr());
    std::transform(data, data + values->numel(), data, sumOf);
    row.giveBack(first, first + values->numel());
  };
  for (std::int64_t first = 0; first < sources.numel(); first += size) {
    const auto last = std::min(first + size, sources.numel());
    underWay.emplace_back(first, row.place(first, last));
    if (!row.isInPlace()) {
      const auto middle = first + (last - first) / 2;
      row.fill(first, middle);
      row.fill(middle, last);
    }
    if (underWay.size() == 2) {
      finish();
    }
  }
  while (!underWay.empty()) {
    finish();
  }
}

/// A tensor somewhere in the memory, with up to three dimensions in any order.
Tensor anyTensor(const Tensor::Storage& memory, std::mt19937& random) {
  Tensor::Sizes sizes;
  for (auto dimensions = random() % 4; dimensions > 0; --dimensions) {
    sizes.push_back(static_cast<std::int64_t>(random() % 6));
  }
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0U);
  if (random() % 2 == 0) {
    std::shuffle(order.begin(), order.end(), random);
  }
  Tensor::Sizes strides(sizes.size());
  std::int64_t step = random() % 3 == 0 ? 2 : 1;
  for (auto d = order.size(); d-- > 0;) {
    strides[order[d]] = step;
    step *= std::max<std::int64_t>(random() % 16 == 0 ? 1 : sizes[order[d]], 1);
  }
  const auto offset = static_cast<std::int64_t>(random() % (memory->size() - 400));
  return {random() % 2 == 0 ? Type::kFloat : Type::kHalf, memory, offset, sizes, strides};
}

using Placed = std::vector<std::pair<Tensor, std::int64_t>>;

/// The memory is to be as if all were read before anything is written.
void checkSums(const Placed& sources, const Placed& targets, const Tensor::Storage& memory,
               std::int64_t size, const std::string& what) {
  const auto before = *memory;
  std::vector<float> row;
  for (const auto& source : sources) {
    const auto values = source.first.values();
    row.insert(row.end(), values.begin(), values.end());
  }
  for (const auto& target : targets) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(target.first.numel()); ++i) {
      target.first.at(i) = sumOf(row[static_cast<std::size_t>(target.second) + i]);
    }
  }
  const auto expected = std::exchange(*memory, before);
  const auto partsOf = [](const Placed& tensors) {
    Parts parts;
    for (const auto& one : tensors) {
      parts.add(one.first, one.second);
    }
    return parts;
  };
  sum(partsOf(sources), partsOf(targets), size);
  check(*memory == expected, "the sums of " + what);
}

/// One row of up to four sources. The targets are the sources, or parts of what is as long.
void sumOne(unsigned seed) {
  std::mt19937 random(seed);
  const auto memory = std::make_shared<std::vector<float>>(random() % 2 == 0 ? 500 : 3000);
  std::iota(memory->begin(), memory->end(), 1.0F);
  const bool scatters = random() % 2 == 0;
  Placed sources;
  Placed targets;
  std::int64_t begin = 0;
  for (auto left = 1 + random() % 4; left > 0; --left) {
    const auto source = anyTensor(memory, random);
    const auto numel = source.numel();
    sources.emplace_back(source, begin);
    if (scatters) {
      const auto size = numel == 0 ? 0 : 1 + static_cast<std::int64_t>(random()) % numel;
      const auto offset = static_cast<std::int64_t>(random() % (memory->size() - 400));
      targets.emplace_back(Tensor(source.scalar_type(), memory, offset, {size}, {1}),
                           begin + static_cast<std::int64_t>(random()) % (numel - size + 1));
    } else {
      targets.emplace_back(source, begin);
    }
    begin += numel;
  }
  checkSums(sources, targets, memory, 1 + static_cast<std::int64_t>(random() % 40),
            "seed " + std::to_string(seed));
}

/// The sums of each tensor are for the other one, or for the same one with other strides.
void exchange() {
  const auto memory = std::make_shared<std::vector<float>>(32);
  std::iota(memory->begin(), memory->end(), 1.0F);
  const Tensor one(Type::kFloat, memory, 0, {16}, {1});
  const Tensor other(Type::kFloat, memory, 16, {16}, {1});
  checkSums({{one, 0}, {other, 16}}, {{one, 16}, {other, 0}}, memory, 5, "an exchange");
  const Tensor rows(Type::kFloat, memory, 0, {4, 4}, {4, 1});
  const Tensor columns(Type::kFloat, memory, 0, {4, 4}, {1, 4});
  checkSums({{rows, 0}}, {{columns, 0}}, memory, 5, "a transposition");
}

Tensor halves(std::int64_t numel) {
  return {Type::kHalf, std::make_shared<std::vector<float>>(numel, 3.0F), 0, {numel}, {1}};
}

/// Three pieces stay, and what does not fit into one is new for each part.
void keepPieces() {
  constexpr auto kNumel = switchml_torch::Pieces<Tensor>::kNumel;
  const auto large = halves(5 * kNumel / 2);
  const Parts parts({large});
  sum(parts, parts, kNumel);
  const int made = piecesMade();
  check(made <= 3, "no more than three pieces are used at once");
  sum(parts, parts, 2 * kNumel);
  check(piecesMade() == made, "pieces stay");
  const std::vector<float> right(large.storage()->size(), sumOf(sumOf(3)));
  check(large.values() == right, "the sums of a large row");
  {
    Row row(parts, parts, Type::kFloat);
    for (std::int64_t first = 0; first < 10; ++first) {
      row.place(first, first + 1);
    }
  }
  const int more = piecesMade();
  check(more > made, "a part without a piece gets another");
  Row row(parts, parts, Type::kFloat);
  for (std::int64_t first = 0; first < 4; ++first) {
    row.place(first, first + 1);
  }
  check(piecesMade() == more + 1, "three of them stay");
}

/// A part whose job was given up keeps its piece for as long as the library may write to it.
void keepOwner() {
  const auto few = halves(4);
  const Parts parts({few});
  std::shared_ptr<Tensor> owner;
  {
    Row row(parts, parts, Type::kFloat);
    owner = row.place(0, 4);
  }
  std::fill_n(static_cast<float*>(owner->data_ptr()), 4, -7.0F);
  for (int i = 0; i < 4; ++i) {
    sum(parts, parts, 1);
  }
  check(owner->values() == std::vector<float>(4, -7.0F), "the memory of a job that was given up");
}

/// Pieces that were made in inference mode are used outside of it.
void leaveInference() {
  for (const bool mode : {true, false}) {
    std::thread([mode] {
      inference() = mode;
      const Parts parts({halves(4), halves(5)});
      sum(parts, parts, 2);
    }).join();
  }
}

/// Threads share the pieces.
void crowd() {
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (unsigned seed = 0; seed < 100; ++seed) {
        sumOne(4 * seed + thread);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace

int main(int /*count*/, char** /*words*/) {
  leaveInference();  // before there are pieces of another mode
  keepOwner();
  keepPieces();
  exchange();
  crowd();
  std::puts("ok");
  return 0;
}
