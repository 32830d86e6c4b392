// The aggregator as a thread in rank 0's process.
#ifndef SWITCHML_SRC_HOST_H_
#define SWITCHML_SRC_HOST_H_

#include <thread>

#include "aggregator.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

class Host {
 public:
  // Throws LinkError.
  Host(const Endpoint& endpoint, const Hello& reference);
  ~Host();

  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

 private:
  void Run();

  Aggregator aggregator_;
  Fd end_;
  std::thread thread_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_HOST_H_
