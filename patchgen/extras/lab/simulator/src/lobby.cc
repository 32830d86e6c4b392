#include "lobby.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace switchml {
namespace {

using Clock = std::chrono::steady_clock;

// Connections of strangers that may wait beside those of all workers. The oldest one is closed for
// each further one: a worker sends its hello at once, so it is never among the oldest for long.
constexpr size_t kMaxStrangers = 64;

}  // namespace

Lobby::Lobby(std::vector<Fd> listeners, std::chrono::milliseconds hello_timeout, size_t workers)
    : listeners_(std::move(listeners)),
      hello_timeout_(hello_timeout),
      most_waiting_(workers + kMaxStrangers),
      accept_from_(Clock::now()) {}

void Lobby::Watch(std::vector<pollfd>& entries) const {
  const short events = Clock::now() >= accept_from_ ? POLLIN : 0;
  for (const Fd& listener : listeners_) {
    entries.push_back({listener.get(), events, 0});
  }
  for (const auto& connection : waiting_) {
    entries.push_back({connection->fd().get(), POLLIN, 0});
  }
}

std::vector<Lobby::Arrival> Lobby::Serve(const pollfd* entries) {
  std::vector<Arrival> arrivals;
  const pollfd* const first = entries + listeners_.size();
  const TimePoint overdue = Clock::now() - hello_timeout_;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    auto& connection = waiting_[i];
    if (first[i].revents != 0 && !ReadHello(*connection)) {
      connection.reset();
    } else if (connection->HasFrame()) {
      Hello hello;
      std::memcpy(&hello, connection->payload().data(), sizeof hello);
      connection->Release();
      arrivals.push_back({hello, std::move(connection)});
    } else if (connection->accepted_at() <= overdue) {
      connection.reset();
    }
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), nullptr), waiting_.end());
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[i].revents != 0) {
      AcceptAll(listeners_[i]);
    }
  }
  return arrivals;
}

TimePoint Lobby::NextDeadline() const {
  TimePoint next = TimePoint::max();
  if (!waiting_.empty()) {
    next = waiting_.front()->accepted_at() + hello_timeout_;
  }
  return accept_from_ > Clock::now() ? std::min(next, accept_from_) : next;
}

bool Lobby::ReadHello(Connection& connection) {
  Connection::Event event = connection.Read();
  if (event == Connection::Event::kHeader) {
    const FrameHeader& header = connection.header();
    if (header.kind != FrameKind::kHello || header.bytes != sizeof(Hello)) {
      return false;
    }
    event = connection.Read();
  }
  return event != Connection::Event::kClosed;
}

void Lobby::AcceptAll(const Fd& listener) {
  while (Fd fd = Accept(listener)) {
    if (waiting_.size() == most_waiting_) {
      waiting_.erase(waiting_.begin());
    }
    waiting_.push_back(std::make_unique<Connection>(std::move(fd)));
  }
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // The listener stays readable, so without a pause the thread would spin.
    accept_from_ = Clock::now() + std::chrono::milliseconds(100);
  }
}

}  // namespace switchml
