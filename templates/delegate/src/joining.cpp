#include "joining.hpp"

#include "base/say.hpp"
#include "host/host_name.hpp"
#include "recover/failover.hpp"
#include "recover/heartbeat.hpp"
#include "sum/overflow.hpp"

namespace switchml_delegate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskAgain = std::chrono::minutes(1);
constexpr milliseconds kProbe = std::chrono::seconds(30);
constexpr milliseconds kStopForOthers = std::chrono::seconds(5);
constexpr milliseconds kStartAgain = std::chrono::seconds(45);
constexpr Heartbeat::Times kHeartbeatTimes{std::chrono::seconds(5), std::chrono::minutes(1)};
constexpr const char* kOther = "another process group delegates";
constexpr const char* kOtherMade = "another process group is being made";
constexpr const char* kOtherEnds = "the process group that delegated is ending";

/// Steps by which a group uses the context again after a failure.
std::vector<ResumeStep> stepsBack(const BringUp& bringUp) {
  const auto obstacle = [](const Capabilities& found) { return ResumeRefusal{found.words}; };
  return {
      [own = bringUp](std::uint64_t /*seed*/) {
        auto& library = own.runtime.library;
        static_cast<void>(
            library.stoppedWithin(between(kStopAfterFailure, own.timeout), library.epoch()));
        if (const auto why = library.obstacle(); !why.empty()) {
          return ResumeRefusal{why, !startsAgain(own.config.general_)};
        }
        const auto reached = hasController(own.config) ? own.reachController() : Capabilities();
        const auto quiet = reached.able() ? own.awaitQuiet() : reached;
        return ResumeRefusal{quiet.words, !own.canAwaitQuiet()};
      },
      [own = bringUp, obstacle](std::uint64_t /*seed*/) {
        return obstacle(own.start(std::min(own.timeout / 2, kStartAgain)));
      },
      [own = bringUp, obstacle](std::uint64_t seed) {
        auto step = Step::kProbe;
        return obstacle(sumsAreFake(own.config.general_) ? Capabilities() : own.probe(seed, step));
      }};
}

/// A new group of this rank. It has the reservation of SwitchML from its first answer on, and
/// releases it unless the group delegates.
class Joining {
 public:
  Joining(const JoiningParts& parts, const std::vector<const void*>& contexts, int rank, int size,
          milliseconds timeout, const Exchange& exchange)
      : parts_(parts),
        exchange_(exchange),
        rank_(rank),
        size_(size),
        timeout_(std::min(timeout, kForever)),
        negotiation_(exchange, rank, size, timeout_, hostName(), say),
        number_(parts.groups.add(contexts, size)) {
    group_.contexts = contexts;
    group_.timeout = timeout_;
    group_.rank = static_cast<std::size_t>(rank);
  }
  ~Joining() {
    if (reserved_) {
      group_.failover.reset();  // could stop the context of the next group
      parts_.claims.name.reset();
      parts_.claims.reservation.release();
    }
  }
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

  void run() {
    const bool agreed =
        take(Step::kCapabilities, &Joining::capabilities) &&
        (all_.context != ContextState::kMixed || take(Step::kStop, &Joining::stop)) &&
        take(Step::kStart, &Joining::start) && (fake() || take(Step::kProbe, &Joining::probe)) &&
        (!connects() || take(Step::kConnect, &Joining::connect));
    conclude(agreed);
  }

 private:
  /// Takes a step, and sends the others how it has ended. True where all are able to go on.
  bool take(Step step, Capabilities (Joining::*function)()) {
    outcome_.step = step;
    own_ = (this->*function)();
    if (!own_.able() && (step == Step::kStart || step == Step::kProbe)) {
      parts_.runtime.fail(own_.words);  // the context cannot be used
    }
    all_ = negotiation_.round(step, own_);
    return all_.able();
  }

  const switchml::GeneralConfig& general() const { return loaded_.config.general_; }
  bool fake() const { return sumsAreFake(general()); }
  bool connects() const { return size_ > 1 && (settings_.failsOver || usesSwitch(general())); }
  Capabilities unusable(const std::string& why) const {
    return Capabilities::unable(why, loaded_.place);
  }
  BringUp bringUp() const {
    return {parts_.runtime, parts_.atExit, loaded_.config,
            loaded_.place,  timeout_,      std::min(kProbe, timeout_ / 4)};
  }

