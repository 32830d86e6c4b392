"""The graft: the patched process group as a shared object for an installed torch."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.core.library import homes
from patchgen.core.patch import pins, render
from patchgen.core.patch.pins import Pin
from patchgen.core.source.addresses import PYTORCH, SOURCE
from patchgen.core.torch import GRAFT, IMPORT_LIMIT, Installed, Torch, probe_torch
from patchgen.core.verify.start import ALONE
from patchgen.errors import ToolError, TreeError, file_errors
from patchgen.extras.install import provenance
from patchgen.extras.install.graft import cuda as cudas
from patchgen.extras.install.graft import identity as identities
from patchgen.extras.install.graft import installing, project
from patchgen.extras.install.graft.identity import Identity
from patchgen.extras.install.graft.sources import GraftOrigin, gather
from patchgen.extras.install.payload import graft_hook, graft_trial
from patchgen.options import Options
from patchgen.system import files, native, outputs, statement
from patchgen.system.native import Product
from patchgen.system.process import Program, side_by_side

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraftRequest:
    """Torch, options and source of a graft."""

    options: Options
    torch: Torch
    origin: GraftOrigin
    """Cache and remotes of the source, which are tried before the network."""
    environ: Mapping[str, str]
    """Environment of the processes that import the torch."""
    source: str | None = None
    """PyTorch tree of the torch's commit, patched or not; None fetches the needed files."""
    cuda_home: str | None = None
    """CUDA toolkit, or directory of NVIDIA's Python packages."""
    known: tuple[Pin, ...] = ()
    """Pins that the source may be of; empty for the shipped pins."""


@dataclass(frozen=True)
class Compiled:
    """Graft that was compiled or taken from the cache."""

    identity: Identity
    pin: Pin
    product: Product


def compile_graft(request: GraftRequest) -> Compiled:
    """Compile a shared object that replaces the Gloo process group of a torch.

    Raises:
        OptionsError: no pin fits the torch, or a path cannot be used.
        TreeError: the source is of no known pin, or of another torch.
        ToolError: something could not be fetched or compiled, or the torch rejects the graft.
        FileError: a file cannot be read or written.
    """
    options, torch = request.options, request.torch
    pin, sources = gather(torch, request.source, request.known or pins.shipped(), request.origin)
    torch.require_header("ATen/ATen.h", request.environ)
    # Since 1.10 the process group uses devices through torch, without CUDA's headers.
    direct = any(b"USE_CUDA" in text for path, text in sources.items() if path.endswith(".cpp"))
    cuda = cudas.find(torch, request.cuda_home) if direct else None
    # Since 2.8 torch_cuda makes the works of CUDA tensors, with its own copy of the header.
    takes = torch.cuda is not None and not pin.header and (cuda is not None or not direct)
    if cuda is not None:
        message = "CUDA tensors too: headers of CUDA %s, torch's is %s"
        _LOGGER.info(message, cuda.version, torch.cuda)
    elif torch.cuda is not None and pin.header:
        _LOGGER.info("CPU tensors only: an allreduce of CUDA tensors stays with Gloo")
    elif torch.cuda is not None:
        _LOGGER.info("CUDA tensors too" if takes else cudas.advice(torch))
    made = identities.identify(torch, pin, options, cuda=takes)
    texts = project.files(options, pin, torch, cuda=cuda, identity=made, sources=sources)
    what = "ProcessGroupGloo.cpp and the delegate"

    def try_graft(library: str) -> None:
        _LOGGER.info("trying it: a process group in torch %s", torch.version)
        _attempt(library, torch, request.environ)

    product = native.get_or_build(
        native.Project(
            "graft-library", what, "graft.so", (render.LIBRARY,), texts,
            libraries=homes.list_libraries(options),
            inputs=(
                homes.stamp_homes(options), torch.stamps, cuda.version if cuda else None
            ),
        ),
        request.origin.cache, request.environ, try_graft,
    )  # fmt: skip
    return Compiled(made, pin, product)


