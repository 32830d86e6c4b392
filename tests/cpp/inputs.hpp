// Seeded inputs for what must survive any: numbers at limits, and bytes that are changed here and
// there. The same on every machine, which the standard's distributions are not.
#ifndef TESTS_CPP_INPUTS_HPP_
#define TESTS_CPP_INPUTS_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

using Octets = std::vector<std::uint8_t>;

class Inputs {
 public:
  explicit Inputs(std::uint64_t number) : random_(number) {}

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool OneIn(std::uint64_t count) { return Below(count) == 0; }

  template <class Value>
  Value Of(std::initializer_list<Value> values) {
    return values.begin()[Below(values.size())];
  }

  // Often a power of two or next to one, of any size.
  template <class Value>
  Value Number() {
    const std::uint64_t power = std::uint64_t{1} << Below(64);
    return static_cast<Value>(Of<std::uint64_t>(
        {0, 1, Below(16), Below(300), power, power - 1, power + 1, ~std::uint64_t{0}, random_()}));
  }

  template <class Value>
  void Spoil(Value& value) {
    value = Number<Value>();
  }

  Octets Garbage(std::size_t most) {
    Octets octets(Below(most + 1));
    for (std::uint8_t& octet : octets) octet = static_cast<std::uint8_t>(random_());
    return octets;
  }

  // Overwrites, cuts, repeats or inserts.
  void Change(Octets& octets) {
    if (octets.empty()) return;
    const std::size_t at = Below(octets.size());
    const auto from = octets.begin() + static_cast<std::ptrdiff_t>(at);
    switch (Below(4)) {
      case 0:
        octets[at] = static_cast<std::uint8_t>(random_());
        break;
      case 1:
        octets.resize(at);
        break;
      case 2: {
        const Octets again(from, octets.end());
        octets.insert(octets.end(), again.begin(), again.end());
        break;
      }
      default: {
        const Octets more = Garbage(40);
        octets.insert(from, more.begin(), more.end());
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

template <class Value>
void Append(Octets& octets, const Value& value) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(&value);
  octets.insert(octets.end(), from, from + sizeof value);
}

#endif  // TESTS_CPP_INPUTS_HPP_
