"""What is here for a build, what is missing, and what to do. Changes nothing.

Rows whose name begins with `run:` are about what a run needs: they are told, and no build fails for
them. So are rows about what a build can do without.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.errors import ToolError
from patchgen.patch.limits import Limits
from patchgen.system import files, threads
from patchgen.system.paths import native
from patchgen.wheel.check import (
    blas,
    config,
    configure,
    environment,
    homes,
    hugepages,
    link,
    programs,
    python,
    room,
)
from patchgen.wheel.check.accepted import ACCEPTABLE
from patchgen.wheel.check.site import Site, lines
from patchgen.wheel.check.tools import Tools

if TYPE_CHECKING:
    from patchgen.options import Options
    from patchgen.patch.pins import Pin

__all__ = ["Site", "default_work", "run"]

_CONDA, _CONDA_CUDA = 3, 6  # GiB of an environment


def default_work(pin: Pin) -> str:
    """Where a build is made, unless the user says otherwise: a fixed path, for equal wheels."""
    return f"/var/tmp/switchml-patch/{pin.version}"  # noqa: S108  # survives a reboot; not secret


def run(options: Options, pin: Pin, site: Site) -> list[Check]:
    """Checks everything that a build needs, then what a run needs.

    Args:
        options: the flags and homes.
        pin: what is to be built.
        site: where, and with what.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    limits = Limits(f"PyTorch {pin.version}", pin.recipe.limits)
    conda = None if site.python else environment.look(site)
    tools = Tools(site, limits, conda)
    client = homes.client(options)
    simulator = client.archive is not None and client.archive.simulator
    asked = [programs.compiler, programs.cmake, programs.ninja, programs.git, programs.nvcc]
    if conda and not conda.packages:
        asked = [programs.git]  # the others come with an environment that nothing is known of
    with (
        files.scratch("check") as directory,
        ThreadPoolExecutor() as pool,
        contextlib.ExitStack() as ends,
    ):
        ends.callback(tools.stop)  # before the pool waits for its threads: Ctrl-C ends all of them
        rows = [pool.submit(one, tools) for one in asked]
        interpreter = pool.submit(python.rows, tools)
        configured = pool.submit(_linked, options, pin, client, tools, directory)
        for ended in threads.as_completed([interpreter, configured, *rows]):
            ended.result()
        checks = [client.check, *configured.result(), *(row.result() for row in rows)]
        checks += interpreter.result()
    checks.append(python.tool())
    if conda:
        checks.append(conda.check)
    takes = 0 if conda is None or conda.prefix else _CONDA_CUDA if tools.cuda else _CONDA
    checks += [room.memory(pin.recipe), room.disk(pin.recipe, site, takes)]
    told, found = config.check(site, client.archive, os.uname().nodename)
    if options.grpc and not simulator:
        driver = homes.driver(options)
        checks += [driver] if driver else []
        checks.append(hugepages.check(found if options.dpdk else None))
    return [_counted(check, site) for check in (*checks, told)]


def _counted(check: Check, site: Site) -> Check:
    """A row that does not count where the user accepts what it says."""
    for name in site.accepted:
        if check.name == ACCEPTABLE[name] and not check.ok:
            found = ", ".join(filter(None, [check.found, f"accepted by --accept {name}"]))
            return replace(check, found=found, required=False)
    return check


def _linked(
    options: Options, pin: Pin, client: homes.Client, tools: Tools, directory: str
) -> list[Check]:
    """What switchml.cmake says of the homes, and of what is compiled and linked with them."""
    archive = client.archive
    simulator = archive is not None and archive.simulator
    said, failed = None, []
    try:
        said = configure.listen(options, pin, tools, directory) if tools.cmake else None
    except ToolError as error:
        failed = [Check("libraries", (*lines(error), "see the rows about cmake and the compiler"))]
    numbers = blas.row(tools, said)
    checks = [homes.built(archive, said)] if archive else []
    links = None if simulator else homes.links(options)
    if links:
        checks.append(links)
    elif not simulator:
        checks += [homes.dpdk(options, said)] if options.dpdk else []
        checks += [homes.grpc(options, said)] if options.grpc else []
    last = [numbers] if numbers else []
    if said is None:
        return [*checks, *failed, *last]
    if tools.has_compiler:
        conda = tools.locked_gcc is not None
        compiled = link.headers(said, conda=conda) if archive and client.headers else None
        whole = compiled is not None and compiled.ok and not said.missing and not said.modules
        return [
            *checks,
            *([compiled] if compiled else []),
            link.libraries(said, whole=whole, conda=conda),
            *last,
        ]
    if not tools.locked_gcc:
        return [*checks, *last]
    places = (options.switchml_home, options.dpdk_home)
    directories = [f"{native(home)}/lib" for home in places if home]
    locked = link.in_lock(said.libraries, directories, tools, simulator=simulator)
    return [*checks, locked, *last]
