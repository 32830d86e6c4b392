#include "sum/reduction.hpp"

#include <map>

#include "base/quantize.hpp"
#include "base/say.hpp"
#include "sum/overflow.hpp"

namespace switchml_delegate {
namespace {

using Clock = Library::Clock;

// The switch's answers to the last packets of a rank that has ended are there by then.
constexpr std::chrono::milliseconds kLastAnswers = std::chrono::seconds(10);

using Name = std::function<std::string()>;  // costs time, so it is called for a message only

void debug([[maybe_unused]] const char* what, [[maybe_unused]] const Name& name) {
#ifdef SWITCHML_DELEGATE_DEBUG
  say(text("debug: ", what, name()));
#endif
}

/// Waits for a job of the library. Returns why it has no sum. `heartbeat` may be null.
std::string await(Library& library, const Library::JobPtr& job, const Name& name,
                  Clock::time_point deadline, std::chrono::milliseconds limit,
                  Heartbeat* heartbeat) {
  const auto answered = Clock::now() + kLastAnswers;
  int gone = Heartbeat::kNobody;
  const auto look = [&] {
    const auto before = gone;
    gone = heartbeat == nullptr ? Heartbeat::kNobody : heartbeat->gone();
    return gone != Heartbeat::kNobody && gone == before && Clock::now() >= answered;
  };
  const auto end = library.wait(job, deadline, look);
  if (end != Library::End::kNone) {
    return end == Library::End::kFinished ? "" : "SwitchML failed " + name();
  }
  look();
  const auto who = gone == Heartbeat::kNobody ? "" : ": " + goneText(gone);
  return Clock::now() >= deadline || who.empty()
             ? text(name(), " did not finish within ", limit.count(), " ms", who)
             : text(name(), " cannot finish", who);
}

/// The jobs of one call. Where the group recovers, the library writes to memory of the failover.
class PendingJobs {
 public:
  PendingJobs(Runtime& runtime, const Delegation& group, std::uint64_t sequence, std::uint64_t jobs,
              Limits limits)
      : runtime_(runtime),
        group_(group),
        failover_(group.failover.get()),
        call_(sequence),
        next_(sequence),
        end_(sequence + jobs),
        limits_(limits) {}

  ~PendingJobs() {
    if (next_ != end_) {
      runtime_.abandon(next_);
    }
    if (pending_.empty()) {
      return;
    }
    const auto& newest = pending_.rbegin()->second.job;
    auto& library = runtime_.library;
    const auto epoch = newest ? Library::epochOf(newest) : library.epoch();
    runtime_.fail(textOrNone([this] {
                    return text(what(*pending_.begin()), " was dropped before it was finished");
                  }),
                  epoch);
    static_cast<void>(library.stoppedWithin(kStopAfterFailure, epoch));
    library.release();
  }
  PendingJobs(const PendingJobs&) = delete;
  PendingJobs& operator=(const PendingJobs&) = delete;

  std::size_t size() const { return pending_.size(); }

  /// True where a job was summed over Gloo.
  bool redone() const { return redone_; }

  /// Returns when the turn of the job has come and the library has the job.
  void submit(Sum sum) {
    JobsBySequence made;
    auto& job = *made.emplace(next_, PendingJob{std::move(sum)}).first;
    const auto& given = job.second.sum;
    runtime_.order.await(next_, runtime_.state);
    const std::shared_ptr<void> in(given.owner, given.data);
    auto out = in;
    if (failover_ != nullptr) {
      out = failover_->admit(numberOf(job), next_ == call_, given.numel * kWord);
    }
    runtime_.throwIfBroken();
    pending_.merge(made);  // before the library has it, whatever is thrown then
    std::string why;
    if (out != nullptr) {
      why = runtime_.library.submit(in, out, given.numel, given.element, job.second.job);
      why = why.empty() ? why : text(what(job), " could not be submitted: ", why);
      if (!why.empty() && failover_ == nullptr) {
        runtime_.raise(why, runtime_.library.epoch());
      }
    }
    ++next_;
    if (!why.empty()) {
      failover_->suspend(why);  // before the next job takes the place of this one
    }
    runtime_.order.pass();
    debug("submitted ", [&] { return what(job); });
  }

