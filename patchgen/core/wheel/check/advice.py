"""Advice about messages of programs and of the system."""

from __future__ import annotations

import re
from typing import NamedTuple

from patchgen.core import meanings
from patchgen.errors import ToolError
from patchgen.options import FLAGS


class Package(NamedTuple):
    """Packages with a library, by distribution; empty where none is known."""

    debian: str
    rhel: str
    conda: str


_RDMA_CORE = ("rdma-core-devel", "rdma-core")
_ELSEWHERE = {
    "ibverbs": _RDMA_CORE,
    "mlx5": _RDMA_CORE,
    "mlx4": _RDMA_CORE,
    "mnl": ("libmnl-devel", ""),
    "hugetlbfs": ("libhugetlbfs-devel", "libhugetlbfs"),
}
PACKAGES = {
    "glog": Package("libgoogle-glog-dev", "glog-devel", "glog"),
    "boost_program_options": Package("libboost-program-options-dev", "boost-devel", "boost-cpp"),
    "numa": Package("libnuma-dev", "numactl-devel", "libnuma"),
    **{
        name: Package(debian, *_ELSEWHERE.get(name, ("", "")))
        for flag in FLAGS
        for name, debian in flag.libraries.items()
    },
}
NOT_LOCKED = "not in the lock"
_CARDS = [flag.field for flag in FLAGS if flag.cards]
CARDS = tuple(
    meanings.Meaning(
        (f"undefined: {card}dv_", *(["undefined: ibv_"] if card == _CARDS[0] else [])),
        f"DPDK was built with the {card} driver",
        f"add --{card}",
    )
    for card in _CARDS
)
"""Meanings of symbols that a driver of DPDK needs."""
_SHOWN = 3  # undefined symbols


def of_lock(version: str) -> str:
    """Return what a check of a locked version has found."""
    return f"{version} of the lock"


def relock(do: str = "change it") -> str:
    """Return the advice for changing a locked package."""
    return f"{do} in the environment file, then run: switchml-patch env lock"


def lines(error: ToolError) -> tuple[str, ...]:
    """Return the failed command, and the line of its output with the reason."""
    output = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = output[-1:] if any(line.startswith("Traceback") for line in output) else output[1:2]
    return (output[0], *why)


def reason(error: OSError) -> str:
    """Return the reason of the operating system, without the path."""
    return error.strerror or str(error)


def explain_compiler(output: str, *, conda: bool) -> list[str]:
    """Return the compiler's first error, and advice.

    `conda`: it is the compiler of a conda environment, which searches only there.
    """
    missing = re.search(r"fatal error: '?([^':\n]+?)'?(?:: No such file| file not found)", output)
    if missing:
        return [f"no <{missing[1]}>; {install(missing[1].partition('/')[0], conda=conda)}"]
    errors = re.findall(r"error: (.*)", output)
    return [*(errors[:1] or lines(ToolError(output))), "use a compiler of C++17: set CC and CXX"]


def explain_linker(output: str, *, conda: bool) -> list[str]:
    """Return the linker's errors, and advice; `conda` as in `explain_compiler`."""
    missing = re.findall(r"(?:cannot find|unable to find library) -l([^\s:]+)", output)
    if missing:
        names = dict.fromkeys(missing)
        return [f"no library {name}; {install(name, conda=conda)}" for name in names]
    known = meanings.find("link", output)
    if known:
        return [known]
    symbols = list(
        dict.fromkeys(re.findall(r"undefined (?:reference to|symbol:) [`']?([^\n']+)", output))
    )
    rows = [*CARDS, *meanings.table()["link"]]
    found = [meanings.first(rows, f"undefined: {symbol}") for symbol in symbols]
    hints = dict.fromkeys(str(row) for row in found if row is not None)
    if symbols:
        more = f" and {len(symbols) - _SHOWN} more" if len(symbols) > _SHOWN else ""
        return [
            f"undefined: {', '.join(symbols[:_SHOWN])}{more}",
            *(hints or ["build the client library and what it needs with the same flags"]),
        ]
    why = lines(ToolError(output))  # without the command, which is long
    return [*(why[1:] or why), "the client library does not link: build it again here"]


def install(library: str, *, conda: bool) -> str:
    """Return how to install a library, or the library with a header."""
    package = PACKAGES.get({"boost": "boost_program_options"}.get(library, library))
    if package is None:
        return f"install {library}"
    if not conda:
        rhel = f" or {package.rhel} (RHEL)" if package.rhel else ""
        return f"install {package.debian} (Debian){rhel}"
    if package.conda:
        return relock(f"put {package.conda}")
    return f"put lib{library}.so into SWITCHML_HOME/lib: no conda package of it is known"
