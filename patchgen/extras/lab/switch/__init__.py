"""A software switch: it sums the packets of SwitchML's client library on this machine."""

from __future__ import annotations

import os

from patchgen.system import native

WORKERS = 32
"""Largest number of workers that sum together."""
PROJECT = native.Project(
    "switch", "the software switch", "switchml-switch",
    source=os.path.dirname(os.path.abspath(__file__)), suffixes=(".cc", ".h", ".proto", ".txt"),
)  # fmt: skip
"""Project of the program, which takes the options of the command `switch`, and writes
`{"listening": "HOST:PORT"}` to stdout once it is ready."""
