#include "registry.h"

#include <optional>
#include <utility>

namespace softswitch {
namespace {

bool Same(const std::optional<Address>& one, const Address& other) {
  return one && one->mac == other.mac && one->ip == other.ip;
}

Registry::Decision Refused(std::string reason) {
  return {Registry::Change::kNone, nullptr, std::move(reason)};
}

}  // namespace

Registry::Decision Registry::Decide(const Application& application,
                                    const std::function<bool()>& running) const {
  const std::string rank = "rank " + std::to_string(application.rank);
  if (application.workers == 0 || application.workers > kMaxWorkers) {
    return Refused(std::to_string(application.workers) + " workers: the switch sums 1 to " +
                   std::to_string(kMaxWorkers));
  }
  if (application.rank >= application.workers) {
    return Refused("unknown " + rank + ": there are " + std::to_string(application.workers) +
                   " workers");
  }
  if (application.elements == 0) {
    return Refused("packet size: the switch sums packets of 64 and of 256 elements");
  }

  auto session = std::make_shared<Session>();
  const bool known = session_ && session_->id == application.session;
  if (application.rank == 0 && !known) {
    const bool again = session_ && Same(session_->workers[0], application.address);
    if (session_ && !again && running()) {
      return Refused("another session is running, of " + std::to_string(session_->workers.size()) +
                     " workers");
    }
    session->id = application.session;
    session->elements = application.elements;
    session->workers.resize(application.workers);
    session->workers[0] = application.address;
    return {Change::kFresh, session, ""};
  }

  if (!known) return Refused("rank 0 has not begun this session, or another one is running");
  if (session_->workers.size() != application.workers) {
    return Refused(rank + " says " + std::to_string(application.workers) +
                   " workers, rank 0 says " + std::to_string(session_->workers.size()));
  }
  if (session_->elements != application.elements) {
    return Refused(rank + " has packets of " + std::to_string(application.elements) +
                   " elements, rank 0 of " + std::to_string(session_->elements));
  }
  for (std::uint32_t other = 0; other < session_->workers.size(); ++other) {
    const std::optional<Address>& taken = session_->workers[other];
    if (other == application.rank) {
      if (taken && !Same(taken, application.address)) {
        return Refused(rank + " has joined already, with another address");
      }
    } else if (Same(taken, application.address)) {
      return Refused(rank + " has the address of rank " + std::to_string(other));
    }
  }
  *session = *session_;
  session->workers[application.rank] = application.address;
  return {Change::kJoined, session, ""};
}

}  // namespace softswitch
