/// A device with streams, events and caching allocators, without any hardware. What is queued on a
/// stream runs when an `Order` says so, and the host waits for nothing that it does not ask for.
///
/// A GPU is not enough for the tests of the plugin's staging: a copy that comes too early or too
/// late is wrong there only now and then. Here every order is tried in which a device may do its
/// work, and memory that was given back too early is found. torch's own backends for tests, such as
/// PrivateUse1's, have neither streams whose order can be chosen nor a caching allocator.
///
/// It follows CUDA where that matters to who uses it: memory is reused in the order of the stream
/// that it was allocated on, unless other streams are recorded for it; a copy between the device
/// and pinned memory may come at any time, one with other memory is over for the host when the call
/// returns. Memory that is free holds NaN. What is queued on a stream that is being captured does
/// not run, and the capture is lost when somebody waits for it. A device has a context from the
/// first call on that needs one.
#pragma once

#include <c10/core/Stream.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "order.hpp"

class SimulatedDevice {
 public:
  using Work = std::function<void()>;

  using Key = std::pair<int, c10::StreamId>;

  /// The moment at which a stream comes to it.
  struct Mark {
    Key stream;
    bool captured = false;  // nothing ever comes to it
    bool reached = false;
    bool asked = false;
  };
  using Marks = std::vector<std::shared_ptr<Mark>>;

  struct Block {
    std::unique_ptr<char[]> memory;
    std::size_t size = 0;
    bool pinned = false;
    bool live = false;
    c10::Stream stream;             // that it was allocated on; of no meaning for pinned memory
    std::vector<c10::Stream> also;  // streams that use it as well
    Marks pending;                  // what a block that nobody holds is kept for
  };

  static SimulatedDevice& instance() {
    static auto* const device = new SimulatedDevice;
    return *device;
  }