  Capabilities capabilities() {
    auto& library = parts_.runtime.library;
    auto& reservation = parts_.claims.reservation;
    if (library.state() == Library::State::kStopping &&
        reservation.state() == Reservation::State::kFree) {
      static_cast<void>(
          library.stoppedWithin(between(kStopAfterFailure, timeout_), library.epoch()));
    }
    capabilities_ = reserve();
    if (reserved_) {
      try {
        capabilities_ = findCapabilities();
      } catch (const std::exception& error) {
        capabilities_ = unusable(text("unusable switchml.cfg: ", error.what()));
      }
      if (!capabilities_.able()) {
        reserved_ = false;
        reservation.release();
      }
    }
    first_ = library.epoch() == 0;
    const bool starts = reserved_ && library.state() != Library::State::kRunning;
    auto ready = starts && usesSwitch(general()) ? reachController() : Capabilities();
    if (!ready.able()) {
      outcome_.step = Step::kController;
    } else if (starts && !first_) {
      ready = bringUp().awaitQuiet();
    }
    capabilities_ = ready.able() ? capabilities_ : std::move(ready);
    capabilities_.group = settings_.group;
    return capabilities_;
  }

  /// A controller that took all of its time is not asked again before a minute has passed.
  Capabilities reachController() {
    auto& earlier = parts_.claims.unanswered;
    const auto controller = text(general().controller_ip_str, ":", general().controller_port);
    const auto begun = Library::Clock::now();
    if (controller == earlier.controller && begun < earlier.time + kAskAgain) {
      const auto ago = std::chrono::duration_cast<std::chrono::seconds>(begun - earlier.time);
      return unusable(text(earlier.why, " (asked ", ago.count(), " s ago)"));
    }
    auto out = bringUp().reachController();
    if (!out.able() &&
        Library::Clock::now() - begun >= between(BringUp::kController, timeout_) / 2) {
      earlier = {controller, out.words, begun};
    }
    return out;
  }

  /// Why SwitchML cannot be reserved while another group has it.
  Capabilities refused(Reservation::State other) const {
    return other == Reservation::State::kDelegating
               ? Capabilities::busy(text("group ", number_, " of ", size_, " ranks, and ", kOther))
           : other == Reservation::State::kBeingMade ? Capabilities::unable(kOtherMade)
                                                     : Capabilities::unable(kOtherEnds);
  }

  /// Reserves SwitchML for this group, or says why not.
  Capabilities reserve() {
    auto& library = parts_.runtime.library;
    const auto& state = parts_.runtime.state.get();
    auto& reservation = parts_.claims.reservation;
    const auto other = reservation.state();
    const bool delegates = other == Reservation::State::kDelegating;
    const auto wrong = settings_.read();
    if (helper_) {
      return Capabilities::busy("the parent process delegates");
    }
    if (number_ < settings_.group) {
      return Capabilities::later(number_, size_, settings_.group);
    }
    if (isSet("SWITCHML_DISABLE")) {
      return Capabilities::unable("SWITCHML_DISABLE is set");
    }
    if (library.lost()) {
      return Capabilities::unable(kForked);
    }
    if (delegates && state.kind == DelegationState::Kind::kSuspended) {
      return refused(other);  // the group returns
    }
    if (state.kind != DelegationState::Kind::kDelegating) {
      const auto stays = other != Reservation::State::kFree ? "" : library.obstacle();
      if (delegates || !stays.empty()) {
        return Capabilities::unable(
            text("SwitchML was given up: ", state.why, stays.empty() ? "" : "; ", stays));
      }
    }
    if (library.epoch() != 0) {
      const int workers = library.config()->general_.num_workers;
      if (workers > size_) {
        const auto why = text("the group has ", size_, " of the ", workers, " workers");
        return delegates ? Capabilities::busy(why) : Capabilities::unable(why);
      }
    }
    if (other != Reservation::State::kFree) {
      return refused(other);
    }
    if (group_.contexts.empty()) {
      return Capabilities::unable("the group has no Gloo device");
    }
    if (!wrong.empty()) {
      return Capabilities::unable(wrong, "in the environment");
    }
    const auto before = reservation.reserve();
    reserved_ = before == Reservation::State::kFree;
    return reserved_ ? Capabilities() : refused(before);
  }

