/// Values that the ranks of a new process group sum before it delegates, and the check of their
/// sums. Knows only the arithmetic of SwitchML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace switchml_delegate {

/// Elements that take every slot of the switch more than twice: a slot has two sets, and values of
/// one use must not show in the next. `unit`: elements of a message.
std::uint64_t probeNumel(std::uint64_t outstanding, std::uint64_t threads, std::uint64_t unit);

/// A pattern that is different on each rank and in each packet, and whose sum over all ranks is
/// known without adding:
///
///   1. A number that is mixed from the seed and the index of an element is its value. All ranks
///      have the same one.
///   2. Each rank multiplies it by a factor. The factors of the ranks are those from 1 to their
///      number, in another order for each element.
///   3. So the sum is the value times the sum of these factors.
///
/// Another seed is another pattern, so that the ranks of one group do not take those of another for
/// their own. A value that any thread may use.
class Probe {
 public:
  /// `unit`: elements between changes of magnitude; a packet, so that exponents differ as well.
  Probe(std::uint32_t rank, std::uint32_t ranks, std::uint64_t unit, std::uint64_t seed);

  /// The sum that is right, and of floats the one that is right but for the tolerance.
  std::int32_t sum(std::uint64_t i, std::int32_t type) const;
  double sum(std::uint64_t i, float type) const;

  /// Largest error of a right sum of floats. The largest value of every packet is below 1, so
  /// SwitchML's factor is at least INT32_MAX / ranks. Each rank rounds its value times the factor
  /// to a float (2^-24 of it) and that to an integer (half a unit of 1 / factor). The sum of the
  /// integers is exact. It is rounded to a float and divided by the factor: 2^-24 of it twice.
  /// Sums of floats, as the simulator's bypass makes them, round once for each rank.
  double tolerance(std::uint64_t i) const;

  // For values of int32 and float.

  /// Fills in the values of this rank.
  template <typename Value>
  void fill(std::vector<Value>& values) const;

  /// Reason why these are not the sums over all ranks; empty if they are.
  template <typename Value>
  std::string mismatch(const std::vector<Value>& sums) const;

 private:
  void set(std::uint64_t i, std::int32_t& value) const;
  void set(std::uint64_t i, float& value) const;

  std::uint32_t mixed(std::uint64_t i) const;
  std::uint32_t factor(std::uint64_t i) const;
  std::uint64_t factors() const;
  double weight(std::uint64_t i) const;

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::uint64_t unit_;
  const std::uint64_t seed_;
  unsigned bits_ = 0;  // of a value of float32, so that its sum has 24
};

}  // namespace switchml_delegate
