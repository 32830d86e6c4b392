#include "joining.hpp"

#include "base/forever.hpp"
#include "environment.hpp"
#include "failover_callbacks.hpp"
#include "host_name.hpp"
#include "join/loaded_config.hpp"
#include "join/outcome.hpp"
#include "recover/failover.hpp"
#include "recover/heartbeat.hpp"
#include "say.hpp"
#include "sum/pending_jobs.hpp"

namespace switchml_delegate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskAgain = std::chrono::minutes(1);
constexpr milliseconds kProbe = std::chrono::seconds(30);
constexpr milliseconds kStopForOthers = std::chrono::seconds(5);
constexpr Heartbeat::Times kHeartbeatTimes{std::chrono::seconds(5), std::chrono::minutes(1)};
constexpr const char* kOtherDelegates = "another process group delegates";
constexpr const char* kOtherIsMade = "another process group is being made";
constexpr const char* kOtherIsEnding = "the process group that delegated is ending";

/// A new group of this rank, whose ranks agree on whether it delegates. Steps 1 to 5 are rounds of
/// the negotiation, and end at the first step that a rank refuses. Step 6 always follows:
///
///   1. capabilities: reserve SwitchML in this process; read, fill in and check the configuration;
///      reach the controller before a start.
///   2. stop: stop a context that runs, if those of other ranks do not.
///   3. start: start the context, unless it runs.
///   4. probe: sum a known pattern, unless the configuration gives no real sums.
///   5. connect: connect the ranks over Gloo for failover and heartbeats, if the group has them.
///   6. conclude: the group delegates, or falls back to Gloo. That is reported and printed, and
///      with SWITCHML_REQUIRE the fall-back throws.
///
/// The object has the reservation of SwitchML from step 1 on, and releases it unless the group
/// delegates. The thread that makes the group calls all functions.
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
      group_.failover.reset();  // it could stop the context of the next group
      parts_.joinState.name.reset();
      parts_.joinState.reservation.release();
    }
  }
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

  void run() {
    const bool agreed =
        runStep(Step::kCapabilities, &Joining::capabilities) &&
        (decision_.context != ContextState::kMixed || runStep(Step::kStop, &Joining::stop)) &&
        runStep(Step::kStart, &Joining::start) &&
        (fake() || runStep(Step::kProbe, &Joining::probe)) &&
        (!connects() || runStep(Step::kConnect, &Joining::connect));
    conclude(agreed);
  }

 private:
  /// Runs a step, and exchanges its result with the other ranks. True if all are able to go on.
  bool runStep(Step step, Capabilities (Joining::*function)()) {
    outcome_.step = step;
    own_ = (this->*function)();
    if (!own_.able() && (step == Step::kStart || step == Step::kProbe)) {
      parts_.runtime.fail(own_.detail);  // the context cannot be used
    }
    decision_ = negotiation_.round(step, own_);
    return decision_.able();
  }

  const switchml::GeneralConfig& general() const { return loaded_.config.general_; }
  bool fake() const { return sumsAreFake(general()); }
  bool connects() const { return size_ > 1 && (settings_.failsOver || usesSwitch(general())); }
  Capabilities unusable(const std::string& reason) const {
    return Capabilities::unable(reason, loaded_.location);
  }
  BringUp bringUp() const {
    return {parts_.runtime,   parts_.shutdown, loaded_.config,
            loaded_.location, timeout_,        std::min(kProbe, timeout_ / 4)};
  }

  Capabilities capabilities() {
    waitForStoppingContext();
    capabilities_ = reserveAndConfigure();
    if (auto refusal = prepareStart(); !refusal.able()) {
      capabilities_ = std::move(refusal);
    }
    capabilities_.firstDelegatingGroup = settings_.firstDelegatingGroup;
    return capabilities_;
  }

  /// Waits until the context of an earlier group has stopped, in at most kStopAfterFailure.
  void waitForStoppingContext() {
    auto& library = parts_.runtime.library;
    if (library.state() == Library::State::kStopping &&
        parts_.joinState.reservation.state() == Reservation::State::kFree) {
      static_cast<void>(
          library.stoppedWithin(limitOfStep(kStopAfterFailure, timeout_), library.epoch()));
    }
  }

  /// Reserves SwitchML, and finds the configuration. Keeps the reservation only if this rank is
  /// able to delegate.
  Capabilities reserveAndConfigure() {
    auto out = reserve();
    if (!reserved_) {
      return out;
    }
    try {
      out = findCapabilities();
    } catch (const std::exception& error) {
      out = unusable(text("unusable switchml.cfg: ", error.what()));
    }
    if (!out.able()) {
      reserved_ = false;
      parts_.joinState.reservation.release();
    }
    return out;
  }

  /// Makes sure that the context can be started, if this rank will start it: the controller
  /// answers, and the packets of an earlier start are gone.
  Capabilities prepareStart() {
    auto& library = parts_.runtime.library;
    first_ = library.epoch() == 0;
    if (!reserved_ || library.state() == Library::State::kRunning) {
      return {};
    }
    if (usesSwitch(general())) {
      if (auto refusal = reachController(); !refusal.able()) {
        outcome_.step = Step::kController;
        return refusal;
      }
    }
    return first_ ? Capabilities() : bringUp().sleepUntilPacketsAreGone();
  }

  /// A controller that did not answer within half of the limit is asked again after a minute.
  Capabilities reachController() {
    auto& earlier = parts_.joinState.unanswered;
    const auto controller = text(general().controller_ip_str, ":", general().controller_port);
    const auto begun = Library::Clock::now();
    if (controller == earlier.controller && begun < earlier.time + kAskAgain) {
      const auto ago = std::chrono::duration_cast<std::chrono::seconds>(begun - earlier.time);
      return unusable(text(earlier.reason, " (asked ", ago.count(), " s ago)"));
    }
    auto out = bringUp().reachController();
    if (!out.able() &&
        Library::Clock::now() - begun >= limitOfStep(BringUp::kController, timeout_) / 2) {
      earlier = {controller, out.detail, begun};
    }
    return out;
  }

  /// Reserves SwitchML for this group, or returns the reason why it cannot.
  Capabilities reserve() {
    const auto wrong = settings_.read();
    for (const auto find : {&Joining::refusalOfProcess, &Joining::refusalOfContext}) {
      if (auto refusal = (this->*find)(); !refusal.able()) {
        return refusal;
      }
    }
    if (group_.contexts.empty()) {
      return Capabilities::unable("the group has no Gloo device");
    }
    if (!wrong.empty()) {
      return Capabilities::unable(wrong, "in the environment");
    }
    const auto found = parts_.joinState.reservation.reserve();
    reserved_ = found == Reservation::State::kFree;
    return reserved_ ? Capabilities() : refusalOf(found);
  }

  /// Finds a reason of the process, or of its settings, against this group.
  Capabilities refusalOfProcess() const {
    return helper_ ? Capabilities::busy("the parent process delegates")
           : number_ < settings_.firstDelegatingGroup
               ? Capabilities::later(number_, size_, settings_.firstDelegatingGroup)
           : isSet("SWITCHML_DISABLE")     ? Capabilities::unable("SWITCHML_DISABLE is set")
           : parts_.runtime.library.lost() ? Capabilities::unable(kForked)
                                           : Capabilities();
  }

  /// Finds a reason of the context, or of the group that has reserved it, against this group.
  Capabilities refusalOfContext() const {
    auto& library = parts_.runtime.library;
    const auto& state = parts_.runtime.state.get();
    const auto other = parts_.joinState.reservation.state();
    const bool delegates = other == Reservation::State::kDelegating;
    if (delegates && state.kind == DelegationState::Kind::kSuspended) {
      return refusalOf(other);  // the group will resume
    }
    if (state.kind != DelegationState::Kind::kDelegating) {
      const auto lasting = other != Reservation::State::kFree ? "" : library.refusal();
      if (delegates || !lasting.empty()) {
        return Capabilities::unable(
            text("SwitchML was given up: ", state.reason, lasting.empty() ? "" : "; ", lasting));
      }
    }
    if (library.epoch() != 0) {
      const int workers = library.config()->general_.num_workers;
      if (workers > size_) {
        const auto reason = text("the group has ", size_, " of the ", workers, " workers");
        return delegates ? Capabilities::busy(reason) : Capabilities::unable(reason);
      }
    }
    return refusalOf(other);
  }

  /// Returns the reason why SwitchML cannot be reserved in this state of the reservation.
  Capabilities refusalOf(Reservation::State state) const {
    switch (state) {
      case Reservation::State::kFree:
        break;
      case Reservation::State::kBeingMade:
        return Capabilities::unable(kOtherIsMade);
      case Reservation::State::kDelegating:
        return Capabilities::busy(
            text("group ", number_, " of ", size_, " ranks, and ", kOtherDelegates));
      case Reservation::State::kEnding:
        return Capabilities::unable(kOtherIsEnding);
    }
    return {};
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
      fillInDpdk(loaded_, limitOfStep(BringUp::kController, timeout_));
    }
    if (const auto wrong = reasonUnusable(config); !wrong.empty()) {
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
      if (!library.stoppedWithin(limitOfStep(kStopForOthers, timeout_), epoch)) {
        return Capabilities::unable("the SwitchML context has not stopped");
      }
      return bringUp().sleepUntilPacketsAreGone();
    }
    return {};
  }

  /// Starts the context. Forgets the failure of an earlier group, and skips the sequence numbers
  /// that were lost with it.
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

  /// Connects the ranks in a ring, once.
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
        auto resumed = bringUp();
        resumed.probing = std::min(resumed.probing, group_.longest);
        group_.failover =
            std::make_shared<Failover>(connected(), rank_, size_, timeout_,
                                       failoverCallbacks(resumed), parts_.statistics.failover);
      }
      if (usesSwitch(general())) {
        group_.heartbeat = std::make_shared<Heartbeat>(connected(), rank_, size_, kHeartbeatTimes);
      }
    } catch (const std::exception& error) {
      return Capabilities::unable(text("the ranks cannot be connected: ", error.what()));
    }
    return {};
  }

  /// Throws std::runtime_error if the group falls back to Gloo, and a rank does not allow that.
  void conclude(bool agreed) {
    auto& statistics = parts_.statistics;
    outcome_.size = size_;
    outcome_.capabilities = capabilities_.able() ? capabilities_.detail : "";
    if (agreed) {
      outcome_.step = Step::kAgreed;
      outcome_.delegate(settings_, termsOf(loaded_.config, settings_), fake(),
                        statistics.filled.get());
    } else {
      outcome_.fallBack(decision_.detail);
      outcome_.late = own_.late;
      outcome_.ownReason = own_.able()             ? ""
                           : own_.location.empty() ? own_.detail
                                                   : text(own_.detail, " (", own_.location, ")");
    }
    statistics.outcome.set(outcome_);
    const bool firstGroup = !parts_.joinState.joined.exchange(true);
    // Counters are those of the process; a group that delegates says most about them.
    if (firstGroup || agreed) {
      statistics.labels.set({{"host", hostName()},
                             {"rank", std::to_string(rank_)},
                             {"world_size", std::to_string(size_)},
                             {"group", negotiation_.name()},
                             {"job_id", jobName()}});
    }
    const bool warns = !capabilities_.location.empty() && !parts_.joinState.warned.exchange(true);
    if (agreed) {
      delegate();
    }
    if (!helper_) {  // a helper's files and lines would be its parent's
      parts_.report.start(rank_);
      parts_.joinState.requirement.note(rank_, isSet("SWITCHML_REQUIRE"), decision_);
      print(firstGroup, warns);
    }
    if (!helper_ && !agreed && decision_.forbidsGloo()) {
      throw std::runtime_error(outcome_.requirementError() + locationText());
    }
  }

  void delegate() {
    if (group_.heartbeat) {
      group_.heartbeat->begin();
    }
    group_.firstSequence = parts_.runtime.order.next();
    const auto* const context = group_.contexts[0];
    parts_.joinState.name.emplace(delegatingName());
    parts_.joinState.reservation.delegate();
    parts_.runtime.begin(std::move(group_));
    reserved_ = false;  // the group has the reservation now
    if (!parts_.groups.has(context)) {
      throw std::runtime_error("the process group has ended while it was made");
    }
  }

  std::string locationText() const {
    return capabilities_.location.empty() ? "" : text(" (", capabilities_.location, ")");
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
      say(warningText(rank_, text(capabilities_.detail, locationText(), "; ", kStaysWithGloo)));
    }
  }

  const JoiningParts parts_;
  const Exchange& exchange_;
  const int rank_;
  const int size_;
  const milliseconds timeout_;
  Negotiation negotiation_;
  const std::uint64_t number_;  // of the group, among those of its size
  LoadedConfig loaded_;
  Capabilities capabilities_;  // of this rank, in the first step
  Capabilities own_;           // of this rank, in the newest step
  Record decision_;            // of all ranks in the newest step
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