  /// Reads the configuration, unless SwitchML has one already. Called with the reservation.
  Capabilities findCapabilities() {
    auto& library = parts_.runtime.library;
    auto& config = loaded_.config;
    const bool started = library.epoch() != 0;
    if (started) {
      config = *library.config();
    } else {
      if (auto out = loadConfig(loaded_, rank_, size_); !out.able()) {
        return out;
      }
    }
    const auto* const source = started ? "SwitchML runs with" : "switchml.cfg has";
    if (general().num_workers != size_) {
      return unusable(text(source, " num_workers = ", general().num_workers, ", the group has ",
                           size_, size_ == 1 ? " rank" : " ranks"));
    }
    if (general().rank != rank_) {
      return unusable(text(source, " rank = ", general().rank, ", the process has rank ", rank_));
    }
    if (!started && config.general_.backend == "dpdk") {
      fillInDpdk(loaded_, between(BringUp::kController, timeout_));
    }
    if (const auto wrong = objection(config); !wrong.empty()) {
      return unusable(wrong);
    }
    return {Ability::kAble, termsOf(config, settings_), "",
            library.state() == Library::State::kRunning ? ContextState::kRunning
                                                        : ContextState::kStopped};
  }

  /// Stops a context that runs, before it is started anew with those of the other ranks.
  Capabilities stop() {
    auto& library = parts_.runtime.library;
    if (library.state() == Library::State::kRunning) {
      if (!startsAgain(general())) {
        return Capabilities::unable("its SwitchML context runs, and those of other ranks do not");
      }
      const auto epoch = library.epoch();
      library.stop(epoch);
      if (!library.stoppedWithin(between(kStopForOthers, timeout_), epoch)) {
        return Capabilities::unable("the SwitchML context has not stopped");
      }
      return bringUp().awaitQuiet();
    }
    return {};
  }

  /// The failure of an earlier group is forgotten, and lost sequence numbers are nobody's any
  /// more.
  Capabilities start() {
    if (first_) {
      loaded_.cores.keep();
      parts_.statistics.filled.set(loaded_.filled);
    }
    group_.longest =
        milliseconds(std::min(static_cast<std::uint64_t>(kForever.count()), settings_.timeoutMs));
    group_.workers = general().num_workers;
    group_.marksOverflow = !kSimulator && general().prepostprocessor == "cpu_exponent_quantizer";
    parts_.runtime.order.skip();
    parts_.runtime.state.renew();
    // The other ranks wait for the answer of this one as long as the group's timeout.
    return bringUp().start(timeout_ / 2);
  }

  Capabilities probe() { return bringUp().probe(negotiation_.seed(), outcome_.step); }

  const Ring& connected() {
    if (!ring_.send) {
      ring_ = exchange_.connect();
      RingCollectives(ring_, kRecoveries, rank_, size_).connect(timeout_ / 2);
    }
    return ring_;
  }

  Capabilities connect() {
    try {
      if (settings_.failsOver) {
        auto back = bringUp();
        back.probing = std::min(back.probing, group_.longest);
        group_.failover = std::make_shared<Failover>(connected(), rank_, size_, timeout_,
                                                     failoverOf(back), parts_.statistics.failover);
      }
      if (usesSwitch(general())) {
        group_.heartbeat = std::make_shared<Heartbeat>(connected(), rank_, size_, kHeartbeatTimes);
      }
    } catch (const std::exception& error) {
      return Capabilities::unable(text("the ranks cannot be connected: ", error.what()));
    }
    return {};
  }

  static Failover::Callbacks failoverOf(const BringUp& back) {
    auto& runtime = back.runtime;
    Failover::Callbacks out;
    out.stop = [&runtime](const std::string& why) { runtime.suspend(why); };
    out.copy = [](void* to, const void* from, std::size_t bytes) {
      constexpr auto kWord = sizeof(std::int32_t);
      inParts(bytes / kWord, 1, [=](std::uint64_t first, std::uint64_t last) noexcept {
        std::memcpy(static_cast<char*>(to) + first * kWord,
                    static_cast<const char*>(from) + first * kWord, (last - first) * kWord);
      });
    };
    out.say = say;
    out.resumeSteps = stepsBack(back);
    out.resume = [&runtime] { runtime.state.resume(); };
    return out;
  }

