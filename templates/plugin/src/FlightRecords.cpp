#include "FlightRecords.hpp"

#include <c10/core/Event.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <tuple>
#include <utility>

namespace switchml_delegate {
namespace {

// The recorder's fields are used: its methods are templates that no library of torch exports.
using Recorder = c10d::FlightRecorder<c10::Event>;
using Entry = Recorder::Entry;
using EntryId = std::pair<std::size_t, std::size_t>;  // epoch, and number within it

/// The process's recorder, which is never destroyed.
Recorder& recorder() {
  static auto* const instance = c10d::getFlightRecorder(c10d::kDefaultFRBackend);
  return *instance;
}

template <typename Dims, typename Types, typename Sizes>
void describeTensors(const std::vector<at::Tensor>& tensors, Dims& dims, Types& types,
                     Sizes& sizes) {
  for (const auto& tensor : tensors) {
    dims.push_back(tensor.dim());
    types.push_back(tensor.scalar_type());
    sizes.append(tensor.sizes().begin(), tensor.sizes().end());
  }
}

}  // namespace

/// Last calls of the group, which the recorder shows beside the entries.
struct FlightRecords::Status : c10d::ProcessGroupStatus {};

FlightRecords::FlightRecords() : status_(std::make_shared<Status>()) {}

FlightRecords::Trace FlightRecords::trace() const {
  return recorder().enabled_
             ? torch::CapturedTraceback::gather(true, true, recorder().capture_cpp_stack_)
             : nullptr;
}

FlightRecords::Complete FlightRecords::add(const Group& group, Trace trace, const char* title,
                                           const std::vector<at::Tensor>& inputs,
                                           const std::vector<at::Tensor>& outputs,
                                           std::chrono::milliseconds timeout,
                                           std::uint64_t sequence) {
  if (trace == nullptr) {
    return [] {};
  }
  Entry entry{};
  entry.pg_id_ = static_cast<std::size_t>(group.getID());
  entry.pg_name_ = {group.getGroupUid() + " switchml", group.getGroupDesc()};
  entry.collective_seq_id_ = entry.op_id_ = sequence;
  entry.profiling_name_ = title;
  entry.traceback_ = std::move(trace);
  entry.time_created_ = c10::getTime();
  entry.timeout_ms_ = timeout.count();
  describeTensors(inputs, entry.input_dims_, entry.input_dtypes_, entry.sizes_);
  describeTensors(outputs, entry.output_dims_, entry.output_dtypes_, entry.sizes_);
  entry.thread_id_ = std::this_thread::get_id();
  entry.thread_name_ = c10::getThreadName();

  auto& recorder = switchml_delegate::recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex_);
  recorder.all_pg_status_[entry.pg_id_] = status_;
  status_->lastEnqueuedSeq = static_cast<std::int64_t>(sequence);
  status_->lastEnqueuedWorkName = title;
  const EntryId id{recorder.reset_epoch_, recorder.id_++};
  std::tie(entry.reset_epoch_, entry.id_) = id;
  auto& entries = recorder.entries_;
  if (entries.size() < recorder.max_entries_) {
    entries.push_back(std::move(entry));
  } else {
    entries[recorder.next_] = std::move(entry);
  }
  recorder.next_ = (recorder.next_ + 1) % recorder.max_entries_;
  return [id, title, status = status_, &recorder] {
    const std::lock_guard<std::mutex> lock(recorder.mutex_);
    const auto first = recorder.reset_epoch_start_idx_.at(id.first);
    auto& entry = recorder.entries_[(first + id.second) % recorder.max_entries_];
    if (EntryId(entry.reset_epoch_, entry.id_) == id) {  // otherwise a newer entry replaced it
      entry.time_discovered_started_ = entry.time_discovered_completed_ = c10::getTime();
      entry.retired_ = true;
      status->lastCompletedSeq = static_cast<std::int64_t>(entry.collective_seq_id_);
      status->lastCompletedWorkName = title;
    }
  };
}

}  // namespace switchml_delegate
