"""Fetches a source, and sends itself a signal after a step."""

import os
import signal
import sys
import threading

from patchgen.core import source
from patchgen.core.patch import pins
from patchgen.system.git import Git

at, name, tree, pin = int(sys.argv[1]), *sys.argv[2:]
lock, count = threading.Lock(), 0


def step():
    global count
    with lock:
        count += 1
        if count == at:
            os.kill(os.getpid(), getattr(signal, name))


def wrapped(real):
    def call(*arguments, **keywords):
        result = real(*arguments, **keywords)
        step()
        return result

    return call


Git.__call__ = wrapped(Git.__call__)
os.rename, os.rmdir, os.replace = wrapped(os.rename), wrapped(os.rmdir), wrapped(os.replace)
source.obtain(tree, source.SourceRequest(pins.load(pin)))
print("done", flush=True)
