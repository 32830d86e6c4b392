#include "join/SwitchMLJoining.hpp"

#include "join/SwitchMLConfig.hpp"
#include "join/SwitchMLProbe.hpp"
#include "sum/SwitchMLOverflow.hpp"
#include "sum/SwitchMLReduction.hpp"

namespace switchml_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kController = std::chrono::seconds(3);
constexpr milliseconds kAskAgain = std::chrono::minutes(1);
constexpr milliseconds kProbe = std::chrono::seconds(30);
constexpr milliseconds kStopForOthers = std::chrono::seconds(5);
constexpr milliseconds kStartAgain = std::chrono::seconds(45);
constexpr milliseconds kQuiet = std::chrono::seconds(1);
constexpr Heartbeat::Times kHeartbeatTimes{std::chrono::seconds(5), std::chrono::minutes(1)};
constexpr const char* kOther = "another process group delegates";

/// Limit of something that a rank does between two answers to the others, who wait for each answer
/// as long as the group's timeout. It does three such things at most.
milliseconds between(milliseconds limit, milliseconds timeout) {
  return std::min(limit, timeout / 4);
}

/// Steps that bring the context into use, for a new group and for one that returns.
struct Entry {
  switchml::Config config;
  std::string place;     // of the configuration
  milliseconds timeout;  // of the group
  milliseconds probing;  // of each sum of the probe; the others wait for both

  Delegate& delegate() const { return Delegate::get(); }

  /// The library ends the process, or waits for ever, where its controller cannot be reached.
  Capabilities reachController() const {
    const auto& general = config.general_;
    const auto limit = between(kController, timeout);
    const auto why = resultWithin(
        limit + limit / 4,
        [host = general.controller_ip_str, port = general.controller_port,
         deadline = Clock::now() + limit] { return unreachable(host, port, deadline); });
    return why && why->empty()
               ? Capabilities()
               : Capabilities::unable(
                     text("the controller at ", general.controller_ip_str, ":",
                          general.controller_port, " cannot be reached: ",
                          why ? *why : text("no answer within ", limit.count(), " ms")),
                     place);
  }

  /// False where the other ranks do not wait for as long as it takes.
  bool canAwaitQuiet() const {
    return !usesSwitch(config.general_) || between(kQuiet, timeout) == kQuiet;
  }

  /// Called when the context has stopped, before it is started anew. No packet of it is on its way
  /// to the switch any more when this returns.
  Capabilities awaitQuiet() const {
    if (!canAwaitQuiet()) {
      return Capabilities::unable(text("a timeout of ", timeout.count(),
                                       " ms is too short for the SwitchML context to start again"));
    }
    std::this_thread::sleep_for(usesSwitch(config.general_) ? kQuiet : kQuiet.zero());
    return {};
  }

  Capabilities start(milliseconds limit) const {
    auto out = delegate().start(config, limit);
    if (out.able()) {
      helpers().start(threadsFor(ownCores().size(), config.general_.num_worker_threads) - 1);
    }
    return out;
  }

  /// Sums a known pattern of each type with the other ranks. That a context has started does not
  /// say that its packets arrive, nor that their sums are right. `step` becomes kSums once there
  /// are any.
  Capabilities probe(std::uint64_t seed, Step& step) const {
    const auto& general = config.general_;
    const Probe pattern(general.rank, general.num_workers, general.packet_numel, seed);
    const auto slots = kSimulator ? 0 : outstanding(config);  // it has none
    const auto numel = probeNumel(slots, general.num_worker_threads, messageNumel(config));
    const auto check = [&](auto zero, Element element) {
      const auto values = std::make_shared<std::vector<decltype(zero)>>(numel);
      pattern.fill(*values);
      sumAlone({"probe", values->data(), numel, element, values}, probing);
      return pattern.objection(*values);
    };
    std::string why;
    try {
      // Both in any case: the sums of this rank alone may be wrong, and the others wait for it.
      why = check(std::int32_t{}, Element::kInt32);
      const auto floats = check(float{}, Element::kFloat32);
      step = Step::kSums;
      why = why.empty() ? floats : why;
    } catch (const std::exception& error) {
      why = error.what();
    }
    return why.empty() ? Capabilities()
                       : Capabilities::unable(why, delegate().library.packets().words());
  }

