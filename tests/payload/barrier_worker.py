"""Worker that waits in a barrier of a controller: barrier_worker.py ADDRESS WORKERS.

Prints `waits` just before it does.
"""

import sys

from support.switch_clients import Controller

controller = Controller(sys.argv[1])
call = controller.begin("Sync/Barrier", {1: int(sys.argv[2])})
sys.stdout.write("waits\n")
sys.stdout.flush()
call.result()
