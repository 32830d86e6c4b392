"""Waiting for threads, interrupted by signals."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

_STEP = 0.5  # seconds


def as_completed(futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Yields each future as it ends.

    Waits in steps. Python handles a signal when its main thread runs again, and one that comes just
    before an endless wait for a lock does not wake that.
    """
    pending = set(futures)
    while pending:
        done, pending = concurrent.futures.wait(
            pending, _STEP, return_when=concurrent.futures.FIRST_COMPLETED
        )
        yield from done
