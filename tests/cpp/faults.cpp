// A client library with faults: what the delegate calls of the simulator, wrapped by the linker.
//
// FAULT      slow-start (Start() takes FAULT_MS), flip (an element of a job is another one), hang
// (a
//            job never ends), or nothing
// FAULT_JOB  the first job that has the fault, from 0
// FAULT_PORT the port of the simulator, where controller_port is somebody else's
#include <switchml/context.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#define START_NAME _ZN8switchml7Context5StartEPNS_6ConfigE
#define ALLREDUCE_NAME \
  _ZN8switchml7Context14AllReduceAsyncEPvS1_mNS_8DataTypeENS_18AllReduceOperationE
#define JOIN(prefix, name) prefix##name
#define REAL(name) JOIN(__real_, name)
#define WRAP(name) JOIN(__wrap_, name)

using switchml::Context;
using JobPtr = std::shared_ptr<switchml::Job>;

namespace {

std::string given(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

extern "C" {

bool REAL(START_NAME)(Context* self, switchml::Config* config);

JobPtr REAL(ALLREDUCE_NAME)(Context* self, void* in, void* out, std::uint64_t numel,
                            switchml::DataType type, switchml::AllReduceOperation operation);

bool WRAP(START_NAME)(Context* self, switchml::Config* config) {
  if (given("FAULT") == "slow-start") {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(given("FAULT_MS"))));
  }
  if (const auto port = given("FAULT_PORT"); !port.empty()) {
    config->general_.controller_port = static_cast<std::uint16_t>(std::stoi(port));
  }
  return REAL(START_NAME)(self, config);
}

JobPtr WRAP(ALLREDUCE_NAME)(Context* self, void* in, void* out, std::uint64_t numel,
                            switchml::DataType type, switchml::AllReduceOperation operation) {
  static std::atomic<int> jobs{0};
  const auto fault = jobs++ >= std::stoi(given("FAULT_JOB", "0")) ? given("FAULT") : "";
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
