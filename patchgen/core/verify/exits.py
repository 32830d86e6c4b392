"""Known causes of a crash at the exit of a rank."""

from __future__ import annotations

import signal

from patchgen.core import recipes
from patchgen.core.patch import pins
from patchgen.core.recipes import EXIT
from patchgen.core.torch import Torch

# At exit autograd's thread clears state that the interpreter has freed. The signal depends on the
# allocator.
CRASHES = (signal.SIGSEGV, signal.SIGABRT)

CAUSE = (
    "the cause: under Python {python} {torch}, patched or not, crashes at the exit of a process "
    "that has trained: a thread of autograd outlives the interpreter; Python {wanted}, such as 3.7 "
    "or 3.8, does not have it"
)


def cause(torch: Torch) -> str:
    """Return why ranks with this torch crash at their exit after a training, or empty."""
    release = torch.version.partition("+")[0].lower()
    for pin in pins.shipped():
        limits = recipes.limit(pin)
        if pin.version == release and limits.problems("Python", torch.python_version, "", EXIT):
            python = torch.python_version
            return CAUSE.format(python=python, torch=limits.of, wanted=limits.text(EXIT))
    return ""
