"""Start of the program. From its first import on, it cleans up after a signal."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any

from patchgen.system import signals


class _Output(io.FileIO):
    """Standard output or error. A failed write does not stop the command."""

    lost = ""
    """Why output of the command could not be written; empty if all was."""

    def write(self, content: Any) -> int:  # noqa: ANN401  # any bytes-like object
        """Write some of the content, or drop all of it."""
        try:
            while (count := super().write(content)) is None:  # non-blocking, and full
                select.select((), (self,), ())
        except OSError as error:
            _Output.lost = _Output.lost or str(error.strerror)
            return len(content)
        return count


def main() -> None:
    """Run switchml-patch, and end the process."""
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
            # A thread of py-rattler holds the GIL a little longer than its result takes to arrive.
            # If the interpreter shut down meanwhile, it would abort.
            os._exit(ended.code)
        raise


def _open_streams() -> None:
    """Open the standard streams that are closed, so that other files do not replace them."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if not _is_open(descriptor):  # writing to a closed stdout must fail
            flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            os.set_inheritable(os.open(os.devnull, flags), True)  # noqa: FBT003  # positional only
        given = getattr(sys, name)
        if descriptor:
            raw = io.BufferedWriter(_Output(descriptor, "w", closefd=False))
            encoding, errors = (given.encoding, given.errors) if given else (None, None)
            setattr(sys, name, io.TextIOWrapper(raw, encoding, errors, line_buffering=True))
        elif given is None:
            sys.stdin = open(descriptor, closefd=False)  # noqa: SIM115


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _run() -> None:
    try:
        with signals.cleaning_up():
            from patchgen.cli import main as program  # imported under the guard

            program()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except Exception as error:  # noqa: BLE001  # any that no code expects
        from patchgen.cli import unexpected

        sys.stderr.write(unexpected.report(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
