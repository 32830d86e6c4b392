"""Server that has imported torch once, and forks a rank for each request.

A rank continues in worker.py as if it had been started with its own command line, directory,
environment and outputs. It ends as an interpreter does, but skips the destructors of libraries,
which take most of a short rank's time. Variables that torch reads at its import are the server's.

Standard library only: it runs under the interpreter of the torch in use.
"""

import atexit
import gc
import json
import os
import select
import socket
import sys
import threading

LARGEST = 1 << 20  # bytes of a request


def serve(descriptor):
    """Return in each rank. The server itself ends here, when its last client is gone."""
    gc.freeze()  # a collection would write to shared pages, and so copy them
    connection = socket.socket(fileno=descriptor)
    ranks = {}  # pidfd -> pid
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready != connection.fileno():
                poller.unregister(ready)
                pid = ranks.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])  # negative for a signal
                tell(connection, ended=[pid, code])
                os.close(ready)
                continue
            request = connection.recv(LARGEST)
            if not request:
                sys.exit()
            given = json.loads(request)
            if "kill" in given:
                if given["kill"] in ranks.values():  # else the number may be another's by now
                    os.kill(given["kill"], 9)
                continue
            pid = fork()
            if pid == 0:
                for held in ranks:
                    os.close(held)
                connection.close()
                become(**given)
                return
            handle = os.pidfd_open(pid)
            ranks[handle] = pid
            poller.register(handle, select.POLLIN)
            tell(connection, started=pid)


def fork():
    """Fork; a lock that another thread holds would stay locked in the child for ever."""
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        sys.exit(f"the server has {len(threads)} threads, so it cannot fork")
    return os.fork()


def become(arguments, directory, environ, output, errors):
    """Take over the command line, directory, environment and outputs of the rank."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = arguments
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, path, how in ((0, os.devnull, os.O_RDONLY), (1, output, flags), (2, errors, flags)):
        opened = os.open(path, how, 0o666)
        os.dup2(opened, number)
        os.close(opened)


def leave():
    """Do what an interpreter does at its end, before destructors of libraries."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()


def tell(connection, **message):
    connection.send(json.dumps(message).encode())
