"""Where the program begins: from its first import on, whatever ends it finds it cleaning up."""

from __future__ import annotations

import sys

from patchgen.system import signals


def main() -> None:
    """Runs switchml-patch and ends the process."""
    try:
        with signals.cleaning_up():
            from patchgen.cli import main as program  # what is guarded

            program()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
