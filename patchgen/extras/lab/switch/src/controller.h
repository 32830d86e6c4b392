// Controller that client libraries talk to before they send packets.
#ifndef SOFTSWITCH_CONTROLLER_H_
#define SOFTSWITCH_CONTROLLER_H_

#include <chrono>
#include <memory>
#include <string>

#include "plane.h"

namespace softswitch {

class Controller {
 public:
  // Listens on `address`, as HOST:PORT. Callers wait for each other for `patience` at most.
  // Throws std::runtime_error.
  Controller(Plane& plane, const std::string& address, std::chrono::milliseconds patience);
  ~Controller();

  // HOST:PORT, with the port that the system chose if it was to choose.
  const std::string& address() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_CONTROLLER_H_
