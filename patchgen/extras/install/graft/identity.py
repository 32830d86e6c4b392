"""Identity of a graft: the torch that it is for, and the options that it was built with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from patchgen import __version__
from patchgen.core.patch.pins import Pin
from patchgen.core.torch import Torch
from patchgen.errors import TreeError
from patchgen.extras.install.payload import graft_hook
from patchgen.options import Options


@dataclass(frozen=True)
class Identity:
    """Identity of a graft, compiled into it and compared with torch before the graft is loaded.

    `torch` has version, commit, cuda and cxx11_abi. `libraries` has the fingerprints of torch's
    libraries by name. `cuda` is True if the graft takes CUDA tensors.
    """

    torch: Mapping[str, Any]
    libraries: Mapping[str, str]
    pin: str
    flags: str
    switchml_home: str
    cuda: bool
    version: str = __version__
    format: int = graft_hook.FORMAT

    def to_json(self) -> str:
        """Return the identity as one line of ASCII."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def title(self) -> str:
        """Version and commit of the torch, for messages."""
        return f"torch {self.torch['version']} (commit {self.torch['commit'][:12]})"


def identify(torch: Torch, pin: Pin, options: Options, *, cuda: bool) -> Identity:
    """Return the identity of a graft for a torch."""
    found = graft_hook.torch_of(torch.root)
    return Identity(
        torch={**found, "cuda": torch.cuda, "cxx11_abi": torch.cxx11_abi},
        libraries=graft_hook.fingerprints(torch.root),
        pin=pin.name,
        flags=" ".join(options.flags),
        switchml_home=options.switchml_home,
        cuda=cuda,
    )


def read(library: str) -> Identity:
    """Read the identity of a graft without loading it.

    Raises:
        TreeError: the file is missing, or not a graft of this version.
    """
    try:
        return Identity(**graft_hook.read(os.path.abspath(library)))
    except (graft_hook.Misfit, TypeError) as error:
        raise TreeError(f"the graft {library}: {error}") from error


def misfit(identity: Identity, root: str) -> str:
    """Return why a graft is not for the torch in the directory `root`, or empty."""
    return graft_hook.misfit(asdict(identity), root)
