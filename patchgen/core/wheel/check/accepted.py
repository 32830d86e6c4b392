"""Rows that a build refuses, but goes on without where the user says so."""

from __future__ import annotations

CRASH = "crash-at-exit"
ACCEPTABLE = {
    "no-blas": "BLAS and LAPACK",
    CRASH: "Python's exit",
}
"""The name of the row, by what the user accepts."""
