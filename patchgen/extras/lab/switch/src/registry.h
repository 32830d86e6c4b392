// Who may join which session. No gRPC in it.
#ifndef SOFTSWITCH_REGISTRY_H_
#define SOFTSWITCH_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core.h"

namespace softswitch {

// Application of a worker to a session.
struct Application {
  std::uint64_t session = 0;
  std::uint32_t rank = 0;
  std::uint32_t workers = 0;
  std::size_t elements = 0;  // 0 where packets of its size are not summed
  Address address{};
};

class Registry {
 public:
  enum class Change { kNone, kFresh, kJoined };

  struct Decision {
    Change change = Change::kNone;
    std::shared_ptr<const Session> session;  // unless kNone
    std::string why;                         // in words, of kNone
  };

  // `running`: whether workers of the present session may still be at work.
  Decision Decide(const Application& application, const std::function<bool()>& running) const;

  void Adopt(std::shared_ptr<const Session> session) { session_ = std::move(session); }

 private:
  std::shared_ptr<const Session> session_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_REGISTRY_H_
