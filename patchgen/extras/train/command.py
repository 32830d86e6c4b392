"""Command of the ranks, and the interpreter whose torch they import."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence

from patchgen.errors import OptionsError
from patchgen.system import interpreter, paths

DEFAULT = "python3"
_PYTHON = re.compile(r"python[0-9.]*")
# Variables that a launcher sets in each rank, and variables with the number of its processes.
# SLURM_NTASKS is not among them, because SLURM sets it in batch scripts too.
_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SIZES = {
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "MV2_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpirun",
    "SLURM_STEP_NUM_TASKS": "srun",
}
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def resolve_command(
    command: Sequence[str], torch: str | None, cwd: str, environ: Mapping[str, str]
) -> tuple[list[str], str]:
    """Resolve the command and its interpreter to paths.

    The command is PYTHON ARGUMENT..., SCRIPT.py ARGUMENT..., or a program. The interpreter `torch`,
    if the user named one, must not contradict it.

    Returns:
        The command, and the path of the interpreter.

    Raises:
        OptionsError: the script, program or interpreter does not exist.
    """
    program, arguments = command[0], list(command[1:])
    if _PYTHON.fullmatch(os.path.basename(program)):
        python = interpreter.locate(program)
        if torch is not None and interpreter.locate(torch) != python:
            raise OptionsError(f"--torch {torch}: the command has {program}; drop one of them")
        _check(find_script(arguments), cwd)
        return [python, *arguments], python
    python = interpreter.locate(torch or DEFAULT)
    if program.endswith(".py"):
        _check(program, cwd)
        return [python, program, *arguments], python
    found = shutil.which(program, path=environ.get("PATH"))
    if found is None:
        raise OptionsError(
            f"{paths.describe(program)}: no such program; give python SCRIPT ARGUMENT..."
        )
    return [os.path.abspath(found), *arguments], python


def find_script(arguments: Sequence[str]) -> str | None:
    """Return the script among an interpreter's arguments; None for -m, -c and stdin."""
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, None)
        elif re.match(r"-[a-zA-Z]*[mc]|-$", argument):
            return None
        elif not argument.startswith("-"):
            return argument
    return None


def _check(script: str | None, cwd: str) -> None:
    if script is not None and not os.path.exists(os.path.join(cwd, script)):
        raise OptionsError(f"{paths.describe(script)}: no such file in {paths.describe(cwd)}")


def warn_of_launcher(environ: Mapping[str, str], workers: int) -> Iterator[str]:
    """Yield a warning if a launcher started this command: its processes do not sum together."""
    names = [name for name in _RANK if name in environ]
    sizes = {
        program: size
        for name, program in _SIZES.items()
        if (size := environ.get(name, "")).isdigit() and int(size) > 1
    }
    found = [f"{program} has started {size} of this command" for program, size in sizes.items()]
    if names:
        found.append(f"{', '.join(names)} of another launcher: overridden for the ranks")
    if found:
        ranks = (
            "1 rank, which has no other to sum with"
            if workers == 1
            else f"{workers} ranks of its own"
        )
        yield f"warning: {'; '.join(found)}; each run starts {ranks}"
        yield "  a launcher starts the script itself, with the plugin installed: docs/cluster.md"
