// A port that is a Unix socket, on which one memif client after the other connects.
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

class MemifPort : public Port {
 public:
  // Throws std::runtime_error where the socket cannot be made, or somebody listens there.
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
  void Understand(const memif::Message& message, Descriptor descriptor);
  void Answer(const memif::Message& message);
  void Refuse(const Descriptor& to, const std::string& why);
  void Drop(const std::string& why);

  // False where the client has broken the protocol, now or before. It stays connected until the
  // end of the turn, as whoever is at work may be deep in its memory.
  template <class Work>
  bool Guarded(const Work& work);

  Poller& poller_;
  std::string path_;
  std::string name_;
  Descriptor listener_;
  std::uint64_t listening_ = 0;
  Descriptor control_;
  std::uint64_t controlling_ = 0;
  bool begun_ = false;      // the client has said what it wants
  bool connected_ = false;  // all rings are there
  std::optional<MemifLink> link_;
  std::vector<std::uint64_t> interrupts_;
  std::string fault_;  // what the client has done, if anything
  bool wake_ = true;
  std::uint64_t departures_ = 0;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_MEMIF_PORT_H_