def _attempt(library: str, torch: Torch, environ: Mapping[str, str]) -> None:
    """Load the graft, import torch, and sum in a group of one rank that uses Gloo."""
    with files.scratch("try") as directory:
        installing.place(directory)
        own = {
            **{name: value for name, value in environ.items() if not name.startswith("GLOO_")},
            **ALONE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWITCHML_DISABLE": "1",
            "SWITCHML_GRAFT": library,
            "SWITCHML_REQUIRE": "1",
        }
        command = [torch.python, "-", os.path.join(directory, "store")]
        with open(graft_trial.__file__, "rb") as file:
            trial = Program(command, directory, own, file.read())
        (ended,) = side_by_side([trial], limit=IMPORT_LIMIT)
    if ended.how:
        why = "".join(ended.last_lines(1)) or ended.how
        raise ToolError(f"{torch.python} does not take the graft: {why}", reason=why)
    mark = graft_trial.MARK.encode("ascii")
    answers = [line for line in ended.out.splitlines() if line.startswith(mark)]
    problem, group, value = json.loads(answers[-1][len(mark) :])
    if problem:
        raise ToolError(f"{torch.python} cannot open the graft's {render.LIBRARY}: {problem}")
    if not group or value != [1.0, 1.0, 1.0]:
        raise ToolError(
            f"the torch in {torch.root} goes on using its own process group, though the graft is "
            "loaded: its libraries were linked so that nothing can take their place (-Bsymbolic)"
        )


def provide(
    options: Options, torch: Torch, cache: str, environ: Mapping[str, str], directory: str
) -> tuple[dict[str, str], bool]:
    """Add a graft to an environment, as the plugin's `provide` adds a plugin.

    Raises:
        PatchgenError: as `compile_graft`.
        FileError: the directory cannot be written.
    """
    made = compile_graft(GraftRequest(options, torch, GraftOrigin(cache), environ)).product
    return installing.launching(made.path, directory, environ), made.new


def probe_grafted(
    library: str, title: str, python: str, environ: Mapping[str, str], directory: str
) -> tuple[dict[str, str], Installed]:
    """Add a graft to an environment, and probe its torch, with a single import.

    `title` names the graft in messages. `directory` is empty, and must be kept as long as the
    environment is used.

    Returns:
        The environment, and the torch as probed in it.

    Raises:
        TreeError: the graft cannot be read, or is for another torch.
        ToolError: the interpreter has no torch with Gloo, or does not load the graft.
        FileError: the directory cannot be written.
    """
    identity = identities.read(library)
    loading = installing.launching(library, directory, environ)
    installed = found = probe_torch(python, loading, headers=False)
    if installed.torch is None:  # find out whether the graft is the reason
        plain = {**environ, graft_hook.VARIABLE: "0"}
        found = probe_torch(python, plain, headers=False)
    unfit = identities.misfit(identity, found.require_gloo().root)
    if unfit:
        raise TreeError(f"{title}: {unfit}")
    installed.require_report(GRAFT, title)
    return loading, installed


def build(request: GraftRequest, output: str) -> Identity:
    """Write a graft, which replaces `output` atomically, with its provenance and SBOM.

    Raises:
        PatchgenError: as `compile_graft`.
        FileError: the output cannot be written.
    """
    from patchgen.core import sbom  # noqa: PLC0415  # imports CycloneDX

    made = compile_graft(request)
    if not made.product.new:
        _LOGGER.info("taking the compiled graft from the cache")
    beside = os.path.join(os.path.dirname(output), render.LIBRARY)
    with file_errors(), outputs.directory(os.path.dirname(output)):
        installing.copy(made.product.path, output)
        built = made.product.built
        described = provenance.describe(
            provenance.GRAFT, output, request.options, request.torch, built,
            request={"pin": {"name": made.pin.name, "commit": made.pin.commit}},
            sources=(statement.describe_commit(SOURCE, PYTORCH, made.pin.commit),),
            beside=(beside,),
        )  # fmt: skip
        statement.write(output, described)
        found = sbom.find_libraries([output, beside], request.environ)
        torch = sbom.find_torch(request.torch.root, request.environ)
        content = sbom.compose(described, found, os.path.basename(output), torch=torch)
        files.replace(os.fsencode(output + statement.SBOM_SUFFIX), content)
    return made.identity
