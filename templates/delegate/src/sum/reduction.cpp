#include "sum/reduction.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/quantize.hpp"
#include "sum/overflow.hpp"
#include "sum/rows.hpp"

namespace switchml_delegate {
namespace {

/// One allreduce. The thread of the call uses it.
class Reduction {
 public:
  Reduction(const Delegation& group, const Request& request, const PartCallbacks& callbacks,
            PendingJobs& jobs)
      : group_(group),
        request_(request),
        element_(request.element == Element::kInt32 ? Element::kInt32 : Element::kFloat32),
        callbacks_(callbacks),
        jobs_(jobs) {}

  /// Sums the first values in fewer bits, if the group has agreed on that, and the others as they
  /// are. Returns the bytes that were sent.
  std::uint64_t run() {
    const auto quantized = group_.quantizedNumel(request_);
    const auto bytes = quantized == 0 ? 0 : sumQuantized(quantized);
    sumWhole(quantized);
    return bytes + 4 * (request_.numel - quantized);
  }

 private:
  /// With two jobs, the client library has the next one when one ends. More would only delay the
  /// jobs of other calls.
  static constexpr std::size_t kMaxJobsInLibrary = 2;

  /// Elements [first, last) of the row, in memory of the caller.
  struct Part {
    std::uint64_t first;
    std::uint64_t last;
    Memory memory;
    bool overflowed;  // OverflowMarks has marked values

    float* values() const { return static_cast<float*>(memory.data); }  // or int32: the same size
    std::uint64_t numel() const { return last - first; }
  };

  /// Sums the first `numel` values in fewer bits; returns the bytes that were sent.
  ///
  ///   1. Switches cannot compute a maximum, so each rank publishes its scales and zeros for the
  ///      others. Their sum, the first job, is the table of all scales.
  ///   2. Each later job sums the levels of some buckets. A rank packs them while the switch sums
  ///      the previous job.
  std::uint64_t sumQuantized(std::uint64_t numel) {
    const auto& quantization = group_.settings.quantization;
    const quantize::Format format{static_cast<unsigned>(quantization.bits), group_.workers,
                                  static_cast<std::size_t>(quantization.bucket), false};
    const auto buckets = format.buckets(numel);
    const auto inBuckets = [&](quantize::Range range, const auto& function) {
      inParts(range.last - range.first, format.bucket,
              [&](std::uint64_t first, std::uint64_t last) noexcept {
                function(quantize::Range{range.first + first, range.first + last});
              });
    };
    const auto scales = std::make_shared<std::vector<std::int32_t>>(buckets * group_.workers);
    const auto words = std::make_shared<std::vector<std::uint32_t>>(format.words(numel));
    auto* const own = scales->data() + buckets * group_.rank;
    const auto part = load(0, numel, /*marksOverflow=*/false);
    auto* const values = part.values();
    inBuckets({0, buckets},
              [&](auto range) { quantize::largest(format, values, numel, own, range); });
    jobs_.submit({"scales", scales->data(), scales->size(), Element::kInt32, scales});
    jobs_.finish();
    for (std::size_t i = 0; i < buckets; ++i) {
      for (std::size_t other = i; other < scales->size(); other += buckets) {
        own[i] = std::max(own[i], (*scales)[other]);
      }
    }
    const auto wordsBefore = [&](std::size_t bucket) {
      return format.words(std::min<std::size_t>(bucket * format.bucket, numel));
    };
    for (std::size_t first = 0, last = 0; first < buckets; first = last) {
      last = std::min<std::size_t>(first + group_.bucketsOfJob(), buckets);
      const quantize::Range job{first, last};
      inBuckets(job, [&](auto range) {
        quantize::encode<const float>(format, values, numel, own, 0, words->data(), range);
      });
      const auto then = [&, job] {
        inBuckets(job, [&](auto range) {
          quantize::decode(format, words->data(), own, 1, values, numel, range);
        });
      };
      jobs_.submit({"allreduce", words->data() + wordsBefore(first),
                    wordsBefore(last) - wordsBefore(first), Element::kInt32, words, then});
      limitAhead();
    }
    finishAll();
    store(part);
    return 4 * (scales->size() + words->size());
  }

  /// Sums the values from `first` on as they are.
  void sumWhole(std::uint64_t first) {
    const bool marksOverflow = element_ == Element::kFloat32 && group_.marksOverflow;
    for (std::uint64_t last = first; first < request_.numel; first = last) {
      last += std::min(group_.settings.chunkNumel, request_.numel - first);
      const auto part = load(first, last, marksOverflow);
      const auto then = [this, part] {
        if (part.overflowed && group_.workers == 1) {
          std::fill_n(part.values(), part.numel(), std::numeric_limits<float>::quiet_NaN());
        }
        store(part);
      };
      jobs_.submit({"allreduce", part.memory.data, part.numel(), element_, part.memory.owner, then,
                    marksOverflow});
      limitAhead();
    }
    finishAll();
  }

  /// Waits until another job may be submitted.
  void limitAhead() {
    if (jobs_.size() == kMaxJobsInLibrary) {
      jobs_.finish();
    }
  }

  void finishAll() {
    while (jobs_.size() > 0) {
      jobs_.finish();
    }
  }

  /// Returns a part with its values. If `marksOverflow`, those that fixed point cannot represent
  /// are marked.
  Part load(std::uint64_t first, std::uint64_t last, bool marksOverflow) {
    const auto from = static_cast<std::int64_t>(first);
    const auto to = static_cast<std::int64_t>(last);
    if (callbacks_.before) {
      callbacks_.before(from, to);
    }
    Part part{first, last, callbacks_.memory(from, to), false};
    if (marksOverflow) {
      part.overflowed = OverflowMarks{part.values()}.set(part.numel(), first, callbacks_.fill);
    } else if (callbacks_.fill) {
      callbacks_.fill(from, to);
    }
    return part;
  }

  /// Gives the caller the results of a part.
  void store(const Part& part) const {
    if (request_.op == Op::kAvg) {
      const auto workers = static_cast<float>(group_.workers);
      inParts(part.numel(), 1, [&](std::uint64_t begin, std::uint64_t end) noexcept {
        std::for_each(part.values() + begin, part.values() + end,
                      [workers](float& value) { value /= workers; });
      });
    }
    callbacks_.after(static_cast<std::int64_t>(part.first), static_cast<std::int64_t>(part.last));
  }

  const Delegation& group_;
  const Request& request_;
  const Element element_;
  const PartCallbacks& callbacks_;
  PendingJobs& jobs_;
};

}  // namespace

Reduced sumOverRanks(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                     const Request& request, CallLimits limits, const PartCallbacks& callbacks) {
  PendingJobs jobs(runtime, group, sequence, group.jobsOf(request), limits);
  const auto bytes = Reduction(group, request, callbacks, jobs).run();
  return {bytes, jobs.redone()};
}

}  // namespace switchml_delegate