  /// Begins anew. The thread that calls this is the main one.
  void reset(Order& order) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queues_.clear();
    blocks_.clear();
    held_.clear();
    awaited_.clear();
    capturing_.clear();
    contexts_.clear();
    history_.clear();
    waits_ = asked_ = 0;
    order_ = &order;
    main_ = std::this_thread::get_id();
    open_ = false;
    pinnable_ = true;
  }

  /// From here on no memory can be pinned.
  void refusePinned() {
    const Held held(*this);
    pinnable_ = false;
  }

  /// Lets threads other than the main one come to the device, or keeps them away. While they may,
  /// the main one stays away, so that the order decides everything.
  void open(bool open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    opened_.notify_all();
  }

  /// Threads other than the main one wait here until they may come to the device.
  void enter() { const Held held(*this); }

  /// Something else happens now, before or after whatever the device may do.
  void elapse() {
    const Held held(*this);
    elapseHeld();
  }

  /// The stream does nothing until it is let go.
  void hold(const c10::Stream& stream) {
    const Held held(*this);
    held_.insert(keyOf(stream));
  }

  void letGo(const c10::Stream& stream) {
    const Held held(*this);
    held_.erase(keyOf(stream));
    awaited_.erase(keyOf(stream));
    settle();
  }

  /// True where a stream, or the host, waits for this one, which is held.
  bool awaited(const c10::Stream& stream) {
    const Held held(*this);
    return awaited_.count(keyOf(stream)) > 0;
  }

  void beginCapture(const c10::Stream& stream) {
    const Held held(*this);
    capturing_ = {keyOf(stream)};
    captured_ = true;
  }

  /// Ends the capture; true where it is a graph now, of this stream alone.
  bool endCapture() {
    const Held held(*this);
    const bool valid = captured_ && capturing_.size() == 1;
    capturing_.clear();
    return valid;
  }

  bool capturing(const c10::Stream& stream) {
    const Held held(*this);
    return capturing_.count(keyOf(stream)) > 0;
  }

  /// Something is done that needs a context on the device.
  void needContext(int device) {
    const Held held(*this);
    if (contexts_.insert(device).second) {
      history_ += "  context on device " + std::to_string(device) + "\n";
    }
  }

  std::set<int> contexts() {
    const Held held(*this);
    return contexts_;
  }

  void enqueue(const c10::Stream& stream, std::string name, Work work) {
    const Held held(*this);
    push(stream, {std::move(name), std::move(work), nullptr, nullptr});
  }

  std::shared_ptr<Mark> record(const c10::Stream& stream) {
    const Held held(*this);
    return recordHeld(stream);
  }

  void block(const std::shared_ptr<Mark>& mark, const c10::Stream& stream) {
    const Held held(*this);
    if (mark->captured) {
      capturing_.insert(keyOf(stream));
    } else if (capturing_.count(keyOf(stream)) > 0) {
      loseCapture();
    }
    await(*mark);
    push(stream, {"", nullptr, nullptr, mark});
  }

  /// Who asks again has waited: something has happened since, unless all that can is held.
  bool reached(const std::shared_ptr<Mark>& mark) {
    const Held held(*this);
    countWait();
    ++asked_;
    if (mark->captured) {
      loseCapture();
    }
    const auto keys = runnable();
    if (mark->reached || !std::exchange(mark->asked, true)) {
      return mark->reached;
    }
    if (!keys.empty()) {
      run(keys[choose(keys.size())]);
    } else if (!await(*mark)) {
      waitInVain();
    }
    return mark->reached;
  }

  void wait(const c10::Stream& stream) {
    const Held held(*this);
    countWait();
    if (capturing_.count(keyOf(stream)) > 0) {
      loseCapture();
    }
    const auto mark = recordHeld(stream);
    runUntil([&] { return mark->reached; });
  }

  void waitForAll() {
    const Held held(*this);
    runUntil([this] { return idle(); });
  }

  /// How often somebody has asked for a moment.
  int asked() {
    const Held held(*this);
    return asked_;
  }

  /// How often the main thread has waited for the device.
  int waits() {
    const Held held(*this);
    return waits_;
  }

  /// True where all that was queued has run.
  bool finished() {
    const Held held(*this);
    return idle();
  }

  /// Throws std::bad_alloc where no memory can be pinned.
  Block* allocate(std::size_t size, bool pinned, const c10::Stream& stream) {
    const Held held(*this);
    elapseHeld();
    if (pinned && !pinnable_) {
      throw std::bad_alloc();
    }
    for (auto& block : blocks_) {
      recycle(*block);
    }
    const auto fits = [&](const std::unique_ptr<Block>& block) {
      return !block->live && block->pending.empty() && block->size == size &&
             block->pinned == pinned && (pinned || block->stream == stream);
    };
    auto found = std::find_if(blocks_.begin(), blocks_.end(), fits);
    if (found == blocks_.end()) {
      found = blocks_.insert(
          found, std::unique_ptr<Block>(new Block{
                     std::make_unique<char[]>(size), size, pinned, false, stream, {}, {}}));
      poison(**found);
    }
    (*found)->live = true;
    return found->get();
  }

  void free(Block* block) {
    const Held held(*this);
    block->live = false;
    for (const auto& stream : std::exchange(block->also, {})) {
      block->pending.push_back(recordHeld(stream));
    }
    if (block->pending.empty()) {
      release(*block);
    } else {
      recycle(*block);
    }
  }

  /// The block is not used again before what is queued now on the stream has run.
  void use(Block* block, const c10::Stream& stream, bool byCopy) {
    const Held held(*this);
    if (byCopy) {
      block->pending.push_back(recordHeld(stream));
    } else if (stream != block->stream &&
               std::find(block->also.begin(), block->also.end(), stream) == block->also.end()) {
      block->also.push_back(stream);
    }
  }

  /// Devices whose streams have used pinned memory.
  std::set<int> usersOf(const Block& block) {
    const Held held(*this);
    std::set<int> devices;
    for (const auto& mark : block.pinned ? block.pending : Marks{}) {
      devices.insert(mark->stream.first);
    }
    return devices;
  }

  /// The live pinned block that the address is in, or null.
  Block* pinnedBlock(const void* address) {
    const Held held(*this);
    const auto* const place = static_cast<const char*>(address);
    for (const auto& block : blocks_) {
      const char* const begin = block->memory.get();
      if (block->pinned && block->live && begin <= place && place < begin + block->size) {
        return block.get();
      }
    }
    return nullptr;
  }

  bool anyLive() {
    const Held held(*this);
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [](const std::unique_ptr<Block>& block) { return block->live; });
  }

  /// Calls of the device, a line for each.
  std::string history() {
    const Held held(*this);
    return history_;
  }

  /// A line of the host's own.
  void note(const std::string& what) {
    const Held held(*this);
    history_ += "  host: " + what + "\n";
  }

 private:
  struct Entry {
    std::string name;
    Work work;
    std::shared_ptr<Mark> reaches;
    std::shared_ptr<Mark> awaits;
  };
  class Held {
   public:
    explicit Held(SimulatedDevice& device) : lock_(device.mutex_) {
      device.opened_.wait(
          lock_, [&device] { return device.open_ || device.main_ == std::this_thread::get_id(); });
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  static Key keyOf(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }

  void push(const c10::Stream& stream, Entry entry) {
    if (capturing_.count(keyOf(stream)) == 0) {
      queues_[keyOf(stream)].push_back(std::move(entry));
      settle();
    }
  }

  std::shared_ptr<Mark> recordHeld(const c10::Stream& stream) {
    auto mark = std::make_shared<Mark>();
    mark->stream = keyOf(stream);
    mark->captured = capturing_.count(keyOf(stream)) > 0;
    push(stream, {"", nullptr, mark, nullptr});
    return mark;
  }

  /// True where the mark is one that a held stream has to reach.
  bool await(const Mark& mark) {
    const bool held = held_.count(mark.stream) > 0;
    if (held) {
      awaited_.insert(mark.stream);
    }
    return held;
  }

  [[noreturn]] void waitInVain() {
    if (held_.empty()) {
      die("the device waits for itself");
    }
    history_ += "  host: waits for what another one waits for\n";
    throw std::runtime_error("the device waits for a stream that is held");
  }

  [[noreturn]] void loseCapture() {
    captured_ = false;
    history_ += "  host: breaks the capture\n";
    throw std::runtime_error("not permitted while a stream is captured");
  }

  void countWait() { waits_ += main_ == std::this_thread::get_id() ? 1 : 0; }

  /// Streams pass marks by themselves: what can be seen is only when the works run.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& named : queues_) {
        auto& queue = named.second;
        while (held_.count(named.first) == 0 && !queue.empty() && !queue.front().work &&
               (queue.front().reaches || queue.front().awaits->reached)) {
          if (queue.front().reaches) {
            queue.front().reaches->reached = true;
          }
          queue.pop_front();
          moved = true;
        }
      }
    }
  }

  std::vector<Key> runnable() const {
    std::vector<Key> keys;
    for (const auto& named : queues_) {
      if (held_.count(named.first) == 0 && !named.second.empty() && named.second.front().work) {
        keys.push_back(named.first);
      }
    }
    return keys;
  }

  bool idle() const {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const auto& named) { return named.second.empty(); });
  }

  void run(const Key& key) {
    auto& queue = queues_[key];
    history_ += "  stream " + std::to_string(key.second) + " of device " +
                std::to_string(key.first) + ": " + queue.front().name + "\n";
    queue.front().work();
    queue.pop_front();
    settle();
  }

  std::size_t choose(std::size_t count) { return count == 1 ? 0 : order_->choose(count); }

  void elapseHeld() {
    for (auto keys = runnable(); !keys.empty(); keys = runnable()) {
      const auto choice = choose(keys.size() + 1);
      if (choice == 0) {
        return;
      }
      run(keys[choice - 1]);
    }
  }

  template <typename Condition>
  void runUntil(Condition condition) {
    while (!condition()) {
      const auto keys = runnable();
      if (keys.empty()) {
        waitInVain();
      }
      run(keys[choose(keys.size())]);
    }
  }

  static void poison(Block& block) { std::memset(block.memory.get(), 0xFF, block.size); }

  /// The memory is the next one's, in the order of its stream; pinned memory at once.
  void release(Block& block) {
    if (block.pinned) {
      poison(block);
    } else {
      push(block.stream, {"reuse of memory", [&block] { poison(block); }, nullptr, nullptr});
    }
  }

  /// A block that nobody holds is released when all that used it has run.
  void recycle(Block& block) {
    if (block.live || block.pending.empty()) {
      return;
    }
    if (std::all_of(block.pending.begin(), block.pending.end(),
                    [](const std::shared_ptr<Mark>& mark) { return mark->reached; })) {
      block.pending.clear();
      release(block);
    }
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  bool pinnable_ = true;
  std::thread::id main_;
  Order* order_ = nullptr;
  std::map<Key, std::deque<Entry>> queues_;
  std::list<std::unique_ptr<Block>> blocks_;
  std::set<Key> held_;
  std::set<Key> awaited_;  // of those that are held
  std::set<Key> capturing_;
  bool captured_ = false;  // without anything that breaks it
  std::set<int> contexts_;
  std::string history_;
  int waits_ = 0;
  int asked_ = 0;
};
