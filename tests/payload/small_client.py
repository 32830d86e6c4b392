"""switchml-patch with the small client library of the tests: COMMIT, then its arguments."""

from __future__ import annotations

import sys


def run(commit: str) -> None:
    from patchgen.extras.client import fixes

    fixes.COMMIT = commit  # before other modules import it
    from support import client_source

    fixes.read_shipped = lambda _part=fixes.LIBRARY: client_source.FIXES
    fixes.verify = lambda *_: None  # the known ids are those of the real files
    from patchgen.__main__ import main

    main()


if __name__ == "__main__":
    run(sys.argv.pop(1))
