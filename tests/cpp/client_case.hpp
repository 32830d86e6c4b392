/// Common parts of the client library's cases: a controller for one worker, in the same process,
/// its configuration, and jobs.
#pragma once

#include <grpc++/grpc++.h>
#include <switchml/context.h>
#include <switchml/switchml.grpc.pb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

class Controller {
 public:
  bool refuses = false;                     ///< Answers with zeros.
  bool hangs = false;                       ///< Never lets go of who waits for the other workers.
  std::atomic<std::uint64_t> sessionId{0};  ///< Of the newest session.

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
    Sync(const bool& isHanging, std::atomic<std::uint64_t>& newest)
        : hanging(isHanging), sessionId(newest) {}

    grpc::Status Barrier(grpc::ServerContext* context, const switchml_proto::BarrierRequest*,
                         switchml_proto::BarrierResponse*) override {
      while (hanging && !context->IsCancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return grpc::Status::OK;
    }

    grpc::Status Broadcast(grpc::ServerContext*, const switchml_proto::BroadcastRequest*,
                           switchml_proto::BroadcastResponse* response) override {
      response->set_value(sessionId += 77);
      return grpc::Status::OK;
    }

    const bool& hanging;
    std::atomic<std::uint64_t>& sessionId;
  };

  Session session_{refuses};
  Sync sync_{hangs, sessionId};
  std::unique_ptr<grpc::Server> server_;
};

[[noreturn]] inline void end(int code, const std::string& why) {
  std::fprintf(code == 0 ? stdout : stderr, "%s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(code);
}

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) {
    end(1, otherwise);
  }
}

/// For one worker that has time.
inline void configure(switchml::GeneralConfig& general, const char* backend) {
  general.rank = 0;
  general.num_workers = 1;
  general.num_worker_threads = 1;
  general.max_outstanding_packets = 8;
  general.packet_numel = 256;
  general.backend = backend;
  general.scheduler = "fifo";
  general.prepostprocessor = "cpu_exponent_quantizer";
  general.instant_job_completion = false;
  general.controller_ip_str = "127.0.0.1";
  general.timeout = 10'000;
  general.timeout_threshold = 1'000'000;
  general.timeout_threshold_increment = 100;
}

/// A worker, and jobs whose sums are known.
struct Run {
  switchml::Config config;
  Controller controller;
  switchml::Context& context = switchml::Context::GetInstance();
  const float least;  ///< The values are a thousand from here on.

  Run(const char* backend, float from) : least(from) { configure(config.general_, backend); }

  std::shared_ptr<switchml::Job> submit(std::vector<float>& in, std::vector<float>& out) {
    return context.AllReduceAsync(in.data(), out.data(), in.size(), switchml::FLOAT32,
                                  switchml::SUM);
  }

  /// A job that ends in this way, with the right sum where that is FINISHED.
  void sum(std::size_t numel, switchml::JobStatus wanted = switchml::FINISHED) {
    auto in = std::make_unique<std::vector<float>>(numel);
    auto out = std::make_unique<std::vector<float>>(numel, -1e30F);
    for (std::size_t i = 0; i < numel; ++i) {
      (*in)[i] = static_cast<float>(i % 1000) + least;
    }
    const auto job = submit(*in, *out);
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (job->GetJobStatus() < switchml::FINISHED) {
      require(Clock::now() < limit, "a job hangs");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    require(job->GetJobStatus() == wanted, "a job ended otherwise");
    if (wanted != switchml::FINISHED) {  // it may still be written to
      in.release();
      out.release();
      return;
    }
    for (std::size_t i = 0; i < numel; ++i) {
      require(std::abs((*in)[i] - (*out)[i]) < 0.01F, "a wrong sum, told as finished");
    }
  }
};

/// Requires that what is sent again has been waited for less and less once it is answered. `job`
/// runs one, of which a packet is lost often, and once more then: what `isThat` finds in `sent`.
template <typename Sent, typename Job, typename IsThat>
void requireShortWait(std::vector<Sent>& sent, const Job& job, const IsThat& isThat) {
  // A thread that lost its processor looks as one that waits.
  for (int attempt = 0; attempt < 10; ++attempt) {
    Clock::duration longest{};
    Clock::duration last{};
    sent.clear();
    job();
    std::vector<Clock::time_point> times;
    for (const auto& one : sent) {
      if (isThat(one)) {
        times.push_back(one.when);
      }
    }
    for (std::size_t i = 1; i < times.size(); ++i) {
      last = times[i] - times[i - 1];
      longest = std::max(longest, last);
    }
    if (last < longest / 3) {
      return;
    }
  }
  end(1, "what is lost is waited for as long as when nothing was answered");
}
