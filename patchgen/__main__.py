"""Where the program begins: from its first import on, whatever ends it finds it cleaning up."""

from __future__ import annotations

import contextlib
import os
import sys

from patchgen.system import signals


def main() -> None:
    """Runs switchml-patch and ends the process."""
    try:
        _run()
    except SystemExit as ended:
        if "rattler" in sys.modules and isinstance(ended.code, int):
            _leave(ended.code)
        raise


def _leave(code: int) -> None:
    """Ends the process without taking the interpreter apart.

    A thread of py-rattler holds Python's lock a little longer than its result takes to arrive, and
    an interpreter that is taken apart meanwhile aborts.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def _run() -> None:
    try:
        with signals.cleaning_up():
            from patchgen.cli import main as program  # what is guarded

            program()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
