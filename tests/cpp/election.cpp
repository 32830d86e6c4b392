// Elections of ranks that are threads: their groups are made and sum in any order, each from a
// thread of its own. Prints ok.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

#include "SwitchMLElection.cpp"

namespace {

using std::chrono::milliseconds;
using switchml_torch::Election;

constexpr int kRanks = 3;
constexpr std::size_t kGroups = 4;  // the first holds the context

void check(bool holds, const std::string& what) {
  if (!holds) {
    std::fprintf(stderr, "not so: %s\n", what.c_str());
    std::_Exit(1);
  }
}

/// Values of all ranks, which are summed once.
class Sum {
 public:
  void add(Election::Values& values) {
    std::unique_lock<std::mutex> lock(mutex_);
    sums_.resize(come_ == 0 ? values.size() : sums_.size());
    check(sums_.size() == values.size(), "all ranks have as many");
    std::transform(values.begin(), values.end(), sums_.begin(), sums_.begin(), std::plus<>());
    ++come_;
    changed_.notify_all();
    const auto all = [this] { return come_ == kRanks; };
    check(changed_.wait_for(lock, std::chrono::seconds(10), all), "all ranks come");
    values = sums_;
  }
  /// True where it is so on all ranks.
  bool agree(bool answer) {
    Election::Values values{answer ? 1 : 0};
    add(values);
    return values[0] == kRanks;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Election::Values sums_;
  int come_ = 0;
};

/// A rank, whose groups' contexts are places in `contexts`.
struct Rank {
  std::array<char, kGroups> contexts{};
  std::atomic<const void*> owner{nullptr};
  Election election;

  Election::Group group(std::size_t number) const {
    return {{&contexts[number]}, milliseconds(number), std::to_string(9 - number)};
  }
  void begin(std::function<void(Election::Values&, milliseconds)> sum) {
    owner = &contexts[0];
    election.begin(group(0), kRanks,
                   {std::move(sum), [this](const Election::Group& to) { owner = to.contexts[0]; }});
  }
  void add(std::size_t number) {
    Election::Nomination nomination(election, election.holder());
    check(nomination.stands(), "a nomination");
    nomination.accept(group(number));
  }
  /// True where the allreduce is delegated.
  bool sum(std::size_t number, std::uint64_t numel = Election::kLarge) {
    election.vote(&contexts[number], numel);
    return owner == &contexts[number];
  }
};

/// Each rank makes its groups and sums in them after times that are its own. All find that the same
/// group delegates.
void elect(std::uint64_t seed) {
  Sum job;
  std::array<Rank, kRanks> ranks;
  std::array<std::array<Sum, 2>, kGroups> answers;
  std::array<std::array<bool, kGroups>, kRanks> delegated{};
  std::vector<std::thread> threads;
  std::mt19937_64 random(seed);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].begin([&job](Election::Values& values, milliseconds /*limit*/) { job.add(values); });
    for (std::size_t number = 0; number < kGroups; ++number) {
      threads.emplace_back([&, r, number, own = random()]() mutable {
        const auto pause = [&own] {
          std::this_thread::sleep_for(std::chrono::microseconds(own % 8 * 50));
          own /= 8;
        };
        auto& election = ranks[r].election;
        for (std::size_t i = 0; i < (number == 0 ? seed % 8 : 0); ++i) {
          pause();
        }
        const auto holder = election.holder();
        if (number != 0 && answers[number][0].agree(!holder.empty())) {
          pause();
          Election::Nomination nomination(election, holder);
          if (answers[number][1].agree(nomination.stands())) {
            pause();
            nomination.accept(ranks[r].group(number));
          }
        }
        pause();
        delegated[r][number] = ranks[r].sum(number);
      });
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& row : delegated) {
    check(row == delegated[0], "all ranks find the same group, seed " + std::to_string(seed));
    check(std::count(row.begin(), row.end(), true) == 1, "one, seed " + std::to_string(seed));
  }
}

/// The ranks vote for these groups.
void votes(const std::array<std::size_t, kRanks>& numbers, std::size_t winner) {
  Sum job;
  std::array<Rank, kRanks> ranks;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto& rank = ranks[r];
    rank.begin([&job](Election::Values& values, milliseconds limit) {
      check(limit == milliseconds(kGroups - 1), "the longest limit of the groups");
      job.add(values);
    });
    check(rank.election.holder() == "9", "the name of the holder");
    for (std::size_t number = 1; number < kGroups; ++number) {
      rank.add(r == 0 ? number : kGroups - number);
    }
    check(rank.election.has(&rank.contexts[1]) && !rank.election.has(&rank.contexts[0]), "whose");
    check(!rank.sum(1, Election::kLarge - 1) && rank.election.open(), "a small one is no vote");
    if (r == 0) {
      rank.election.leave(&rank.contexts[3]);
      check(!rank.election.has(&rank.contexts[3]), "it has ended");
      check(!rank.sum(3) && rank.election.open(), "nor does it vote");
    }
    threads.emplace_back([&rank, number = numbers[r]] { rank.sum(number); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (auto& rank : ranks) {
    check(rank.owner == &rank.contexts[winner], "the winner");
    check(!rank.election.open() && rank.election.holder().empty(), "no election is open");
  }
}

/// A group is not nominated, or not accepted, where the holder has ended or is another one; and the
/// votes may fail.
void closed() {
  Rank rank;
  const auto fail = [](Election::Values& /*values*/, milliseconds /*limit*/) {
    throw std::runtime_error("no sums");
  };
  rank.begin(fail);
  {
    Election::Nomination ended(rank.election, "9");
    rank.election.leave(&rank.contexts[0]);
    check(rank.election.holder().empty(), "the holder has ended");
    rank.begin(fail);
    ended.accept(rank.group(1));
    Election::Nomination other(rank.election, "8");
    other.accept(rank.group(2));
    check(!other.stands() && !rank.election.has(&rank.contexts[2]), "of another holder");
  }
  for (const std::size_t number : {1, 1, 0}) {
    try {
      rank.sum(number);
      check(false, "the votes have failed");
    } catch (const std::runtime_error&) {
      check(rank.election.open(), "no group has won");
    }
  }
}

/// The holder, or the candidate, ends once the vote has been counted.
void ended(std::size_t which) {
  Rank rank;
  std::atomic<bool> counted{false};
  rank.begin([&counted](Election::Values& values, milliseconds /*limit*/) {
    while (!counted) {
      std::this_thread::yield();
    }
    values = {kRanks};
  });
  rank.add(1);
  std::thread votes([&rank] { check(rank.sum(1), "the candidate has won"); });
  while (!rank.election.votes(&rank.contexts[1])) {
    std::this_thread::yield();
  }
  check(!rank.election.votes(&rank.contexts[0]), "who votes");
  std::thread ends([&rank, which, &counted] {
    rank.election.leave(&rank.contexts[which]);
    check(counted, "not before");
  });
  std::this_thread::sleep_for(milliseconds(5));
  counted = true;
  votes.join();
  ends.join();
}

}  // namespace

int main(int /*count*/, char** /*words*/) {
  votes({1, 1, 1}, 1);
  votes({1, 0, 1}, 0);
  closed();
  ended(0);
  ended(1);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    elect(seed);
  }
  std::puts("ok");
}
