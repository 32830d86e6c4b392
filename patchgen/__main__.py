"""Start of the program: from its first import on, a signal that ends it lets it clean up."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any

from patchgen.system import signals


class _Output(io.FileIO):
    """Standard output or error. What cannot be written does not stop the command."""

    lost = ""
    """Reason why output of the command could not be written; empty where it was."""

    def write(self, content: Any) -> int:  # noqa: ANN401  # any kind of bytes
        """Writes some of the content, or drops all of it."""
        try:
            while (count := super().write(content)) is None:  # it is not blocking
                select.select((), (self,), ())
        except OSError as error:
            _Output.lost = _Output.lost or str(error.strerror)
            return len(content)
        return count


def main() -> None:
    """Runs switchml-patch and ends the process."""
    _open_streams()
    try:
        _run()
    except SystemExit as ended:
        sys.stdout.flush()
        if _Output.lost and not ended.code:
            from patchgen.errors import FileError

            sys.stderr.write(f"error: the output cannot be written: {_Output.lost}\n")
            ended.code = FileError.exit_code
        if "rattler" in sys.modules and isinstance(ended.code, int):
            # A thread of py-rattler holds Python's lock a little longer than its result takes to
            # arrive, and an interpreter that is taken apart meanwhile aborts.
            os._exit(ended.code)
        raise


def _open_streams() -> None:
    """Opens the standard streams that are closed, before other files take their numbers."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if not os.path.exists(f"/dev/fd/{descriptor}"):  # a closed stdout is no silence: it fails
            flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            os.set_inheritable(os.open(os.devnull, flags), True)  # noqa: FBT003  # has no keyword
        given = getattr(sys, name)
        if descriptor:
            raw = io.BufferedWriter(_Output(descriptor, "w", closefd=False))
            encoding, errors = (given.encoding, given.errors) if given else (None, None)
            setattr(sys, name, io.TextIOWrapper(raw, encoding, errors, line_buffering=True))
        elif given is None:
            sys.stdin = open(descriptor, closefd=False)  # noqa: SIM115


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
