"""Software switch, which sums the packets of SwitchML's client library on this machine."""

from __future__ import annotations

import os

from patchgen.core.library import homes
from patchgen.extras.lab import HEADERS
from patchgen.system import native

WORKERS = 32
"""Largest number of workers that sum together."""
PROJECT = native.Project(
    "switch", "the software switch", "switchml-switch",
    source=os.path.dirname(os.path.abspath(__file__)), suffixes=(".cc", ".h", ".proto", ".txt"),
    shared=(HEADERS,), libraries=homes.GRPC_LIBRARIES,
)  # fmt: skip
"""Program with the options of the command `switch`, which prints `{"listening": "HOST:PORT"}`."""