  /// Steps by which a group uses it again after a failure.
  std::vector<Failover::Step> stepsBack() const {
    const auto obstacle = [](const Capabilities& out) { return Failover::Obstacle{out.words}; };
    return {[own = *this](std::uint64_t /*seed*/) {
              auto& library = own.delegate().library;
              static_cast<void>(
                  library.stoppedWithin(between(kStopAfterFailure, own.timeout), library.epoch()));
              if (const auto why = library.obstacle(); !why.empty()) {
                return Failover::Obstacle{why, !startsAgain(own.config.general_)};
              }
              const auto reached =
                  hasController(own.config) ? own.reachController() : Capabilities();
              const auto quiet = reached.able() ? own.awaitQuiet() : reached;
              return Failover::Obstacle{quiet.words, !own.canAwaitQuiet()};
            },
            [own = *this, obstacle](std::uint64_t /*seed*/) {
              return obstacle(own.start(std::min(own.timeout / 2, kStartAgain)));
            },
            [own = *this, obstacle](std::uint64_t seed) {
              auto step = Step::kProbe;
              return obstacle(sumsAreFake(own.config.general_) ? Capabilities()
                                                               : own.probe(seed, step));
            }};
  }
};

/// A new group of this rank. It has the claim on SwitchML from its first answer on, and gives it
/// back unless the group delegates.
class Joining {
 public:
  Joining(const std::vector<const void*>& contexts, int rank, int size, milliseconds timeout,
          const Exchange& exchange)
      : exchange_(exchange),
        rank_(rank),
        size_(size),
        timeout_(std::min(timeout, kForever)),
        negotiation_(exchange, rank, size, timeout_, hostName(), say) {
    number_ = delegate_.groups.add({contexts, rank, size});
    group_.contexts = contexts;
    group_.timeout = timeout_;
    group_.rank = static_cast<std::size_t>(rank);
  }
  ~Joining() {
    if (claims_) {
      group_.failover.reset();  // could stop the context of the next group
      delegate_.claimed = false;
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
    step_ = step;
    own_ = (this->*function)();
    if (!own_.able() && (step == Step::kStart || step == Step::kProbe)) {
      delegate_.fail(own_.words);  // the context cannot be used
    }
    all_ = negotiation_.round(nameOf(step), own_);
    return all_.able();
  }

  const switchml::GeneralConfig& general() const { return loaded_.config.general_; }
  bool fake() const { return sumsAreFake(general()); }
  bool connects() const { return size_ > 1 && (settings_.failsOver || usesSwitch(general())); }
  Entry entry() const {
    return {loaded_.config, loaded_.place, timeout_, std::min(kProbe, timeout_ / 4)};
  }

  Capabilities capabilities() {
    auto& library = delegate_.library;
    if (library.state() == Library::State::kStopping && !delegate_.claimed) {
      static_cast<void>(
          library.stoppedWithin(between(kStopAfterFailure, timeout_), library.epoch()));
    }
    std::unique_lock<std::mutex> lock(delegate_.claiming);
    try {
      capabilities_ = findCapabilities();
    } catch (const std::exception& error) {
      capabilities_ =
          Capabilities::unable(text("unusable switchml.cfg: ", error.what()), loaded_.place);
    }
    claims_ = capabilities_.able();
    if (claims_) {
      delegate_.claimed = true;
    }
    first_ = library.epoch() == 0;
    const bool starts = claims_ && library.state() != Library::State::kRunning;
    lock.unlock();
    auto ready = starts && usesSwitch(general()) ? reachController() : Capabilities();
    if (!ready.able()) {
      step_ = Step::kController;
    } else if (starts && !first_) {
      ready = entry().awaitQuiet();
    }
    capabilities_ = ready.able() ? capabilities_ : std::move(ready);
    return capabilities_;
  }

  /// A controller that took all of its time is not asked again before a minute has passed.
  Capabilities reachController() {
    auto& earlier = delegate_.unanswered;
    const auto controller = text(general().controller_ip_str, ":", general().controller_port);
    const auto begun = Clock::now();
    if (controller == earlier.controller && begun < earlier.time + kAskAgain) {
      const auto ago = std::chrono::duration_cast<std::chrono::seconds>(begun - earlier.time);
      return Capabilities::unable(text(earlier.why, " (asked ", ago.count(), " s ago)"),
                                  loaded_.place);
    }
    auto out = entry().reachController();
    if (!out.able() && Clock::now() - begun >= between(kController, timeout_) / 2) {
      earlier = {controller, out.words, begun};
    }
    return out;
  }

  Capabilities findCapabilities() {
    auto& library = delegate_.library;
    const auto& state = delegate_.state.get();
    auto& config = loaded_.config;
    const bool started = library.epoch() != 0;
    const bool claimed = delegate_.claimed;
    if (isSet("SWITCHML_DISABLE")) {
      return Capabilities::unable("SWITCHML_DISABLE is set");
    }
    if (helper_) {
      return Capabilities::busy("the parent process delegates");
    }
    if (library.lost()) {
      return Capabilities::unable(kForked);
    }
    if (claimed && state.kind == DelegationState::Kind::kSuspended) {
      return Capabilities::busy(kOther);  // which returns
    }
    if (state.kind != DelegationState::Kind::kDelegating) {
      const auto stays = claimed ? "" : library.obstacle();
      if (claimed || !stays.empty()) {
        return Capabilities::unable(
            text("SwitchML was given up: ", state.why, stays.empty() ? "" : "; ", stays));
      }
    }
    if (started) {
      config = Library::config();
      if (config.general_.num_workers > size_) {
        const auto why =
            text("the group has ", size_, " of the ", config.general_.num_workers, " workers");
        return claimed ? Capabilities::busy(why) : Capabilities::unable(why);
      }
    }
    if (claimed) {
      return Capabilities::busy(kOther);
    }
    if (group_.contexts.empty()) {
      return Capabilities::unable("the group has no Gloo device");
    }
    if (const auto wrong = settings_.read(); !wrong.empty()) {
      return Capabilities::unable(wrong, "in the environment");
    }
    if (number_ < settings_.group) {
      return Capabilities::busy(
          text("group ", number_, " of ", size_, " ranks, and SWITCHML_GROUP=", settings_.group));
    }
    if (!started) {
      if (auto out = loadConfig(loaded_, rank_, size_); !out.able()) {
        return out;
      }
    }
    const auto* const source = started ? "SwitchML runs with" : "switchml.cfg has";
    if (general().num_workers != size_) {
      return Capabilities::unable(text(source, " num_workers = ", general().num_workers,
                                       ", the group has ", size_, size_ == 1 ? " rank" : " ranks"),
                                  loaded_.place);
    }
    if (general().rank != rank_) {
      return Capabilities::unable(
          text(source, " rank = ", general().rank, ", the process has rank ", rank_),
          loaded_.place);
    }
    if (!started && config.general_.backend == "dpdk") {
      fillInDpdk(loaded_);
    }
    if (const auto wrong = objection(config); !wrong.empty()) {
      return Capabilities::unable(wrong, loaded_.place);
    }
    return {Ability::kAble, termsOf(config, settings_), "",
            library.state() == Library::State::kRunning ? ContextState::kRunning
                                                        : ContextState::kStopped};
  }

  /// Stops a context that runs, before it is started anew with those of the other ranks.
  Capabilities stop() {
    auto& library = delegate_.library;
    if (library.state() == Library::State::kRunning) {
      if (!startsAgain(general())) {
        return Capabilities::unable("its SwitchML context runs, and those of other ranks do not");
      }
      const auto epoch = library.epoch();
      library.stop(epoch);
      if (!library.stoppedWithin(between(kStopForOthers, timeout_), epoch)) {
        return Capabilities::unable("the SwitchML context has not stopped");
      }
      return entry().awaitQuiet();
    }
    return {};
  }

  /// The failure of an earlier group is forgotten, and lost sequence numbers are nobody's any
  /// more.
  Capabilities start() {
    if (first_) {
      loaded_.cores.keep();
      board.filled.set(loaded_.filled);
    }
    group_.longest =
        milliseconds(std::min(static_cast<std::uint64_t>(kForever.count()), settings_.timeoutMs));
    group_.workers = general().num_workers;
    group_.marksOverflow = !kSimulator && general().prepostprocessor == "cpu_exponent_quantizer";
    delegate_.order.skip();
    delegate_.state.renew();
    // The other ranks wait for the answer of this one as long as the group's timeout.
    return entry().start(timeout_ / 2);
  }

  Capabilities probe() { return entry().probe(negotiation_.seed(), step_); }

  const Ring& connected() {
    if (!ring_.send) {
      ring_ = exchange_.connect();
      RingCollectives(ring_, kRecoveries, rank_, size_).connect(timeout_);
    }
    return ring_;
  }

  Capabilities connect() {
    try {
      if (settings_.failsOver) {
        auto back = entry();
        back.probing = std::min(back.probing, group_.longest);
        group_.failover = std::make_shared<Failover>(connected(), rank_, size_, timeout_,
                                                     delegateOf(back), board.failover);
      }
      if (usesSwitch(general())) {
        group_.heartbeat = std::make_shared<Heartbeat>(connected(), rank_, size_, kHeartbeatTimes);
      }
    } catch (const std::exception& error) {
      return Capabilities::unable(text("the ranks cannot be connected: ", error.what()));
    }
    return {};
  }

  static Failover::Delegate delegateOf(const Entry& back) {
    auto& delegate = back.delegate();
    Failover::Delegate out;
    out.stop = [&delegate](const std::string& why) { delegate.suspend(why); };
    out.copy = [](void* to, const void* from, std::size_t bytes) {
      constexpr auto kWord = sizeof(std::int32_t);
      inParts(bytes / kWord, 1, [=](std::uint64_t first, std::uint64_t last) noexcept {
        std::memcpy(static_cast<char*>(to) + first * kWord,
                    static_cast<const char*>(from) + first * kWord, (last - first) * kWord);
      });
    };
    out.say = say;
    out.steps = back.stepsBack();
    out.resume = [&delegate] { delegate.state.resume(); };
    return out;
  }

  void conclude(bool agreed) {
    outcome_.size = size_;
    outcome_.capabilities = capabilities_.able() ? capabilities_.words : "";
    if (agreed) {
      const auto bits = settings_.quantization.bits;
      const auto& filled = board.filled.get();
      outcome_.terms = termsOf(loaded_.config, settings_);
      outcome_.decision = text(
          fake() ? "WARNING: NOT REAL SUMS: " : "", "allreduce(", settings_.ops.names(", "),
          ") of ", settings_.dtypes.names(", "), " goes to SwitchML",
          bits == Quantization::kWhole ? "" : text(" in ", bits, " bits"), " (", outcome_.terms,
          settings_.failsOver ? text("; SWITCHML_TIMEOUT_MS=", settings_.timeoutMs) : "",
          filled.empty() ? "" : "; filled in: ", filled, ")");
    } else {
      outcome_.decision = "allreduce stays with Gloo: " + all_.words;
      outcome_.reason = all_.words;
      outcome_.step = step_;
      outcome_.late = own_.late;
      outcome_.objection = own_.able()          ? ""
                           : own_.where.empty() ? own_.words
                                                : text(own_.words, " (", own_.where, ")");
    }
    const auto line = outcome_.line();
    board.group.set(outcome_);
    const bool firstGroup = !delegate_.joined.exchange(true);
    // Counters are those of the process; a group that delegates says most about them.
    if (firstGroup || agreed) {
      board.labels.set({{"host", hostName()},
                        {"rank", std::to_string(rank_)},
                        {"world_size", std::to_string(size_)},
                        {"group", negotiation_.name()}});
    }
    const bool warns = !capabilities_.where.empty() && !delegate_.warned.exchange(true);
    if (agreed) {
      if (group_.heartbeat) {
        group_.heartbeat->begin();
      }
      group_.firstSequence = delegate_.order.take(0);
      delegate_.groups.begin(group_.contexts[0]);
      delegate_.mark = std::make_unique<Descriptor>(SocketName::open());
      static_cast<void>(delegatingName(getpid()).bind(*delegate_.mark));
      board.delegations.set(std::move(group_));
      board.delegation.store(&board.delegations.get(), std::memory_order_release);
      claims_ = false;
    }
    if (helper_) {
      return;  // the files and lines are the parent's
    }
    delegate_.report.start(rank_);
    if (rank_ == 0) {
      say(line);
    }
    // Not every torch shares it: some have keys of each attempt.
    if (firstGroup && negotiation_.again() && isSet("TORCHELASTIC_RESTART_COUNT") &&
        !isSet("TORCH_DISABLE_SHARE_RDZV_TCP_STORE")) {
      say("warning: this is a restart with the Store of the attempt before, in which Gloo may find "
          "addresses of processes that have ended, and hang; set "
          "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun with --rdzv-backend=c10d");
    }
    const auto where = capabilities_.where.empty() ? "" : text(" (", capabilities_.where, ")");
    if (warns) {
      say(text("warning: rank ", rank_, ": ", capabilities_.words, where,
               "; allreduce stays with Gloo"));
    }
    if (!agreed && all_.kind != Ability::kBusy && all_.required) {
      throw std::runtime_error(text("SWITCHML_REQUIRE is set, but in this ", line, where));
    }
  }

  Delegate& delegate_ = Delegate::get();
  const Exchange& exchange_;
  const int rank_;
  const int size_;
  const milliseconds timeout_;
  Negotiation<SteadyClock> negotiation_;
  Loaded loaded_;
  Capabilities capabilities_;  // of this rank, with which it has begun
  Capabilities own_;           // its answer in the newest step
  Message all_;                // what all have made of that
  Step step_ = Step::kCapabilities;
  std::uint64_t number_;  // of the group, among those of its size
  const bool helper_ = descendsFromDelegating();
  bool claims_ = false;
  bool first_ = false;  // the context was never started
  Ring ring_;
  Delegation group_;
  Settings& settings_ = group_.settings;
  Outcome outcome_;
};

}  // namespace

void joinRanks(const std::vector<const void*>& contexts, int rank, int size,
               std::chrono::milliseconds timeout, const Exchange& exchange) {
  Joining(contexts, rank, size, timeout, exchange).run();
}

}  // namespace switchml_torch
