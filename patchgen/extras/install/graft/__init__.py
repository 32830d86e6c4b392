"""The graft: the patched process group as a shared object for a torch that is installed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen.core.library import homes
from patchgen.core.patch import pins
from patchgen.core.source import Places
from patchgen.core.source.addresses import PYTORCH, SOURCE
from patchgen.errors import ToolError, file_errors
from patchgen.extras.install import provenance
from patchgen.extras.install.graft import cuda as cudas
from patchgen.extras.install.graft import identity as identities
from patchgen.extras.install.graft import project
from patchgen.extras.install.graft.identity import Identity, misfit, read
from patchgen.extras.install.graft.installing import install, launching, place, uninstall
from patchgen.extras.install.graft.sources import (
    GLOO,
    Origin,
    fetched,
    from_tree,
    gloo_directory,
    has_system_gloo,
    pin_of,
)
from patchgen.extras.install.graft.trying import attempt
from patchgen.system import files, native, outputs, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.patch.pins import Pin
    from patchgen.core.torch import Torch
    from patchgen.options import Options
    from patchgen.system.native import Product

_LOGGER = logging.getLogger(__name__)

__all__ = [
    "Identity",
    "build",
    "compile_graft",
    "install",
    "launching",
    "misfit",
    "place",
    "read",
    "uninstall",
]


@dataclass(frozen=True)
class Compiled:
    """Graft that was compiled, or was in the cache."""

    identity: Identity
    pin: Pin
    product: Product


def compile_graft(  # noqa: PLR0913  # each is an option of the command
    options: Options,
    torch: Torch,
    source: str | None = None,
    *,
    environ: Mapping[str, str],
    cache: str,
    places: Places | None = None,
    cuda_home: str | None = None,
    known: Sequence[Pin] | None = None,
) -> Compiled:
    """Compiles a shared object that takes the place of the Gloo process group of a torch.

    Args:
        options: the flags and homes, as for the patch.
        torch: that it is for.
        source: a PyTorch tree of that torch's commit, patched or not, which is only read; without
            one, the files that are needed are fetched.
        environ: of the processes that import the torch.
        cache: directory of the cache: files that were fetched, and grafts that were compiled.
        places: where to look before the network.
        cuda_home: a toolkit of CUDA, or the directory of NVIDIA's packages for Python.
        known: the pins that the source may be of; without, those that are shipped.

    Raises:
        OptionsError: there is no pin for the torch, or a path that cannot be used.
        TreeError: the source is of no known pin, or not that of the torch.
        ToolError: something could not be fetched or compiled, or the torch does not take it.
        FileError: the file system refused.
    """
    origin = Origin(cache, places or Places())
    known = pins.shipped() if known is None else known
    if source is None:
        pin = pin_of(torch, known)
        _LOGGER.info("torch %s in %s, source %s", torch.version, torch.root, pin.name)
        sources = fetched(pin, torch, origin, gloo_only=False)
    else:
        pin, sources = from_tree(source, torch, known)
        _LOGGER.info("torch %s in %s, source %s", torch.version, torch.root, pin.name)
        if not gloo_directory(torch) and not any(path.startswith(GLOO) for path in sources):
            sources |= _gloo(pin, torch, origin)
    # Since 1.10 the process group reaches devices through torch, without CUDA's own interface.
    direct = any(b"USE_CUDA" in text for path, text in sources.items() if path.endswith(".cpp"))
    cuda = cudas.find(torch, cuda_home) if direct else None
    takes = torch.cuda is not None and (cuda is not None or not direct)
    if cuda is not None:
        told = "CUDA tensors too: headers of CUDA %s, torch's is %s"
        _LOGGER.info(told, cuda.version, torch.cuda)
    elif torch.cuda is not None:
        _LOGGER.info("CUDA tensors too" if takes else cudas.advice(torch))
    made = identities.identify(torch, pin, options, cuda=takes)
    texts = project.files(options, pin, torch, cuda=cuda, identity=made, sources=sources)
    what = "ProcessGroupGloo.cpp and SwitchMLAllreduce.cpp"

    def try_graft(library: str) -> None:
        _LOGGER.info("trying it: a process group in torch %s", torch.version)
        attempt(library, torch, environ)

    product = native.get_or_build(
        native.Project(
            "graft-library", what, "graft.so", files=texts,
            inputs=(
                homes.stamp_homes(options), torch.stamps, cuda.version if cuda else None
            ),
        ),
        cache, environ, try_graft,
    )  # fmt: skip
    return Compiled(made, pin, product)


def build(
    options: Options,
    torch: Torch,
    source: str | None,
    output: str,
    **given: Any,  # noqa: ANN401  # as the other function takes them
) -> Identity:
    """Writes a graft, and its provenance beside it.

    Args:
        options: as for `compile_graft`, and so are `torch` and `source`.
        torch: see there.
        source: see there.
        output: the shared object; replaced at once or not at all.
        given: the rest of its arguments.

    Raises:
        PatchgenError: of `compile_graft`.
        FileError: the output cannot be written.
    """
    made = compile_graft(options, torch, source, **given)
    if not made.product.new:
        _LOGGER.info("taking the compiled graft from the cache")
    with (
        file_errors(),
        open(made.product.path, "rb") as file,
        outputs.directory(os.path.dirname(output)),
    ):
        files.replace(os.fsencode(output), file.read())
        built = made.product.built
        described = provenance.describe(
            provenance.GRAFT, output, options, torch, built,
            request={"pin": {"name": made.pin.name, "commit": made.pin.commit}},
            sources=(statement.describe_commit(SOURCE, PYTORCH, made.pin.commit),),
        )  # fmt: skip
        statement.write(output, described)
    return made.identity


def _gloo(pin: Pin, torch: Torch, origin: Origin) -> dict[str, bytes]:
    """The headers of gloo that a source without its submodule lacks.

    Raises:
        ToolError: they could not be had, and none are installed.
    """
    try:
        return fetched(pin, torch, origin, gloo_only=True)
    except ToolError:
        if not has_system_gloo():
            raise
        _LOGGER.info(
            "warning: gloo's headers could not be fetched; those that are installed are used, and "
            "must be of the gloo of PyTorch %s (the source has none in %s)", pin.version, GLOO,
        )  # fmt: skip
        return {}
