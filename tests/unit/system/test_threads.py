"""Waiting for threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support.waiting import ENOUGH

from patchgen.system import threads


def test_each_comes_when_it_has_ended() -> None:
    first = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(first.wait)
        early = pool.submit(int)
        found = threads.as_completed([late, early])
        assert next(found) is early
        first.set()
        assert list(found) == [late]


def test_a_signal_is_heard_that_does_not_wake_the_waiting_thread() -> None:
    """As one that comes just before it waits: here another thread takes it."""
    heard = threading.Event()

    def tell() -> bool:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGUSR1)
        return heard.wait(ENOUGH)

    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())
    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(tell)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
            assert list(threads.as_completed([future])) == [future]
        assert future.result()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGUSR1, before)
