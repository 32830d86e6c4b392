/// What a group does when its context fails or a rank is gone, as its jobs see it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "SwitchMLInterface.hpp"

namespace switchml_delegate {

/// The jobs of a group that goes on after its context has failed. They have numbers 0, 1, 2, ...
class Recovery {
 public:
  using Memory = std::shared_ptr<std::uint64_t[]>;

  virtual ~Recovery() = default;

  /// Memory for the sum of a job, once few enough jobs are under way. The caller keeps it for as
  /// long as the library may write to it. Null where the job does not go to the library. Called in
  /// the order of the jobs; `begins`: it is the first of a call.
  virtual Memory admit(std::uint64_t job, bool begins, std::size_t bytes) = 0;

  /// Gives `data` the sum of a job that the library has finished, when all before it have theirs.
  /// False after a failure: the sum is not to be used.
  virtual bool take(std::uint64_t job, void* data) = 0;

  /// Ends the use of the context, and warns the other ranks.
  virtual void suspend(const std::string& why) noexcept = 0;

  /// Replaces `data`, the input of a job that was not taken, by the sum. Throws std::runtime_error
  /// where there is none. `limit` is for each message. `prepare` is called before the data is
  /// summed, when no rank takes a sum of it from its library any more.
  virtual void redo(std::uint64_t job, Element element, void* data, std::uint64_t numel,
                    std::chrono::milliseconds limit, const std::function<void()>& prepare) = 0;

  /// Closes it, and warns the other ranks at once: they throw as well.
  virtual void giveUp(const std::string& why) noexcept = 0;

  /// Ends all waiting: nothing is summed any more, and nobody is warned.
  virtual void close(const std::string& why) noexcept = 0;

  /// Closes it, and lets go of the connections.
  virtual void leave() noexcept = 0;
};

/// What a rank knows of the other ranks' lives.
class Liveness {
 public:
  static constexpr int kNobody = -1;

  virtual ~Liveness() = default;

  /// Starts it, when all ranks have one.
  virtual void begin() noexcept = 0;

  /// A rank that is gone, as far as this one knows, or kNobody. Lock-free.
  virtual int gone() noexcept = 0;

  /// Ends it, without waiting.
  virtual void close() noexcept = 0;

  /// Ends it, and lets go of the connections.
  virtual void leave() noexcept = 0;
};

}  // namespace switchml_delegate
