// A port on a network interface of this machine, such as a tap or one end of a veth.
#ifndef SOFTSWITCH_PACKET_PORT_H_
#define SOFTSWITCH_PACKET_PORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "descriptor.h"
#include "frame.h"
#include "poller.h"
#include "port.h"

namespace softswitch {

// Uses an AF_PACKET socket, with batches of frames. Port says which thread calls it.
class PacketPort : public Port {
 public:
  // Throws std::runtime_error if the interface does not exist or may not be used.
  PacketPort(Poller& poller, const std::string& interface);
  ~PacketPort() override;

  const std::string& name() const override { return name_; }
  std::uint64_t departures() const override { return departures_; }
  bool Receive(const Taker& take) override;
  void Send(std::uint16_t queue, Bytes head, Bytes values) override;
  void Flush() override;
  void Wake(bool) override {}  // the socket always wakes the poller
  bool Pending() const override { return false; }
  void Tend() override;

 private:
  static constexpr std::size_t kBatch = 64;
  // Longer frames are cut; the core notices the wrong length in their headers.
  using Frame = std::array<std::uint8_t, kMaxFrame + 4>;

  void Open();
  void Close();

  Poller& poller_;
  std::string interface_;
  std::string name_;
  Descriptor socket_;
  std::uint64_t polled_ = 0;
  std::uint64_t departures_ = 0;
  std::vector<Frame> received_;
  std::vector<Frame> sending_;
  std::array<std::size_t, kBatch> sizes_{};  // of the frames to send
  std::size_t waiting_ = 0;                  // frames to send
};

}  // namespace softswitch

#endif  // SOFTSWITCH_PACKET_PORT_H_
