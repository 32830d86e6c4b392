"""Start of the program: from its first import on, a signal that ends it lets it clean up."""

from __future__ import annotations

import contextlib
import os
import sys

from patchgen.system import signals


def main() -> None:
    """Runs switchml-patch and ends the process."""
    _open_streams()
    try:
        _run()
    except SystemExit as ended:
        if "rattler" in sys.modules and isinstance(ended.code, int):
            _leave(ended.code)
        raise


def _open_streams() -> None:
    """Opens the standard streams that are closed, before other files take their numbers.

    What is written to such a stdout fails, and is told; what is written to such a stderr is lost.
    """
    for descriptor, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        if not os.path.exists(f"/dev/fd/{descriptor}"):
            os.set_inheritable(os.open(os.devnull, flags), True)  # noqa: FBT003  # has no keyword
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


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
