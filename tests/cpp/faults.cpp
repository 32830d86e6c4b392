// A client library with faults: what the delegate calls of the simulator, wrapped by the linker.
//
// FAULT      slow-start (Start() takes FAULT_MS), slow-end (the same, once the context says that it
//            runs), slow-job (AllReduceAsync() takes FAULT_MS before it has the job), no-start
//            (Start() fails, after FAULT_MS where that is set), slow-stop (Stop() takes FAULT_MS),
//            flip (an element of a job is another one), hang (a job never ends, and Stop() takes
//            FAULT_MS where that is set), lose (one job is not taken, for want of memory), keep
//            (one job is taken, and memory is wanted after that; Stop() takes FAULT_MS, and the
//            job's memory is used until then), or nothing
// FAULT_JOB  the first job that has the fault, from 0
// FAULT_START the start of the context, from 0, that alone has no-start, and whose jobs alone have
//            the fault; of all if it is not set
// FAULT_PORT the port of the simulator, where controller_port is somebody else's
// MUTE_MS    how long the servers of names do not answer
#include <netdb.h>
#include <poll.h>
#include <switchml/context.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

#define START_NAME _ZN8switchml7Context5StartEPNS_6ConfigE
#define STOP_NAME _ZN8switchml7Context4StopEv
#define ALLREDUCE_NAME \
  _ZN8switchml7Context14AllReduceAsyncEPvS1_mNS_8DataTypeENS_18AllReduceOperationE
#define JOIN(prefix, name) prefix##name
#define REAL(name) JOIN(__real_, name)
#define WRAP(name) JOIN(__wrap_, name)

using switchml::Context;
using JobPtr = std::shared_ptr<switchml::Job>;

namespace {

std::atomic<bool> starting{false};
std::atomic<int> starts{0};
switchml::Tensor kept{};  // of the job that was taken

std::string given(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void pass() {
  std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(given("FAULT_MS", "0"))));
}

bool isNow() {
  const auto only = given("FAULT_START");
  return only.empty() || starts == std::stoi(only) + 1;
}

std::atomic<int> vain{0};

}  // namespace

int vainWaits() { return vain; }

extern "C" {

int REAL(getaddrinfo)(const char* host, const char* port, const addrinfo* hints, addrinfo** found);

int WRAP(getaddrinfo)(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(given("MUTE_MS", "0"))));
  return REAL(getaddrinfo)(host, port, hints, found);
}

int REAL(poll)(pollfd* entries, nfds_t count, int limit);

int WRAP(poll)(pollfd* entries, nfds_t count, int limit) {
  const int ready = REAL(poll)(entries, count, limit);
  vain += ready == 0 && limit > 0 ? 1 : 0;
  return ready;
}

bool REAL(START_NAME)(Context* self, switchml::Config* config);

void REAL(STOP_NAME)(Context* self);

JobPtr REAL(ALLREDUCE_NAME)(Context* self, void* in, void* out, std::uint64_t numel,
                            switchml::DataType type, switchml::AllReduceOperation operation);

bool WRAP(START_NAME)(Context* self, switchml::Config* config) {
  starting = true;
  ++starts;
  if (given("FAULT") == "slow-start") {
    pass();
  }
  if (given("FAULT") == "no-start" && isNow()) {
    pass();
    return starting = false;
  }
  const auto controller = config->general_.controller_port;
  if (const auto port = given("FAULT_PORT"); !port.empty()) {
    config->general_.controller_port = static_cast<std::uint16_t>(std::stoi(port));
  }
  const bool started = REAL(START_NAME)(self, config);
  const_cast<switchml::Config&>(self->GetConfig()).general_.controller_port = controller;
  if (given("FAULT") == "slow-end") {
    pass();
  }
  starting = false;
  return started;
}

// The real library waits for its start, and ends the process where that fails.
void WRAP(STOP_NAME)(Context* self) {
  if (starting) {
    std::abort();
  }
  if (given("FAULT") == "slow-stop" || (given("FAULT") == "hang" && !given("FAULT_MS").empty())) {
    pass();
  }
  if (kept.out_ptr != nullptr) {
    pass();
    std::memmove(kept.out_ptr, kept.in_ptr, kept.numel * sizeof(std::int32_t));
  }
  REAL(STOP_NAME)(self);
}

JobPtr WRAP(ALLREDUCE_NAME)(Context* self, void* in, void* out, std::uint64_t numel,
                            switchml::DataType type, switchml::AllReduceOperation operation) {
  static std::atomic<int> jobs{0};
  const auto job = jobs++;
  const auto first = std::stoi(given("FAULT_JOB", "0"));
  const auto fault = job >= first && isNow() ? given("FAULT") : "";
  if (fault == "lose" && job == first) {
    throw std::bad_alloc();
  }
  if (fault == "keep" && job == first) {
    REAL(ALLREDUCE_NAME)(self, in, out, numel, type, operation);
    kept = {in, out, numel, type};
    throw std::bad_alloc();
  }
  if (fault == "slow-job") {
    pass();
  }
  if (fault == "hang") {
    switchml::ExtraJobInfo extra;
    extra.allreduce_operation = operation;
    return std::make_shared<switchml::Job>(switchml::Tensor{in, out, numel, type},
                                           switchml::ALLREDUCE, extra);
  }
  if (fault == "flip") {
    static_cast<std::int32_t*>(in)[numel / 2] ^= 1 << 20;
  }
  return REAL(ALLREDUCE_NAME)(self, in, out, numel, type, operation);
}
}
