"""Linux namespaces for a process: a directory at a fixed path, and no network.

As a program, `enclosure.py -- COMMAND...` runs a command without a network. `enclosure.py --try`
ends with 0 if all namespaces are available, else with 1 and the reason.
"""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import sys
import time

ROOT = "/mnt"
"""Directory that every Linux has. It gets the fixed path, beside its own entries."""
PATH = os.path.join(ROOT, "switchml-patch")
"""The fixed path. Other users can write there neither inside nor outside of the namespace."""

_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000  # unshare(2)
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18  # mount(2)
_DETACH = 2  # umount2(2)
_LEAVING = 5.0  # seconds for threads that have ended
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # netdevice(7)
_LIBC = ctypes.CDLL(None, use_errno=True)
shown = []  # type: list[str]
"""Directories that were at PATH; empty until this process has its own mounts."""


def show(directory: str) -> None:
    """Mount a directory at PATH for this process and its children, instead of an earlier one.

    The first call gives this process its own mounts. Without privileges that takes a user
    namespace, which a process with threads cannot enter.

    Raises:
        OSError: the system refuses.
    """
    if not shown:
        _enter()
    elif shown[-1] == directory:
        return
    else:
        hide()
    _mount(directory, PATH, None, _BIND | _REC)
    shown.append(directory)


def hide() -> None:
    """Unmount the directory at PATH, if there is one.

    Raises:
        OSError: the system refuses.
    """
    if shown and shown[-1]:
        _check(_LIBC.umount2(os.fsencode(PATH), _DETACH), PATH)
        shown.append("")


def show_at(directory: str, target: str) -> None:
    """Give this process its own mounts, with a directory mounted over another one.

    Raises:
        OSError: the system refuses.
    """
    _unshare(_NEWNS)
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount(directory, target, None, _BIND | _REC)


def leave_network() -> None:
    """Give this thread and its children a network with nothing but a loopback.

    Raises:
        OSError: the system refuses.
    """
    _unshare(_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(probe, _GET_FLAGS, request))[1]
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _enter() -> None:
    if os.path.lexists(PATH):  # the mount would hide it
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), PATH)
    _unshare(_NEWNS)
    _mount(None, "/", None, _REC | _PRIVATE)
    hidden = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _mount("tmpfs", ROOT, "tmpfs", _NOSUID | _NODEV, "mode=755")
        for name in os.listdir(hidden):
            _keep(hidden, name)
    finally:
        os.close(hidden)
    os.mkdir(PATH)


def _unshare(flags: int) -> None:
    """Enter new namespaces: directly as root, else within a user namespace of the same user."""
    if _LIBC.unshare(flags) == 0:
        return
    _await_threads()
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_NEWUSER | flags), "namespaces")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _await_threads() -> None:
    """Wait until threads that have been joined have left the process, which takes a moment."""
    deadline = time.monotonic() + _LEAVING
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)


def _keep(hidden: int, name: str) -> None:
    """Mount an entry of the hidden directory at its old path."""
    source, target = f"/proc/self/fd/{hidden}/{name}", os.path.join(ROOT, name)
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        open(target, "xb").close()
    _mount(source, target, None, _BIND | _REC)


def _mount(
    source: "str | None", target: str, kind: "str | None", flags: int, data: "str | None" = None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    options = None if data is None else os.fsencode(data)
    _check(_LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), options), target)


def _check(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def main() -> None:
    """Try the namespaces, or run the command."""
    command = sys.argv[1:]
    try:
        if command == ["--try"]:
            show("/")
            hide()
            leave_network()
            return
        leave_network()
        os.execvp(command[1], command[1:])  # noqa: S606  # its purpose
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{where}{error.strerror}")


if __name__ == "__main__":
    main()
