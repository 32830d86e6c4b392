// Marks of overflow in rows of floats: which values are marked, wherever they are in a row, and
// become NaN again. Prints ok.
#include "sum/overflow.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"

namespace {

using switchml_delegate::OverflowMarks;
using Limits = std::numeric_limits<float>;

constexpr float kMark = 0x1p126F;

const std::vector<float> kTooLarge{kMark,
                                   std::nextafter(kMark, Limits::infinity()),
                                   Limits::max(),
                                   Limits::infinity(),
                                   Limits::quiet_NaN(),
                                   Limits::signaling_NaN()};
const std::vector<float> kFit{std::nextafter(kMark, 0.0F), 1.5F, Limits::denorm_min(), 0.0F};

/// Lengths around those of a vector, of the block that is searched at once and of the piece that is
/// filled at once, and places in such rows.
const std::vector<std::size_t> kLengths{1, 7, 8, 9, 17, 4096, 4097, 262144, 262145};
std::vector<std::size_t> placesIn(std::size_t numel) { return {0, numel / 2, numel - 1}; }

/// True where both have the same bits.
bool same(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

std::string textOf(float value, std::size_t place, std::size_t numel) {
  return std::to_string(value) + " at " + std::to_string(place) + " of " + std::to_string(numel);
}

/// Marks a row as it is, and as one whose values are still to be filled in.
bool marked(std::vector<float>& row) {
  constexpr std::int64_t kFirst = 1000;
  std::vector<float> filled(row.size(), -1);
  std::int64_t next = kFirst;
  const bool found = OverflowMarks{filled.data()}.set(
      row.size(), kFirst, [&](std::int64_t first, std::int64_t last) {
        check(first == next, "each value is filled in once");
        next = last;
        std::copy(row.begin() + (first - kFirst), row.begin() + (last - kFirst),
                  filled.begin() + (first - kFirst));
      });
  check(next == kFirst + static_cast<std::int64_t>(row.size()), "all values are filled in");
  check(OverflowMarks{row.data()}.set(row.size(), 0, {}) == found && same(row, filled),
        "the same marks in a row that is filled in");
  return found;
}

void mark(float value, std::size_t place, std::size_t numel) {
  std::vector<float> row(numel, 2.5F);
  row[place] = value;
  auto expected = row;
  expected[place] = kMark;
  const auto name = textOf(value, place, numel);
  check(marked(row) && same(row, expected), "a mark for " + name);
  OverflowMarks{row.data()}.toNaN(numel);
  check(std::isnan(row[place]), "NaN where the mark is: " + name);
  row[place] = expected[place] = 2.5F;
  check(same(row, expected), "no other value becomes NaN: " + name);
  row[place] = value;
  OverflowMarks{row.data()}.toNaN(numel);
  check(std::isnan(row[place]), "NaN without a mark: " + name);
}

void leave(float value, std::size_t place, std::size_t numel) {
  std::vector<float> row(numel, 2.5F);
  row[place] = value;
  const auto before = row;
  const auto name = textOf(value, place, numel);
  check(!marked(row) && same(row, before), "no mark for " + name);
  OverflowMarks{row.data()}.toNaN(numel);
  check(same(row, before), "no NaN for " + name);
}

}  // namespace

int main() {
  for (const auto numel : kLengths) {
    for (const auto place : placesIn(numel)) {
      for (const float sign : {1.0F, -1.0F}) {
        for (const auto value : kTooLarge) {
          mark(std::copysign(value, sign), place, numel);
        }
        for (const auto value : kFit) {
          leave(std::copysign(value, sign), place, numel);
        }
      }
    }
  }
  std::puts("ok");
  return 0;
}