  /// Returns when the oldest job is finished.
  void finish() {
    auto& job = *pending_.begin();
    if (!take(job)) {
      redo(job);
    }
    debug("finished ", [&] { return what(job); });
    const auto then = std::move(job.second.sum.then);
    pending_.erase(pending_.begin());
    if (then) {
      then();
    }
  }

 private:
  struct PendingJob {
    Sum sum;
    Library::JobPtr job{};  // null where the library cannot have it
  };
  // By their sequence numbers. A list has another layout in each ABI of the C++ library, and the
  // linker would mix its functions with those of torch's.
  using JobsBySequence = std::map<std::uint64_t, PendingJob>;

  static constexpr auto kWord = sizeof(std::int32_t);

  static std::string what(const JobsBySequence::value_type& job) {
    return text(job.second.sum.name(), " (number ", job.first, ")");
  }

  /// Number of a job in its group.
  std::uint64_t numberOf(const JobsBySequence::value_type& job) const {
    return job.first - group_.firstSequence;
  }

  /// True where the caller has the sum of the library. False where the group recovers.
  bool take(const JobsBySequence::value_type& submitted) {
    const auto& job = submitted.second.job;
    if (job == nullptr) {
      return false;
    }
    const auto begun = Clock::now();
    deadline_ = std::min(deadline_, Library::turn(job) + limits_.each);
    const auto name = [&] { return what(submitted); };
    const auto why =
        await(runtime_.library, job, name, deadline_, limits_.each, group_.heartbeat.get());
    runtime_.waited.fetch_add(
        static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begun).count()),
        std::memory_order_relaxed);
    if (failover_ != nullptr) {
      if (!why.empty()) {
        failover_->suspend(why);
        return false;
      }
      return failover_->take(numberOf(submitted), submitted.second.sum.data);
    }
    if (!why.empty()) {
      runtime_.raise(why, Library::epochOf(job));
    }
    return true;
  }

  void redo(const JobsBySequence::value_type& job) {
    const auto& sum = job.second.sum;
    auto& library = runtime_.library;
    const auto& given = job.second.job;
    if (given) {  // the library may read the values until it has stopped
      static_cast<void>(library.stoppedWithin(kStopAfterFailure, Library::epochOf(given)));
    }
    library.release();
    try {
      failover_->redo(numberOf(job), sum.element, sum.data, sum.numel, limits_.patience, [&sum] {
        if (sum.overflowed) {
          OverflowMarks{static_cast<float*>(sum.data)}.toNaN(sum.numel);
        }
      });
    } catch (const std::exception& error) {
      runtime_.raise(error.what(), runtime_.library.epoch());
    }
    redone_ = true;
  }

  Runtime& runtime_;
  const Delegation& group_;
  Failover* const failover_;
  const std::uint64_t call_;
  std::uint64_t next_;
  const std::uint64_t end_;
  const Limits limits_;
  bool redone_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();
  JobsBySequence pending_;
};

/// An allreduce in the parts, and the number of bits, that its group has agreed on.
class Reduction {
 public:
  Reduction(const Delegation& group, const Request& request, const Steps& steps, PendingJobs& jobs)
      : group_(group),
        request_(request),
        element_(request.element == Element::kInt32 ? Element::kInt32 : Element::kFloat32),
        steps_(steps),
        jobs_(jobs) {}

  /// Returns the bytes that were sent.
  std::uint64_t run() {
    const auto quantized = group_.quantizedNumel(request_);
    const auto bytes = quantized == 0 ? 0 : sumQuantized(quantized);
    sumWhole(quantized);
    return bytes + 4 * (request_.numel - quantized);
  }

 private:
  /// Jobs in the library at once: enough for the next to be there when one ends. More would only
  /// delay the jobs of other calls.
  static constexpr std::size_t kAhead = 2;

