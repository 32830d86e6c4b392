// Times bfloat16 on its way through float32 and back, in the parts of a default job: through the
// pieces that stay, and through a row that is new for each call.
//
//   rows NUMEL     prints for each pair the seconds of both

#include <ATen/ATen.h>

#include <cstdlib>

#include "SwitchMLCodec.hpp"
#include "timing.hpp"

using RowLayout = switchml_delegate::RowLayout<at::Tensor>;
using Row = switchml_delegate::Row<at::Tensor, at::ScalarType>;

/// Calls `fill` and, a part later, `give`.
template <typename Fill, typename Give>
void inParts(std::int64_t numel, const Fill& fill, const Give& give) {
  constexpr std::int64_t kPart = 1 << 20;
  for (std::int64_t first = 0; first < numel + kPart; first += kPart) {
    if (first < numel) {
      fill(first, std::min(first + kPart, numel));
    }
    if (first > 0) {
      give(first - kPart, std::min(first, numel));
    }
  }
}

int main(int, char** arguments) {
  const auto numel = static_cast<std::int64_t>(std::strtoull(arguments[1], nullptr, 10));
  const auto tensor = at::ones({numel}, at::kBFloat16);
  const RowLayout parts({tensor});
  const auto pieces = [&] {
    Row row(parts, parts, at::kFloat);
    inParts(
        numel,
        [&](auto first, auto last) {
          row.allocate(first, last);
          row.fill(first, last);
        },
        [&](auto first, auto last) { row.copyOut(first, last); });
  };
  const auto fresh = [&] {
    const auto row = tensor.new_empty({numel}, at::kFloat);
    const auto partOf = [&](const at::Tensor& whole, auto first, auto last) {
      return whole.narrow(0, first, last - first);
    };
    inParts(
        numel,
        [&](auto first, auto last) { partOf(row, first, last).copy_(partOf(tensor, first, last)); },
        [&](auto first, auto last) {
          partOf(tensor, first, last).copy_(partOf(row, first, last));
        });
  };
  compare("pieces", pieces, fresh);
}
