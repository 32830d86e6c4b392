"""Run the doctor in this rank."""

import os
import sys

from .rank import main

if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # do not wait for threads of a Store
