// Rows of tensors that are made up, part by part as the delegate sums them: x becomes 2x + 1. With
// tensors of any strides, in parts of any size, each target has what it would have if all sources
// were read before anything is written; and memory that stays is nobody else's meanwhile. Prints
// ok.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "SwitchMLCodec.hpp"
#include "check.hpp"
#include "tensor.hpp"

namespace {

enum class Type { kFloat, kHalf };
using Tensor = MadeUpTensor<Type, float>;

using RowLayout = switchml_delegate::RowLayout<Tensor>;
using Row = switchml_delegate::Row<Tensor, Type>;

float sumOf(float value) { return 2 * value + 1; }

/// Sums a row as the delegate does: two parts are under way, and one is filled.
void sum(const RowLayout& sources, const RowLayout& targets, std::int64_t size) {
  Row row(sources, targets, Type::kFloat);
  std::vector<std::pair<std::int64_t, std::shared_ptr<Tensor>>> underWay;
  const auto finish = [&] {
    const auto [first, values] = underWay.front();
    underWay.erase(underWay.begin());
    auto* const data = static_cast<float*>(values->data_ptr());
    std::transform(data, data + values->numel(), data, sumOf);
    row.copyOut(first, first + values->numel());
  };
  for (std::int64_t first = 0; first < sources.numel(); first += size) {
    const auto last = std::min(first + size, sources.numel());
    underWay.emplace_back(first, row.allocate(first, last));
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
    RowLayout parts;
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

struct Layout {
  Tensor::Sizes sizes;
  Tensor::Sizes strides;
};

const std::vector<Layout> kApart{
    {{}, {}},         {{12}, {2}},      {{4, 3}, {3, 1}},
    {{3, 4}, {1, 3}}, {{2, 3}, {5, 1}}, {{2, 3, 2}, {1, 4, 2}},
    {{1, 5}, {0, 1}},
};

/// As those of expand() and as_strided().
const std::vector<Layout> kShared{
    {{6}, {0}},
    {{6, 2}, {0, 1}},
    {{2, 6}, {1, 0}},
    {{6, 4}, {1, 1}},
    {{3, 4}, {2, 1}},
    {{4, 5}, {1, 3}},  // of two columns the last and the first element
    {{2, 6, 4}, {40, 1, 1}},
    {{6, 2, 4}, {1, 40, 1}},
    {{2, 3, 3}, {5, 2, 1}},
};

/// Elements of one tensor have places of their own in memory, or share some.
void overlap(const std::vector<Layout>& layouts, bool apart) {
  const auto memory = std::make_shared<std::vector<float>>(100);
  for (const auto& layout : layouts) {
    for (const auto type : {Type::kFloat, Type::kHalf}) {
      const Tensor tensor(type, memory, 3, layout.sizes, layout.strides);
      const RowLayout parts({tensor});
      check(parts.isSameAs(parts) == apart, "elements with places of their own, or not");
      const bool summedThere = Row(parts, parts, Type::kFloat).isInPlace();
      check(summedThere == (apart && type == Type::kFloat && tensor.is_contiguous()), "in place");
      for (std::int64_t size = 1; size < tensor.numel(); ++size) {
        std::iota(memory->begin(), memory->end(), 1.0F);
        checkSums({{tensor, 0}}, {{tensor, 0}}, memory, size, "elements that share places");
      }
    }
  }
}

/// A tensor ends where the next one in memory begins, or one element later.
void touch() {
  for (const std::int64_t common : {0, 1}) {
    const auto memory = std::make_shared<std::vector<float>>(16);
    std::iota(memory->begin(), memory->end(), 1.0F);
    const Tensor first(Type::kHalf, memory, 0, {8}, {1});
    const Tensor second(Type::kHalf, memory, 8 - common, {8}, {1});
    checkSums({{second, 0}, {first, 8}}, {{second, 0}, {first, 8}}, memory, 1, "neighbours");
  }
}

Tensor halves(std::int64_t numel) {
  return {Type::kHalf, std::vector<float>(static_cast<std::size_t>(numel), 3.0F)};
}

/// Three pieces stay, and what does not fit into one is new for each part.
void keepPieces() {
  constexpr auto kNumel = switchml_delegate::BufferPool<Tensor>::kNumel;
  const auto large = halves(5 * kNumel / 2);
  const RowLayout parts({large});
  sum(parts, parts, kNumel);
  const int made = Tensor::pieces;
  check(made <= 3, "no more than three pieces are used at once");
  sum(parts, parts, 2 * kNumel);
  check(Tensor::pieces == made, "pieces stay");
  const std::vector<float> right(large.storage()->size(), sumOf(sumOf(3)));
  check(large.values() == right, "the sums of a large row");
  {
    Row row(parts, parts, Type::kFloat);
    for (std::int64_t first = 0; first < 10; ++first) {
      row.allocate(first, first + 1);
    }
  }
  const int more = Tensor::pieces;
  check(more > made, "a part without a piece gets another");
  Row row(parts, parts, Type::kFloat);
  for (std::int64_t first = 0; first < 4; ++first) {
    row.allocate(first, first + 1);
  }
  check(Tensor::pieces == more + 1, "three of them stay");
}

/// A part whose job was given up keeps its piece for as long as the library may write to it.
void keepOwner() {
  const auto few = halves(4);
  const RowLayout parts({few});
  std::shared_ptr<Tensor> owner;
  {
    Row row(parts, parts, Type::kFloat);
    owner = row.allocate(0, 4);
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
      Tensor::inference = mode;
      const RowLayout parts({halves(4), halves(5)});
      sum(parts, parts, 2);
    }).join();
  }
}

/// Threads share the pieces.
void crowd() {
  inThreads(4, [](std::size_t thread) {
    for (unsigned seed = 0; seed < 100; ++seed) {
      sumOne(4 * seed + static_cast<unsigned>(thread));
    }
  });
}

}  // namespace

int main(int /*count*/, char** /*words*/) {
  leaveInference();  // before there are pieces of another mode
  keepOwner();
  keepPieces();
  exchange();
  overlap(kApart, true);
  overlap(kShared, false);
  touch();
  crowd();
  std::puts("ok");
  return 0;
}
