"""Holds names, as sockets without a file and as the delegate holds its own, until stdin ends."""

import fcntl
import os
import socket
import sys

held = []
for name in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        held.append(socket.socket(socket.AF_UNIX, kind))
        held[-1].bind("\0" + name)
        if kind != socket.SOCK_DGRAM:
            held[-1].listen()
    number = 0xCBF29CE484222325  # as HeldName has it
    for letter in name.encode():
        number = (number ^ letter) * 0x100000001B3 % 2**64
    file = os.memfd_create("switchml")
    fcntl.lockf(file, fcntl.LOCK_EX, 1, number >> 2 << 1)
    fcntl.lockf(file, fcntl.LOCK_SH, 1, number >> 2 << 1)
sys.stdout.write("held\n")
sys.stdout.flush()
sys.stdin.read()
