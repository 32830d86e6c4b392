"""Worker that waits for others in a barrier of a controller: barrier_worker.py ADDRESS WORKERS.

Prints `waits` when it is about to.
"""

import sys

from support.switch_clients import Controller

controller = Controller(sys.argv[1])
call = controller.begin("Sync/Barrier", {1: int(sys.argv[2])})
sys.stdout.write("waits\n")
sys.stdout.flush()
call.result()
