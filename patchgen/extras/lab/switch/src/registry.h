// Decides which workers may join which session. Knows nothing of gRPC.
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
  std::size_t elements = 0;  // of a packet; 0 if the switch does not sum that size
  Address address{};
};

// The caller has a mutex: see SessionService.
class Registry {
 public:
  enum class Change { kNone, kFresh, kJoined };

  struct Decision {
    Change change = Change::kNone;
    std::shared_ptr<const Session> session;  // unless kNone
    std::string reason;                      // of kNone
  };

  // Decides about an application. `running`: whether workers of the present session may still work.
  Decision Decide(const Application& application, const std::function<bool()>& running) const;

  // Makes a session that Decide() returned the present one.
  void Adopt(std::shared_ptr<const Session> session) { session_ = std::move(session); }

 private:
  std::shared_ptr<const Session> session_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_REGISTRY_H_
