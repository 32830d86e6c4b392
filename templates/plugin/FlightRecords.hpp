/// The delegated calls of a group in torch's flight recorder.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace switchml_delegate {

/// Gloo numbers what it records by a count of its own. So the delegated calls are a sequence of
/// their own, from 1 on, of a group with a name of its own: under the name of Gloo's group, torch's
/// analysis takes neighbours with the same number for one coalesced call. The recorder's fields are
/// used, since its methods are templates that no library of torch exports.
class FlightRecords {
 public:
  using Trace = std::shared_ptr<torch::CapturedTraceback>;
  using Done = std::function<void()>;

  /// Stack of a call; null where nothing is recorded. Takes Python's lock.
  Trace trace() const {
    return recorder_.enabled_
               ? torch::CapturedTraceback::gather(true, true, recorder_.capture_cpp_stack_)
               : nullptr;
  }

  /// Records a delegated call. What it returns is called when that has succeeded; the record of a
  /// call that failed stays as it is, as torch has it.
  template <typename Group>
  Done add(const Group& group, Trace trace, const char* title,
           const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
           std::chrono::milliseconds timeout, std::uint64_t sequence) {
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
    describe(inputs, entry.input_dims_, entry.input_dtypes_, entry.sizes_);
    describe(outputs, entry.output_dims_, entry.output_dtypes_, entry.sizes_);
    entry.thread_id_ = std::this_thread::get_id();
    entry.thread_name_ = c10::getThreadName();

    const std::lock_guard<std::mutex> lock(recorder_.mutex_);
    recorder_.all_pg_status_[entry.pg_id_] = status_;
    status_->lastEnqueuedSeq = static_cast<std::int64_t>(sequence);
    status_->lastEnqueuedWorkName = title;
    const Place place{recorder_.reset_epoch_, recorder_.id_++};
    std::tie(entry.reset_epoch_, entry.id_) = place;
    auto& entries = recorder_.entries_;
    if (entries.size() < recorder_.max_entries_) {
      entries.push_back(std::move(entry));
    } else {
      entries[recorder_.next_] = std::move(entry);
    }
    recorder_.next_ = (recorder_.next_ + 1) % recorder_.max_entries_;
    return [place, title, status = status_, &recorder = recorder_] {
      const std::lock_guard<std::mutex> lock(recorder.mutex_);
      const auto first = recorder.reset_epoch_start_idx_.at(place.first);
      auto& entry = recorder.entries_[(first + place.second) % recorder.max_entries_];
      if (Place(entry.reset_epoch_, entry.id_) == place) {  // else a newer one has taken its place
        entry.time_discovered_started_ = entry.time_discovered_completed_ = c10::getTime();
        entry.retired_ = true;
        status->lastCompletedSeq = static_cast<std::int64_t>(entry.collective_seq_id_);
        status->lastCompletedWorkName = title;
      }
    };
  }

 private:
  using Recorder = c10d::FlightRecorder<c10::Event>;
  using Entry = Recorder::Entry;
  using Place = std::pair<std::size_t, std::size_t>;  // of an entry: epoch and number

  template <typename Dims, typename Types, typename Sizes>
  static void describe(const std::vector<at::Tensor>& tensors, Dims& dims, Types& types,
                       Sizes& sizes) {
    for (const auto& tensor : tensors) {
      dims.push_back(tensor.dim());
      types.push_back(tensor.scalar_type());
      sizes.append(tensor.sizes().begin(), tensor.sizes().end());
    }
  }

  Recorder& recorder_ = *c10d::getFlightRecorder(c10d::kDefaultFRBackend);
  const std::shared_ptr<c10d::ProcessGroupStatus> status_ =
      std::make_shared<c10d::ProcessGroupStatus>();
};

}  // namespace switchml_delegate
