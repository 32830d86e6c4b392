/// What a graft overrides in PyTorch 2.8 and newer: its works come before torch's, and it records
/// nothing. Compiled with `-include overrides.hpp`, as ProcessGroupGloo.cpp is.
#include <c10/core/Event.h>

#include <memory>
#include <string>

C10_DECLARE_TYPED_REGISTRY(Works, int, std::string, std::unique_ptr, int);
C10_DEFINE_TYPED_REGISTRY(Works, int, std::string, std::unique_ptr, int)

namespace {

std::unique_ptr<std::string> ofTorch(int) { return std::make_unique<std::string>("torch"); }
std::unique_ptr<std::string> ofGraft(int) { return std::make_unique<std::string>("graft"); }

C10_REGISTER_TYPED_CREATOR_WITH_PRIORITY(Works, 1, ::c10::REGISTRY_DEFAULT, ofTorch)
C10_REGISTER_TYPED_CREATOR(Works, 1, ofGraft)
C10_REGISTER_TYPED_CREATOR(Works, 2, ofGraft)
C10_REGISTER_TYPED_CREATOR_WITH_PRIORITY(Works, 2, ::c10::REGISTRY_DEFAULT, ofTorch)
C10_REGISTER_TYPED_CREATOR_WITH_PRIORITY(Works, 3, ::c10::REGISTRY_DEFAULT, ofTorch)

}  // namespace

int main() {
  for (const int key : {1, 2, 3}) {
    if (*Works()->Create(key, 0) != (key == 3 ? "torch" : "graft")) {
      return key;
    }
  }
  auto* recorder = c10d::FlightRecorder<c10::Event>::get();
  const auto trace = recorder->recordWithResetEnabled(1, "gloo:all_reduce", nullptr);
  const std::optional<std::size_t> before = recorder->record(1, "gloo:all_reduce", nullptr);
  recorder->record_pg_ranks("0", 2);
  recorder->retire_id(trace.id, trace.reset_epoch, false);
  return trace.id || trace.reset_epoch || before ? 4 : 0;
}
