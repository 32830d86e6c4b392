"""What is here for a build, what is missing, and what to do. Changes nothing.

Rows whose name begins with `run:` are about what a run needs: they are told, and no build fails for
them. So are rows about what a build can do without.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from patchgen.build.check import config, environment, homes, hugepages, link, programs, python, room
from patchgen.build.check.site import Site
from patchgen.build.check.tools import Tools
from patchgen.patch.limits import Limits
from patchgen.system.paths import native

if TYPE_CHECKING:
    from patchgen.checks import Check
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
    """
    recipe = pin.recipe
    limits = Limits(f"PyTorch {pin.version}", recipe.limits)
    conda = None if site.python else environment.look(site)
    tools = Tools(site, limits, conda)
    client = homes.client(options)
    simulator = client.archive is not None and client.archive.simulator
    asked = [programs.compiler, programs.cmake, programs.ninja, programs.git, programs.nvcc]
    if conda and not conda.packages:
        asked = [programs.git]  # the others come with an environment that nothing is known of
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as ends:
        ends.callback(tools.stop)  # before the pool waits for its threads: Ctrl-C ends all of them
        rows = [pool.submit(one, tools) for one in asked]
        interpreter = pool.submit(python.rows, tools)
        linked = pool.submit(_linked, options, client, tools)
        checks = [*client.checks, *linked.result(), *(row.result() for row in rows)]
        checks += interpreter.result()
    if conda:
        checks.append(conda.check)
    takes = 0 if conda is None or conda.prefix else _CONDA_CUDA if tools.cuda else _CONDA
    checks += [room.memory(recipe), room.disk(recipe, site, takes)]
    told, found = config.check(site, client.archive, os.uname().nodename)
    if options.grpc and not simulator:
        driver = homes.driver(options)
        checks += [driver] if driver else []
        checks.append(hugepages.check(found if options.dpdk else None))
    return [*checks, told]


def _linked(options: Options, client: homes.Client, tools: Tools) -> list[Check]:
    """The homes of what the client library needs, and whether all of it compiles and links."""
    simulator = client.archive is not None and client.archive.simulator
    checks: list[Check] = []
    said: list[str] = []
    if options.dpdk and not simulator:
        checks.append(homes.dpdk(options))
    if options.grpc and not simulator:
        check, said = homes.grpc(options, tools)
        checks.append(check)
    wanted = link.needs(options, simulator=simulator, grpc=said)
    complete = client.archive is not None and all(check.ok for check in checks)
    if tools.locked_gcc and not tools.prefix:
        return [*checks, link.in_lock(wanted, tools, simulator=simulator)]
    unknown = tools.environment is not None and not tools.environment.packages
    if unknown or not tools.has_compiler:
        return checks
    if client.archive is not None and client.headers:
        checks.append(link.headers(options, client.archive, tools))
    home = native(options.switchml_home) if complete else None
    return [*checks, link.libraries(wanted if complete else wanted.alone, home, tools)]
