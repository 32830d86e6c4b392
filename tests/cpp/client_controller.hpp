/// The controller of a switch for one worker, in the process that the client library runs in.
#pragma once

#include <grpc++/grpc++.h>
#include <switchml/switchml.grpc.pb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

class Controller {
 public:
  bool refuses = false;  ///< Answers with zeros.
  bool hangs = false;    ///< Never lets go of who waits for the other workers.

  /// Starts to listen, and returns the port.
  std::uint16_t listen() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&session_);
    builder.RegisterService(&sync_);
    server_ = builder.BuildAndStart();
    return static_cast<std::uint16_t>(port);
  }

 private:
  struct Session final : switchml_proto::Session::Service {
    explicit Session(const bool& isRefused) : refused(isRefused) {}

    template <typename Request, typename Response>
    bool answer(const Request& request, Response& response) const {
      if (!refused) {
        response.set_session_id(request.session_id());
        response.set_mac(0x020000000001);
        response.set_ipv4(0x0a0000fe);
      }
      return !refused;
    }

    grpc::Status UdpSession(grpc::ServerContext*, const switchml_proto::UdpSessionRequest* request,
                            switchml_proto::UdpSessionResponse* response) override {
      answer(*request, *response);
      return grpc::Status::OK;
    }

    grpc::Status RdmaSession(grpc::ServerContext*,
                             const switchml_proto::RdmaSessionRequest* request,
                             switchml_proto::RdmaSessionResponse* response) override {
      if (answer(*request, *response)) {
        *response->mutable_qpns() = request->qpns();
        *response->mutable_psns() = request->psns();
      }
      return grpc::Status::OK;
    }

    const bool& refused;
  };

  struct Sync final : switchml_proto::Sync::Service {
    explicit Sync(const bool& isHanging) : hanging(isHanging) {}

    grpc::Status Barrier(grpc::ServerContext* context, const switchml_proto::BarrierRequest*,
                         switchml_proto::BarrierResponse*) override {
      while (hanging && !context->IsCancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return grpc::Status::OK;
    }

    grpc::Status Broadcast(grpc::ServerContext*, const switchml_proto::BroadcastRequest* request,
                           switchml_proto::BroadcastResponse* response) override {
      response->set_value(request->value());
      return grpc::Status::OK;
    }

    const bool& hanging;
  };

  Session session_{refuses};
  Sync sync_{hangs};
  std::unique_ptr<grpc::Server> server_;
};
