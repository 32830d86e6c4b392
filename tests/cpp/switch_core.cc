// The core of the switch as a filter: sessions and frames on standard input, what becomes of each
// frame on standard output.
//
//   B workers fresh elements(2) { there mac(6) ip(4) }      a session
//   F length(2) frame
//
// For each frame: the verdict (255: nobody's), the set, the number of answers, and of each the
// rank, length(2) and frame. Integers are in network order.
#include <cstdio>
#include <memory>
#include <vector>

#include "core.h"

namespace {

using softswitch::Address;
using softswitch::Bytes;

constexpr std::uint8_t kNobody = 255;

std::vector<std::uint8_t> Input() {
  std::vector<std::uint8_t> input;
  std::uint8_t part[65536];
  while (const std::size_t bytes = std::fread(part, 1, sizeof part, stdin)) {
    input.insert(input.end(), part, part + bytes);
  }
  return input;
}

void Put(std::vector<std::uint8_t>& out, std::size_t rank, Bytes head, Bytes values) {
  const std::size_t size = head.size + values.size;
  for (const std::size_t octet : {rank, size >> 8, size & 255}) {
    out.push_back(static_cast<std::uint8_t>(octet));
  }
  out.insert(out.end(), head.data, head.data + head.size);
  out.insert(out.end(), values.data, values.data + values.size);
}

void Take(softswitch::Core& core, Bytes frame, std::vector<std::uint8_t>& out) {
  using softswitch::Verdict;
  const std::optional<std::size_t> rank = core.RankOf(frame);
  if (!rank) {
    out.insert(out.end(), {kNobody, 0, 0});
    return;
  }
  softswitch::Answer answer = core.Take(*rank, frame);
  std::vector<std::size_t> ranks;
  if (answer.verdict == Verdict::kAgain) ranks = {*rank};
  if (answer.verdict == Verdict::kComplete) {
    for (std::size_t each = 0; each < core.session().workers.size(); ++each) {
      if (core.session().workers[each]) ranks.push_back(each);
    }
  }
  out.push_back(static_cast<std::uint8_t>(answer.verdict));
  out.push_back(static_cast<std::uint8_t>(answer.set));
  out.push_back(static_cast<std::uint8_t>(ranks.size()));
  for (const std::size_t each : ranks) {
    Put(out, each, answer.head.To(*core.session().workers[each]), answer.values);
  }
}

}  // namespace

int main() {
  const std::vector<std::uint8_t> input = Input();
  std::vector<std::uint8_t> out;
  softswitch::Core core;
  std::size_t at = 0;
  const auto next = [&](auto octets) {
    const std::uint64_t value = softswitch::LoadBig<decltype(octets)::value>(&input[at]);
    at += decltype(octets)::value;
    return value;
  };
  const std::integral_constant<std::size_t, 1> one;
  const std::integral_constant<std::size_t, 2> two;
  const std::integral_constant<std::size_t, 4> four;
  const std::integral_constant<std::size_t, 6> six;
  while (at < input.size()) {
    if (next(one) == 'F') {
      const std::size_t size = next(two);
      // A copy of its own, so that a sanitizer sees what is read behind its end.
      const std::vector<std::uint8_t> frame(input.begin() + static_cast<std::ptrdiff_t>(at),
                                            input.begin() + static_cast<std::ptrdiff_t>(at + size));
      Take(core, {frame.data(), frame.size()}, out);
      at += size;
      continue;
    }
    auto session = std::make_shared<softswitch::Session>();
    session->workers.resize(next(one));
    const bool fresh = next(one) != 0;
    session->elements = next(two);
    for (std::optional<Address>& worker : session->workers) {
      const bool there = next(one) != 0;
      const Address address = {next(six), static_cast<std::uint32_t>(next(four))};
      if (there) worker = address;
    }
    if (fresh) {
      core.Begin(session);
    } else {
      core.Update(session);
    }
  }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
