"""Waiting for threads, interrupted by signals."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

_STEP = 0.5  # seconds


def as_completed(futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Yield each future as it ends.

    Waits in steps, because a signal just before an endless wait for a lock does not wake Python's
    main thread.
    """
    pending = set(futures)
    while pending:
        done, pending = concurrent.futures.wait(
            pending, _STEP, return_when=concurrent.futures.FIRST_COMPLETED
        )
        yield from done
