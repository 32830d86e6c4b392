// A port on a Unix socket, to which one memif client after another connects.
#ifndef SOFTSWITCH_MEMIF_PORT_H_
#define SOFTSWITCH_MEMIF_PORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"
#include "memif.h"
#include "memif_link.h"
#include "poller.h"
#include "port.h"

namespace softswitch {

// Serves one client at a time:
//
//   listening ──Accept()──▶ negotiating ──connect message──▶ connected ──Drop()──▶ listening
//
// Actions of the poller call the private members. Port says which thread calls the others.
class MemifPort : public Port {
 public:
  // Throws std::runtime_error if the socket cannot be made, or another process listens on it.
  MemifPort(Poller& poller, const std::string& path);
  ~MemifPort() override;

  const std::string& name() const override { return name_; }
  std::uint64_t departures() const override { return departures_; }
  bool Receive(const Taker& take) override;
  void Send(std::uint16_t queue, Bytes head, Bytes values) override;
  void Flush() override;
  void Wake(bool wanted) override;
  bool Pending() const override { return connected_ && link_->Pending(); }
  void Tend() override {}

 private:
  void Accept();
  void Read();
  void Handle(const memif::Message& message, Descriptor descriptor);
  void Answer(const memif::Message& message);
  void Refuse(const Descriptor& to, const std::string& reason);
  void Drop(const std::string& reason);

  // Calls `work`, and keeps a MemifFault in `fault_`. False after a fault. The client stays
  // connected until the next Flush(), because callers may still use its memory.
  template <class Work>
  bool Guarded(const Work& work);

  Poller& poller_;
  std::string path_;
  std::string name_;
  Descriptor listener_;
  std::uint64_t listener_name_ = 0;  // in the poller
  Descriptor control_;               // the socket of the client
  std::uint64_t control_name_ = 0;   // in the poller
  bool begun_ = false;               // the client has sent init
  bool connected_ = false;           // the client has sent connect
  std::optional<MemifLink> link_;
  std::vector<std::uint64_t> interrupt_names_;  // in the poller
  std::string fault_;  // how the client broke the protocol; empty if it did not
  bool wake_ = true;
  std::uint64_t departures_ = 0;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_MEMIF_PORT_H_