  void conclude(bool agreed) {
    auto& statistics = parts_.statistics;
    outcome_.size = size_;
    outcome_.capabilities = capabilities_.able() ? capabilities_.words : "";
    if (agreed) {
      outcome_.step = Step::kAgreed;
      outcome_.delegate(settings_, termsOf(loaded_.config, settings_), fake(),
                        statistics.filled.get());
    } else {
      outcome_.stayWithGloo(all_.words);
      outcome_.late = own_.late;
      outcome_.objection = own_.able()          ? ""
                           : own_.where.empty() ? own_.words
                                                : text(own_.words, " (", own_.where, ")");
    }
    statistics.group.set(outcome_);
    const bool firstGroup = !parts_.claims.joined.exchange(true);
    // Counters are those of the process; a group that delegates says most about them.
    if (firstGroup || agreed) {
      statistics.labels.set({{"host", hostName()},
                             {"rank", std::to_string(rank_)},
                             {"world_size", std::to_string(size_)},
                             {"group", negotiation_.name()},
                             {"job_id", jobName()}});
    }
    const bool warns = !capabilities_.where.empty() && !parts_.claims.warned.exchange(true);
    if (agreed) {
      delegate();
    }
    if (!helper_) {  // else the files and lines are the parent's
      parts_.report.start(rank_);
      parts_.claims.requirement.note(rank_, all_);
      print(firstGroup, warns);
    }
    if (!helper_ && !agreed && all_.forbidsGloo()) {
      throw std::runtime_error(outcome_.refusal() + where());
    }
  }

  void delegate() {
    if (group_.heartbeat) {
      group_.heartbeat->begin();
    }
    group_.firstSequence = parts_.runtime.order.take(0);
    const auto* const context = group_.contexts[0];
    parts_.claims.name.emplace(delegatingName());
    parts_.claims.reservation.delegate();
    parts_.runtime.begin(std::move(group_));
    reserved_ = false;  // it is the group's
    if (!parts_.groups.has(context)) {
      throw std::runtime_error("the process group has ended while it was made");
    }
  }

  std::string where() const {
    return capabilities_.where.empty() ? "" : text(" (", capabilities_.where, ")");
  }

  void print(bool firstGroup, bool warns) const {
    if (rank_ == 0) {
      say(outcome_.line());
    }
    // Not every torch shares it: some have keys of each attempt.
    if (firstGroup && negotiation_.again() && isSet("TORCHELASTIC_RESTART_COUNT") &&
        !isSet("TORCH_DISABLE_SHARE_RDZV_TCP_STORE")) {
      say("warning: this is a restart with the Store of the attempt before, in which Gloo may find "
          "addresses of processes that have ended, and hang; set "
          "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun with --rdzv-backend=c10d");
    }
    if (warns) {
      warnRank(rank_, text(capabilities_.words, where(), "; ", kStaysWithGloo));
    }
  }

  const JoiningParts parts_;
  const Exchange& exchange_;
  const int rank_;
  const int size_;
  const milliseconds timeout_;
  Negotiation<SteadyClock> negotiation_;
  const std::uint64_t number_;  // of the group, among those of its size
  Loaded loaded_;
  Capabilities capabilities_;  // of this rank, with which it has begun
  Capabilities own_;           // its answer in the newest step
  Message all_;                // what all have made of that
  const bool helper_ = descendsFromDelegating();
  bool reserved_ = false;
  bool first_ = false;  // the context was never started
  Ring ring_;
  Delegation group_;
  Settings& settings_ = group_.settings;
  Outcome outcome_;
};

}  // namespace

void joinRanks(const JoiningParts& parts, const std::vector<const void*>& contexts, int rank,
               int size, std::chrono::milliseconds timeout, const Exchange& exchange) {
  Joining(parts, contexts, rank, size, timeout, exchange).run();
}

}  // namespace switchml_delegate
