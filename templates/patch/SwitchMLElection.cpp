#include "SwitchMLElection.hpp"

#include <utility>

namespace switchml_torch {

Election::Nomination::Nomination(Election& election, std::string holder)
    : election_(election), holder_(std::move(holder)) {
  const std::lock_guard<std::mutex> lock(election_.mutex_);
  stands_ = election_.open_ && !election_.voting_ && election_.holder_.name == holder_;
  ++election_.pending_;
}

Election::Nomination::~Nomination() {
  {
    const std::lock_guard<std::mutex> lock(election_.mutex_);
    --election_.pending_;
  }
  election_.changed_.notify_all();
}

void Election::Nomination::accept(Group candidate) {
  const std::lock_guard<std::mutex> lock(election_.mutex_);
  if (election_.open_ && election_.holder_.name == holder_) {
    election_.candidates_.push_back(std::move(candidate));
    election_.contested_ = true;
  }
}

void Election::begin(Group holder, int size, Actions actions) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holder_ = std::move(holder);
  size_ = size;
  actions_ = std::move(actions);
  candidates_.clear();
  contested_ = false;
  open_ = true;
}

std::string Election::holder() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_ && !voting_ ? holder_.name : "";
}

bool Election::has(const void* context) {
  if (!open_ || !contested_) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return find(context) != candidates_.end();
}

/// A vote under way, without the mutex.
class Election::Vote {
 public:
  Vote(Election& election, const void* voter, std::unique_lock<std::mutex>& lock)
      : election_(election) {
    election_.voting_ = true;
    election_.voter_ = voter;
    lock.unlock();
  }
  ~Vote() {
    {
      const std::lock_guard<std::mutex> lock(election_.mutex_);
      election_.voting_ = false;
      election_.voter_ = nullptr;
      election_.open_ = !counted;
    }
    election_.changed_.notify_all();
  }
  Vote(const Vote&) = delete;
  Vote& operator=(const Vote&) = delete;

  bool counted = false;

 private:
  Election& election_;
};

void Election::vote(const void* context, std::uint64_t numel) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto may = [&] {
    return open_ &&
           (holder_.owns(context) || (numel >= kLarge && find(context) != candidates_.end()));
  };
  if (!may()) {
    return;
  }
  // The ranks that nominate are about to answer each other: none of them waits for a call.
  changed_.wait(lock, [&] { return pending_ == 0 && !voting_; });
  if (!may()) {
    return;
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Group& one, const Group& other) { return one.name < other.name; });
  Values values;
  auto limit = holder_.timeout;
  for (const auto& candidate : candidates_) {
    values.push_back(candidate.owns(context) ? 1 : 0);
    limit = std::max(limit, candidate.timeout);
  }
  Vote under(*this, context, lock);
  if (!values.empty()) {
    actions_.sum(values, limit);
    const auto all = std::find(values.begin(), values.end(), size_);
    if (all != values.end()) {
      actions_.handOn(candidates_[static_cast<std::size_t>(all - values.begin())]);
    }
  }
  under.counted = true;
}

bool Election::votes(const void* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return voter_ != nullptr && voter_ == context;
}

void Election::leave(const void* context) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ends = [&] { return holder_.owns(context) || find(context) != candidates_.end(); };
  if (!ends()) {
    return;
  }
  changed_.wait(lock, [&] { return !voting_; });
  if (holder_.owns(context)) {
    holder_.contexts.clear();
    open_ = false;
  } else if (const auto own = find(context); own != candidates_.end()) {
    own->contexts.clear();
  }
}

std::vector<Election::Group>::iterator Election::find(const void* context) {
  return std::find_if(candidates_.begin(), candidates_.end(),
                      [&](const Group& group) { return group.owns(context); });
}

}  // namespace switchml_torch
