"""Where the program begins: from its first import on, whatever ends it finds it cleaning up."""

from __future__ import annotations

import sys

from patchgen import ending


def main() -> None:
    """Runs switchml-patch and ends the process."""
    try:
        with ending.cleaning_up():
            from patchgen.cli import main as program  # noqa: PLC0415  # what is guarded

            program()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