  /// A part of the row, from one element to before another.
  struct Part {
    std::uint64_t first;
    std::uint64_t last;
    Memory memory;
    bool lost;  // some of the values were too large

    float* values() const { return static_cast<float*>(memory.data); }  // or int32, as large
    std::uint64_t numel() const { return last - first; }
  };

  /// Sums the first `numel` values in fewer bits; returns the bytes that were sent.
  ///
  /// 1. Switches cannot compute a maximum, so each rank publishes its scales and zeros for the
  ///    others. Their sum, the first job, is the table of all scales.
  /// 2. The values are jobs of some buckets each. A rank packs one while the job before is summed.
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
    const auto part = before(0, numel, /*marksOverflow=*/false);
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
      keepAhead();
    }
    finishAll();
    after(part);
    return 4 * (scales->size() + words->size());
  }

  /// Sums the values from `first` on as they are.
  void sumWhole(std::uint64_t first) {
    const bool marksOverflow = element_ == Element::kFloat32 && group_.marksOverflow;
    for (std::uint64_t last = first; first < request_.numel; first = last) {
      last += std::min(group_.settings.chunkNumel, request_.numel - first);
      const auto part = before(first, last, marksOverflow);
      const auto then = [this, part] {
        if (part.lost && group_.workers == 1) {
          std::fill_n(part.values(), part.numel(), std::numeric_limits<float>::quiet_NaN());
        }
        after(part);
      };
      jobs_.submit({"allreduce", part.memory.data, part.numel(), element_, part.memory.owner, then,
                    marksOverflow});
      keepAhead();
    }
    finishAll();
  }

  /// Waits until another job may be submitted.
  void keepAhead() {
    if (jobs_.size() == kAhead) {
      jobs_.finish();
    }
  }

  void finishAll() {
    while (jobs_.size() > 0) {
      jobs_.finish();
    }
  }

  /// The part with its values. Where `marksOverflow`, none of them is too large.
  Part before(std::uint64_t first, std::uint64_t last, bool marksOverflow) {
    const auto from = static_cast<std::int64_t>(first);
    const auto to = static_cast<std::int64_t>(last);
    if (steps_.before) {
      steps_.before(from, to);
    }
    Part part{first, last, steps_.place(from, to), false};
    if (marksOverflow) {
      part.lost = OverflowMarks{part.values()}.set(part.numel(), first, steps_.fill);
    } else if (steps_.fill) {
      steps_.fill(from, to);
    }
    return part;
  }

  void after(const Part& part) const {
    if (request_.op == Op::kAvg) {
      const auto workers = static_cast<float>(group_.workers);
      inParts(part.numel(), 1, [&](std::uint64_t begin, std::uint64_t end) noexcept {
        std::for_each(part.values() + begin, part.values() + end,
                      [workers](float& value) { value /= workers; });
      });
    }
    steps_.after(static_cast<std::int64_t>(part.first), static_cast<std::int64_t>(part.last));
  }

  const Delegation& group_;
  const Request& request_;
  const Element element_;
  const Steps& steps_;
  PendingJobs& jobs_;
};

}  // namespace

void sumAlone(Library& library, const Sum& sum, std::chrono::milliseconds limit) {
  Library::JobPtr job;
  const std::shared_ptr<void> values(sum.owner, sum.data);
  auto why = library.submit(values, values, sum.numel, sum.element, job);
  const auto name = [&] { return sum.name(); };
  why = why.empty() ? await(library, job, name, Library::turn(job) + limit, limit, nullptr)
                    : text(name(), " could not be submitted: ", why);
  if (!why.empty()) {
    throw std::runtime_error(why);
  }
}

std::uint64_t sumOverRanks(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                           const Request& request, Limits limits, const Steps& steps) {
  PendingJobs jobs(runtime, group, sequence, group.jobsOf(request), limits);
  const auto bytes = Reduction(group, request, steps, jobs).run();
  return jobs.redone() ? 0 : bytes;
}

}  // namespace switchml_delegate
