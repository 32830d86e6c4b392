#include "controller.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <deque>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "controller.grpc.pb.h"
#include "log.h"
#include "meeting.h"
#include "registry.h"

namespace softswitch {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int kThreads = 256;
constexpr std::size_t kGroups = 64;
constexpr auto kQuiet = std::chrono::seconds(10);
constexpr int kAliveMs = 10'000;

Status Refused(StatusCode code, const std::string& who, const std::string& why) {
  Log("refused " + who + ": " + why);
  return {code, "the software switch refuses " + who + ": " + why};
}

std::size_t ElementsOf(switchml_proto::PacketSize size) {
  return softswitch::ElementsOf(static_cast<unsigned>(size));
}

// Which connections belong to the same group of workers: those that have met in a broadcast.
class Groups {
 public:
  std::uint64_t Of(const std::string& peer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, group] : members_) {
      if (name == peer) return group;
    }
    return 0;
  }

  // The value of a broadcast names the group, as it names the session.
  void Add(const std::string& peer, std::uint64_t group) {
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.emplace_front(peer, group);
    if (members_.size() > kGroups * kMaxWorkers) members_.pop_back();
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::uint64_t>> members_;
};

class SyncService : public switchml_proto::Sync::Service {
 public:
  SyncService(Meeting& broadcasts, Meeting& barriers, Groups& groups)
      : broadcasts_(broadcasts), barriers_(barriers), groups_(groups) {}

  Status Barrier(ServerContext* context, const switchml_proto::BarrierRequest* request,
                 switchml_proto::BarrierResponse*) override {
    Meeting::Caller caller;
    caller.room = groups_.Of(context->peer());
    return Meet(barriers_, "a barrier", *context, request->num_workers(), caller).second;
  }

  Status Broadcast(ServerContext* context, const switchml_proto::BroadcastRequest* request,
                   switchml_proto::BroadcastResponse* response) override {
    Meeting::Caller caller;
    caller.rank = request->rank();
    if (request->rank() == request->root()) caller.value = request->value();
    const std::string what = "rank " + std::to_string(request->rank());
    if (request->rank() >= request->num_workers() || request->root() >= request->num_workers()) {
      return Refused(StatusCode::INVALID_ARGUMENT, what,
                     "there are " + std::to_string(request->num_workers()) + " workers");
    }
    // The root waits too: so nothing is left over where some rank never comes.
    auto [value, status] = Meet(broadcasts_, what, *context, request->num_workers(), caller);
    if (status.ok()) {
      groups_.Add(context->peer(), value);
      response->set_value(value);
    }
    return status;
  }

 private:
  static std::pair<std::uint64_t, Status> Meet(Meeting& meeting, const std::string& what,
                                               ServerContext& context, std::uint32_t workers,
                                               Meeting::Caller& caller) {
    if (workers == 0 || workers > kMaxWorkers) {
      const std::string why =
          std::to_string(workers) + " workers: the switch sums 1 to " + std::to_string(kMaxWorkers);
      return {0, Refused(StatusCode::INVALID_ARGUMENT, what, why)};
    }
    caller.wanted = workers;
    caller.gone = [&context] { return context.IsCancelled(); };
    const Meeting::Outcome outcome = meeting.Join(caller);
    switch (outcome.end) {
      case Meeting::End::kMet:
        return {outcome.value, Status::OK};
      case Meeting::End::kGone:
        return {0, Status(StatusCode::CANCELLED, outcome.why)};
      case Meeting::End::kLate:
        return {0, Refused(StatusCode::DEADLINE_EXCEEDED, what, outcome.why)};
      default:
        return {0, Refused(StatusCode::ABORTED, what, outcome.why)};
    }
  }

  Meeting& broadcasts_;
  Meeting& barriers_;
  Groups& groups_;
};

class SessionService : public switchml_proto::Session::Service {
 public:
  SessionService(Plane& plane, Meeting& barriers, Groups& groups)
      : plane_(plane), barriers_(barriers), groups_(groups) {}

  Status RdmaSession(ServerContext*, const switchml_proto::RdmaSessionRequest* request,
                     switchml_proto::RdmaSessionResponse*) override {
    return Refused(StatusCode::UNIMPLEMENTED, "rank " + std::to_string(request->rank()),
                   "RDMA is not served; the client library has to use DPDK");
  }

  Status UdpSession(ServerContext* context, const switchml_proto::UdpSessionRequest* request,
                    switchml_proto::UdpSessionResponse* response) override {
    const std::string who = "rank " + std::to_string(request->rank());
    const Application application = {request->session_id(),
                                     request->rank(),
                                     request->num_workers(),
                                     ElementsOf(request->packet_size()),
                                     {request->mac(), request->ipv4()}};
    const std::lock_guard<std::mutex> lock(mutex_);
    const Registry::Decision decision = registry_.Decide(application, [&] { return Running(); });
    if (decision.change == Registry::Change::kNone) {
      return Refused(StatusCode::FAILED_PRECONDITION, who, decision.why);
    }
    const bool fresh = decision.change == Registry::Change::kFresh;
    plane_.Apply(decision.session, fresh);
    registry_.Adopt(decision.session);
    if (fresh) barriers_.Clear(groups_.Of(context->peer()), "a newer session has begun");
    Log(who + " of " + std::to_string(request->num_workers()) + " has joined");
    response->set_session_id(request->session_id());
    response->set_mac(kSwitch.mac);
    response->set_ipv4(kSwitch.ip);
    return Status::OK;
  }

 private:
  // A worker that has gone ends a session. On ports that do not tell, silence does.
  bool Running() const {
    return !plane_.Broken() && std::chrono::steady_clock::now() - plane_.LastPacket() < kQuiet;
  }

  Plane& plane_;
  Meeting& barriers_;
  Groups& groups_;
  std::mutex mutex_;
  Registry registry_;
};

}  // namespace

class Controller::Parts {
 public:
  Parts(Plane& plane, const std::string& address, std::chrono::milliseconds patience)
      : broadcasts_(patience),
        barriers_(patience),
        sync_(broadcasts_, barriers_, groups_),
        session_(plane, barriers_, groups_) {
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(kThreads);
    builder.SetResourceQuota(quota);
    // Two switches on one port would share the workers.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kAliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAliveMs);
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&sync_);
    builder.RegisterService(&session_);
    server_ = builder.BuildAndStart();
    if (!server_ || port <= 0) throw std::runtime_error(address + ": cannot listen there");
    address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
  }

  ~Parts() { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

 private:
  Meeting broadcasts_;
  Meeting barriers_;
  Groups groups_;
  SyncService sync_;
  SessionService session_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

Controller::Controller(Plane& plane, const std::string& address, std::chrono::milliseconds patience)
    : parts_(std::make_unique<Parts>(plane, address, patience)) {}

Controller::~Controller() = default;

const std::string& Controller::address() const { return parts_->address(); }

}  // namespace softswitch
