"""Rows that a build refuses, but goes on without where the user says so."""

from __future__ import annotations

ACCEPTABLE = {
    "no-blas": "BLAS and LAPACK",
    "crash-at-exit": "Python's exit",
}
"""The name of the row, by what the user accepts."""
