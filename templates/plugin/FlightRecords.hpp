/// The delegated calls of a group in torch's flight recorder, in their places among those of Gloo.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <atomic>
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

namespace switchml_torch {

/// Gloo numbers what it records by a count of its own, so its records get new numbers here: those
/// that they had if it had recorded the delegated calls as well. The recorder's fields are used,
/// since its methods are templates that no library of torch exports.
class FlightRecords {
 public:
  using Trace = std::shared_ptr<torch::CapturedTraceback>;
  using Done = std::function<void()>;

  /// Called when the wrapped group counts from 0. A group that does not delegate is left to Gloo.
  void begin(bool delegates) {
    const std::lock_guard<std::mutex> lock(recorder_.mutex_);
    recording_ = recorder_.enabled_ && delegates;
    seen_ = {recorder_.reset_epoch_, recorder_.id_};
    delegated_ = 0;
    gloo_ = 0;
  }

  /// Stack of a call. Takes Python's lock.
  Trace trace() const {
    return recording_ ? torch::CapturedTraceback::gather(true, true, recorder_.capture_cpp_stack_)
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
    entry.pg_name_ = nameOf(group);
    entry.op_id_ = sequence;
    entry.profiling_name_ = title;
    entry.traceback_ = std::move(trace);
    entry.time_created_ = c10::getTime();
    entry.timeout_ms_ = timeout.count();
    describe(inputs, entry.input_dims_, entry.input_dtypes_, entry.sizes_);
    describe(outputs, entry.output_dims_, entry.output_dtypes_, entry.sizes_);
    entry.thread_id_ = std::this_thread::get_id();
    entry.thread_name_ = c10::getThreadName();

    const std::lock_guard<std::mutex> lock(recorder_.mutex_);
    follow(group);
    ++delegated_;
    entry.collective_seq_id_ = gloo_ + delegated_;
    entry.id_ = recorder_.id_;
    entry.reset_epoch_ = recorder_.reset_epoch_;
    recorder_.all_pg_status_[entry.pg_id_] = status_;
    status_->lastEnqueuedSeq = static_cast<std::int64_t>(entry.collective_seq_id_);
    status_->lastEnqueuedWorkName = title;
    const Place place{entry.reset_epoch_, entry.id_};
    push(std::move(entry));
    return [place, title, status = status_, &recorder = recorder_] {
      succeed(recorder, place, title, *status);
    };
  }

  /// Gives what Gloo has recorded since the last time the numbers that follow those of the
  /// delegated calls.
  template <typename Group>
  void number(const Group& gloo) {
    if (recording_) {
      const std::lock_guard<std::mutex> lock(recorder_.mutex_);
      follow(gloo);
    }
  }

 private:
  using Recorder = c10d::FlightRecorder<c10::Event>;
  using Entry = Recorder::Entry;
  using Place = std::pair<std::size_t, std::size_t>;  // of an entry: epoch and number

  template <typename Group>
  static std::tuple<std::string, std::string> nameOf(const Group& group) {
    return {group.getGroupUid(), group.getGroupDesc()};
  }

  template <typename Dims, typename Types, typename Sizes>
  static void describe(const std::vector<at::Tensor>& tensors, Dims& dims, Types& types,
                       Sizes& sizes) {
    for (const auto& tensor : tensors) {
      dims.push_back(tensor.dim());
      types.push_back(tensor.scalar_type());
      sizes.append(tensor.sizes().begin(), tensor.sizes().end());
    }
  }

  /// Goes from the newest entry back to those seen before. Called with the recorder's mutex.
  template <typename Group>
  void follow(const Group& group) {
    const auto name = nameOf(group);
    auto& entries = recorder_.entries_;
    const auto newest = recorder_.next_ + entries.size();
    for (std::size_t back = 1; back <= entries.size(); ++back) {
      auto& entry = entries[(newest - back) % entries.size()];
      if (Place(entry.reset_epoch_, entry.id_) < seen_) {
        break;
      }
      if (entry.pg_name_ == name) {
        gloo_ = std::max(gloo_, entry.collective_seq_id_);
        entry.collective_seq_id_ += delegated_;
        entry.op_id_ += delegated_;
      }
    }
    seen_ = {recorder_.reset_epoch_, recorder_.id_};
  }

  /// Called with the recorder's mutex.
  void push(Entry entry) {
    if (recorder_.entries_.size() < recorder_.max_entries_) {
      recorder_.entries_.push_back(std::move(entry));
    } else {
      recorder_.entries_[recorder_.next_] = std::move(entry);
    }
    recorder_.next_ = (recorder_.next_ + 1) % recorder_.max_entries_;
    ++recorder_.id_;
    seen_ = {recorder_.reset_epoch_, recorder_.id_};
  }

  static void succeed(Recorder& recorder, const Place& place, const char* title,
                      c10d::ProcessGroupStatus& status) {
    const std::lock_guard<std::mutex> lock(recorder.mutex_);
    const auto first = recorder.reset_epoch_start_idx_.at(place.first);
    auto& entry = recorder.entries_[(first + place.second) % recorder.max_entries_];
    if (Place(entry.reset_epoch_, entry.id_) == place) {  // else a newer one has taken its place
      entry.time_discovered_started_ = entry.time_discovered_completed_ = c10::getTime();
      entry.retired_ = true;
      status.lastCompletedSeq = static_cast<std::int64_t>(entry.collective_seq_id_);
      status.lastCompletedWorkName = title;
    }
  }

  Recorder& recorder_ = *c10d::getFlightRecorder(c10d::kDefaultFRBackend);
  const std::shared_ptr<c10d::ProcessGroupStatus> status_ =
      std::make_shared<c10d::ProcessGroupStatus>();
  std::atomic<bool> recording_{false};
  // With the recorder's mutex:
  Place seen_;                 // of the first entry that has not been seen
  std::size_t delegated_ = 0;  // calls
  std::size_t gloo_ = 0;       // the number of Gloo's last call, as it counts
};

}  // namespace switchml_torch
