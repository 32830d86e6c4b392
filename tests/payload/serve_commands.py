"""Forks switchml-patch for commands of the tests, with most of it already imported."""

import contextlib
import importlib
import os
import pkgutil
import sys
import tempfile
import warnings

import forking

import patchgen

# These import a library with threads, or are for other interpreters.
LATE = ("patchgen.__main__", "patchgen.extras.accuracy", "patchgen.extras.train.demo")


def load(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if not found.name.startswith(LATE) and not found.name.endswith((".payload", ".templates")):
            with contextlib.suppress(ImportError):  # it needs an extra
                module = importlib.import_module(found.name)
                if found.ispkg:
                    load(module)


sys.path[0] = "/"
load(patchgen)
with contextlib.suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    importlib.import_module("conda_lock.lockfile")
tempfile.tempdir = None  # that of the command
forking.serve(int(sys.argv[2]))
program = os.path.join(os.path.dirname(patchgen.__file__), "__main__.py")
sys.argv[0], __package__ = program, "patchgen"  # as python -m says it
from patchgen.__main__ import main

try:
    main()
except SystemExit as ended:
    forking.leave()
    os._exit(ended.code or 0)
