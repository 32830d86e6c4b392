/// Choice of the next of several things that may come next.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

[[noreturn]] inline void die(const char* why) {
  std::fprintf(stderr, "the test itself is broken: %s\n", why);
  std::_Exit(2);
}

class Order {
 public:
  virtual ~Order() = default;
  /// One of the numbers below `count`.
  virtual std::size_t choose(std::size_t count) = 0;
};

/// All orders, one after the other, of a program that does the same as long as it is given the same
/// choices.
class EveryOrder : public Order {
 public:
  std::size_t choose(std::size_t count) override {
    if (depth_ == path_.size()) {
      path_.push_back({0, count});
    } else if (path_[depth_].count != count) {
      die("the same choices led elsewhere");
    }
    return path_[depth_++].taken;
  }

  /// False after the last one.
  bool next() {
    if (depth_ != path_.size()) {
      die("the same choices led nowhere");
    }
    depth_ = 0;
    while (!path_.empty() && ++path_.back().taken == path_.back().count) {
      path_.pop_back();
    }
    return !path_.empty();
  }

 private:
  struct Choice {
    std::size_t taken;
    std::size_t count;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
};

class RandomOrder : public Order {
 public:
  explicit RandomOrder(unsigned seed) : engine_(seed) {}
  std::size_t choose(std::size_t count) override { return engine_() % count; }

 private:
  std::mt19937 engine_;
};
