"""Enclosure of a process in namespaces of Linux: a directory at a fixed path, no network.

As a program, `enclosure.py -- COMMAND...` runs a command without a network. `enclosure.py --try`
ends with 0 where all of it can be had, else with 1 and the reason.
"""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import sys

ROOT = "/mnt"
"""Directory of every Linux that gets the fixed path, beside all that is there."""
PATH = os.path.join(ROOT, "switchml-patch")
"""The fixed path. Nobody else can write there, inside or outside of the namespace."""

_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000  # unshare(2)
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18  # mount(2)
_DETACH = 2  # umount2(2)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # netdevice(7)
_LIBC = ctypes.CDLL(None, use_errno=True)
_shown = []  # type: list[str]


def show(directory: str) -> None:
    """Shows a directory at PATH to this process and to what it starts, in place of another.

    The first time, this process gets mounts of its own. Without privileges that takes a user
    namespace, which a process with threads cannot have.

    Raises:
        OSError: the system refuses.
    """
    if not _shown:
        _enter()
    elif _shown[-1] == directory:
        return
    elif _shown[-1]:
        hide()
    _mount(directory, PATH, None, _BIND | _REC)
    _shown.append(directory)


def hide() -> None:
    """Takes the directory away from PATH again.

    Raises:
        OSError: the system refuses.
    """
    _check(_LIBC.umount2(os.fsencode(PATH), _DETACH), PATH)
    _shown.append("")


def has_shown() -> bool:
    """True where this process has mounts of its own."""
    return bool(_shown)


def show_at(directory: str, target: str) -> None:
    """Gives this process mounts of its own, where a directory is in the place of another one.

    Raises:
        OSError: the system refuses.
    """
    _unshare(_NEWNS)
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount(directory, target, None, _BIND | _REC)


def leave_network() -> None:
    """Gives this thread, and what it starts, a network that has nothing but a loopback.

    Raises:
        OSError: the system refuses.
    """
    _unshare(_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(asked, _GET_FLAGS, request))[1]
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _enter() -> None:
    if os.path.lexists(PATH):  # it would be hidden
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
    """Leaves namespaces: as root as it is, else within a user namespace with the same user."""
    if _LIBC.unshare(flags) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_NEWUSER | flags), "namespaces")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _keep(hidden: int, name: str) -> None:
    """Shows an entry of the directory below the new one at its old place."""
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
    """Tries the namespaces, or runs the command."""
    command = sys.argv[1:]
    try:
        if command == ["--try"]:
            show("/")
            hide()
            leave_network()
            return
        leave_network()
        os.execvp(command[1], command[1:])  # noqa: S606  # that is what it is for
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{where}{error.strerror}")


if __name__ == "__main__":
    main()
