"""Rank that saves when it gets a signal, and then ends if the signal ends it.

Before the end it saves until a second after the test has sent its last signal. Fails if a process
of its own, such as a worker of a DataLoader, was ended before, except by Ctrl-C.
"""

import multiprocessing
import os
import signal
import sys
import time

rank = os.environ["RANK"]
workers = []


def save(number, _):
    if number in (signal.SIGINT, signal.SIGTERM):
        with open(f"{rank}.saves", "w"):
            pass
        while not os.path.exists("sent"):
            time.sleep(0.01)
        time.sleep(1)
    assert number == signal.SIGINT or all(worker.is_alive() for worker in workers)
    with open(f"{rank}.{number}", "a") as file:
        file.write("x")
    if number in (signal.SIGINT, signal.SIGTERM):
        raise SystemExit


if __name__ == "__main__":
    for method in sys.argv[1:]:
        context = multiprocessing.get_context(method)
        workers.append(context.Process(target=time.sleep, args=(600,), daemon=True))
        workers[-1].start()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, save)
    with open(f"{rank}.ready", "w") as file:
        file.write(str(os.getpid()))
    while not os.path.exists("end"):
        time.sleep(0.01)
