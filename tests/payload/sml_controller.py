"""SwitchML's own controller in front of a software switch: its gRPC server, our data plane.

sml_controller.py DIRECTORY ADDRESS SWITCH

DIRECTORY has the modules of SwitchML's controller, and the modules that protoc generates for them.
The server listens on ADDRESS, and adds workers to the software switch whose controller is at
SWITCH. Prints `ready` when it listens, and runs until it is ended.
"""

import asyncio
import importlib
import ipaddress
import socket
import sys
import threading
import time

import grpc

ELEMENTS_256 = 3  # SwitchML's code for a packet's size, which its controller does not pass on


class Controller:
    """Data plane of a software switch, with the methods that SwitchML's server calls."""

    def __init__(self, messages, service, switch):
        self.messages = messages
        channel = grpc.insecure_channel(switch, [("grpc.enable_http_proxy", 0)])
        self.session = service.SessionStub(channel)
        self.addresses = None

    def clear_udp_workers(self, session_id):
        """Do nothing: the software switch starts anew when rank 0 joins."""

    def add_udp_worker(self, session_id, worker_id, num_workers, worker_mac, worker_ip):
        """Add a worker to the software switch; return whether it was added, and the error."""
        request = self.messages.UdpSessionRequest(
            session_id=session_id,
            rank=worker_id,
            num_workers=num_workers,
            mac=int(worker_mac.replace(":", ""), 16),
            ipv4=int(ipaddress.ip_address(worker_ip)),
            packet_size=ELEMENTS_256,
        )
        try:
            response = self.session.UdpSession(request)
        except grpc.RpcError as error:
            return False, error.details()
        octets = response.mac.to_bytes(6, "big")
        mac = ":".join(f"{octet:02X}" for octet in octets)
        self.addresses = mac, str(ipaddress.ip_address(response.ipv4))
        return True, None

    def get_switch_mac_and_ip(self):
        """Return the addresses that the software switch gave to the last worker."""
        return self.addresses


def main(directory, address, switch):
    sys.path.insert(0, directory)
    server_module, messages, service = (
        importlib.import_module(name)
        for name in ("grpc_server", "switchml_pb2", "switchml_pb2_grpc")
    )
    host, _, port = address.rpartition(":")
    server = server_module.GRPCServer(ip=host, port=int(port))
    controller = Controller(messages, service, switch)
    loop = asyncio.new_event_loop()
    threading.Thread(target=server.run, args=(loop, controller), daemon=True).start()
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            break
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
