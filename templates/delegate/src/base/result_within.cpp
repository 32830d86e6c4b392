#include "base/result_within.hpp"

#include <exception>
#include <future>
#include <utility>

#include "base/thread.hpp"

namespace switchml_delegate {

std::unique_ptr<std::string> resultWithin(std::chrono::milliseconds limit,
                                          std::function<std::string()> function) {
  try {
    std::packaged_task<std::string()> task(std::move(function));
    auto answer = task.get_future();
    startThread("swml-timed", std::move(task)).detach();
    return answer.wait_for(limit) == std::future_status::ready
               ? std::make_unique<std::string>(answer.get())
               : nullptr;
  } catch (const std::exception& error) {
    return std::make_unique<std::string>(error.what());
  }
}

}  // namespace switchml_delegate
