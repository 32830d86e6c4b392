"""Forks a process for each line of stdin: a step, the signal after it, and the command."""

import os
import signal
import sys

from patchgen import options
from patchgen.core.patch import pins, tree

root, pin = sys.argv[1:]
known = (pins.load(pin),)
count = at = 0
number = signal.SIGKILL


def counted(name):
    real = getattr(os, name)

    def step(*arguments, **keywords):
        global count
        result = real(*arguments, **keywords)
        count += 1
        if count == at:
            os.kill(os.getpid(), number)
        return result

    setattr(os, name, step)


for name in ("replace", "unlink", "fsync"):
    counted(name)
for line in sys.stdin:
    at, command, name = line.split()
    at, number = int(at), getattr(signal, name)
    process = os.fork()
    if process == 0:
        try:
            if command == "apply":
                tree.apply(root, options.resolve({}, {}, "/"), known)
            else:
                tree.revert(root, known)
        except KeyboardInterrupt:
            os._exit(130)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
