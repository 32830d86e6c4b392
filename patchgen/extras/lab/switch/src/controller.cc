#include "controller.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <deque>
#include <stdexcept>
#include <utility>

#include "controller.grpc.pb.h"
#include "log.h"
#include "mutex.h"
#include "registry.h"
#include "rendezvous.h"

namespace softswitch {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int kThreads = 256;
constexpr std::size_t kGroups = 64;
constexpr auto kQuiet = std::chrono::seconds(10);
constexpr int kAliveMs = 10'000;

Status Refused(StatusCode code, const std::string& caller, const std::string& reason) {
  Log("refused " + caller + ": " + reason);
  return {code, "the software switch refuses " + caller + ": " + reason};
}

std::size_t ElementsOf(switchml_proto::PacketSize size) {
  return softswitch::ElementsOf(static_cast<unsigned>(size));
}

// The groups of workers: connections that have met in a broadcast. Any thread of gRPC may call it;
// `mutex_` guards the list.
class Groups {
 public:
  // Group of a connection; 0 if it is in none.
  std::uint64_t Of(const std::string& peer) LAB_EXCLUDES(mutex_) {
    const lab::MutexLock lock(mutex_);
    for (const auto& [name, group] : members_) {
      if (name == peer) return group;
    }
    return 0;
  }

  // Adds a connection. The group has the value of its broadcast, which is the session id.
  void Add(const std::string& peer, std::uint64_t group) LAB_EXCLUDES(mutex_) {
    const lab::MutexLock lock(mutex_);
    members_.emplace_front(peer, group);
    if (members_.size() > kGroups * kMaxWorkers) members_.pop_back();
  }

 private:
  lab::Mutex mutex_;
  std::deque<std::pair<std::string, std::uint64_t>> members_
      LAB_GUARDED_BY(mutex_);  // newest first
};

// Broadcast and barrier. Threads of gRPC call it; each Rendezvous has its own mutex.
class SyncService : public switchml_proto::Sync::Service {
 public:
  SyncService(Rendezvous& broadcasts, Rendezvous& barriers, Groups& groups)
      : broadcasts_(broadcasts), barriers_(barriers), groups_(groups) {}

  Status Barrier(ServerContext* context, const switchml_proto::BarrierRequest* request,
                 switchml_proto::BarrierResponse*) override {
    Rendezvous::Caller caller;
    caller.group = groups_.Of(context->peer());
    return Meet(barriers_, "a barrier", *context, request->num_workers(), caller).second;
  }

  Status Broadcast(ServerContext* context, const switchml_proto::BroadcastRequest* request,
                   switchml_proto::BroadcastResponse* response) override {
    Rendezvous::Caller caller;
    caller.rank = request->rank();
    if (request->rank() == request->root()) caller.value = request->value();
    const std::string what = "rank " + std::to_string(request->rank());
    if (request->rank() >= request->num_workers() || request->root() >= request->num_workers()) {
      return Refused(StatusCode::INVALID_ARGUMENT, what,
                     "there are " + std::to_string(request->num_workers()) + " workers");
    }
    // The root waits too, so no value is kept for a rank that never comes.
    auto [value, status] = Meet(broadcasts_, what, *context, request->num_workers(), caller);
    if (status.ok()) {
      groups_.Add(context->peer(), value);
      response->set_value(value);
    }
    return status;
  }

 private:
  static std::pair<std::uint64_t, Status> Meet(Rendezvous& meeting, const std::string& what,
                                               ServerContext& context, std::uint32_t workers,
                                               Rendezvous::Caller& caller) {
    if (workers == 0 || workers > kMaxWorkers) {
      const std::string reason =
          std::to_string(workers) + " workers: the switch sums 1 to " + std::to_string(kMaxWorkers);
      return {0, Refused(StatusCode::INVALID_ARGUMENT, what, reason)};
    }
    caller.wanted = workers;
    caller.gone = [&context] { return context.IsCancelled(); };
    const Rendezvous::Outcome outcome = meeting.Join(caller);
    switch (outcome.result) {
      case Rendezvous::Result::kMet:
        return {outcome.value, Status::OK};
      case Rendezvous::Result::kGone:
        return {0, Status(StatusCode::CANCELLED, outcome.reason)};
      case Rendezvous::Result::kLate:
        return {0, Refused(StatusCode::DEADLINE_EXCEEDED, what, outcome.reason)};
      default:
        return {0, Refused(StatusCode::ABORTED, what, outcome.reason)};
    }
  }

  Rendezvous& broadcasts_;
  Rendezvous& barriers_;
  Groups& groups_;
};

// Sessions. Threads of gRPC call it. `mutex_` guards the registry, and is held while the data plane
// applies a session: so sessions are applied in the order of the decisions.
class SessionService : public switchml_proto::Session::Service {
 public:
  SessionService(DataPlane& plane, Rendezvous& barriers, Groups& groups)
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
    const lab::MutexLock lock(mutex_);
    const Registry::Decision decision = registry_.Decide(application, [&] { return Running(); });
    if (decision.change == Registry::Change::kNone) {
      return Refused(StatusCode::FAILED_PRECONDITION, who, decision.reason);
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
  // False if a worker of the session has disconnected, or no packet has come for a while: not every
  // port notices a disconnect.
  bool Running() const {
    return !plane_.Broken() && std::chrono::steady_clock::now() - plane_.LastPacket() < kQuiet;
  }

  DataPlane& plane_;
  Rendezvous& barriers_;
  Groups& groups_;
  lab::Mutex mutex_;
  Registry registry_ LAB_GUARDED_BY(mutex_);
};

}  // namespace

class Controller::Parts {
 public:
  Parts(DataPlane& plane, const std::string& address, std::chrono::milliseconds limit)
      : broadcasts_(limit),
        barriers_(limit),
        sync_(broadcasts_, barriers_, groups_),
        session_(plane, barriers_, groups_) {
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(kThreads);
    builder.SetResourceQuota(quota);
    // Without this, two switches could listen on one port, and would share the workers.
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
  Rendezvous broadcasts_;
  Rendezvous barriers_;
  Groups groups_;
  SyncService sync_;
  SessionService session_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

Controller::Controller(DataPlane& plane, const std::string& address,
                       std::chrono::milliseconds limit)
    : parts_(std::make_unique<Parts>(plane, address, limit)) {}

Controller::~Controller() = default;

const std::string& Controller::address() const { return parts_->address(); }

}  // namespace softswitch
