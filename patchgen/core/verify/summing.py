"""Sums of several ranks on loopback: through Gloo alone, then through SwitchML."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from patchgen.core.library import config
from patchgen.core.verify.subject import Answer, Event, Subject, run
from patchgen.system.checks import Check, find_failed
from patchgen.system.ports import free_port

_LOGGER = logging.getLogger(__name__)
_DEFAULT = 2  # ranks
_SHOWN = 3  # last output lines of a rank that ended early
STEPS = {
    "delegate": "the ranks through SwitchML",
    "float32": "sums of float32",
    "int32": "sums of int32",
    "counters": "counters",
    "fallback": "fallback",
    "train": "training",
    "again": "destroyed and made again",
}
"""Names of the checks with SwitchML, by step; `ranks` names the first."""
END = "the end of the ranks"
SIMULATED = "the switch is the simulator"
_ALONE = {"matmul": "matrix product", "svd": "singular values"}
_NO_DUMMY = "with a library that has no dummy backend, give --config FILE for each rank"
_DUMMY = (
    "the path through the library's dummy backend, not a switch; to test that, give --config FILE "
    "for each rank on the real machines"
)


def check(  # noqa: PLR0913  # all are independent
    subject: Subject,
    variant: str,
    configs: Sequence[str],
    *,
    simulated: bool,
    cause: str = "",
    may_crash: bool = False,
) -> list[Check]:
    """Start the ranks and check their sums, first without SwitchML.

    Args:
        subject: a torch with SwitchML.
        variant: variant, one of `core.torch`'s TORCH, GRAFT and PLUGIN.
        configs: switchml.cfg of each rank; empty: two ranks with generated ones.
        simulated: the client library is the simulator.
        cause: known cause of failures at the exit of a rank that has trained.
        may_crash: accept failures for that cause.

    Raises:
        FileError: the scratch directory cannot be written.
    """
    world = len(configs) or _DEFAULT
    dummy = not configs and not simulated
    backend = ", dummy backend" if dummy else ""
    _LOGGER.info("%s%s", ranks(world, "without and through"), backend)
    files = list(configs) or _write_configs(subject.scratch, world, dummy=dummy)
    own = [{"SWITCHML_CONFIG": os.path.abspath(path)} for path in files]
    if dummy:
        own = [{**one, "SWITCHML_ALLOW_FAKE_SUMS": "1"} for one in own]
    names = {**_ALONE, "gloo": ranks(world, "without")}
    shared = {"variant": variant, "steps": [*names, *STEPS], "world": world, "equal": dummy}
    jobs = [{**shared, "rank": rank, "timeout": subject.limit / 2} for rank in range(world)]
    answers = run(subject, f"ranks-{variant}", jobs, own)
    checks = merge_answers(answers, names)
    before = checks[: len(names)]  # without the end of the ranks, which is the last check
    if find_failed(before):
        return checks
    names = {**STEPS, "delegate": ranks(world)}
    note = _DUMMY if dummy else SIMULATED if simulated else None
    delegated = merge_answers(answers, names, note, cause)
    if dummy and not delegated[0].ok:
        delegated[0] = replace(delegated[0], problems=(*delegated[0].problems, _NO_DUMMY))
    if may_crash and cause and cause in delegated[-1].problems:
        delegated[-1] = replace(delegated[-1], required=False)
    return [*before, *delegated]


def ranks(world: int, how: str = "through") -> str:
    """Return the name of the check that the ranks join a group and sum."""
    return f"{world} rank{'' if world == 1 else 's'} {how} SwitchML"


def merge_answers(
    answers: Sequence[Answer], names: Mapping[str, str], note: str | None = None, cause: str = ""
) -> list[Check]:
    """Merge the answers of all ranks into checks, up to the first step that a rank missed.

    Args:
        answers: answers by rank.
        names: names of the checks by step.
        note: note of the first step, instead of what rank 0 found.
        cause: known cause of failures at the exit of the ranks.
    """
    checks: list[Check] = []
    for step, name in names.items():
        events = [answer.events.get(step) for answer in answers]
        found = [_problems(answer, event) for answer, event in zip(answers, events)]
        result = (events[0] or {}).get("found", "") if note is None else note
        required = not all((event or {}).get("optional") for event in events)
        checks.append(Check(name, _label_lines(found), "" if any(found) else result, required))
        note = None
        if any(event is None or event.get("last") for event in events):
            return checks
    ends = [[answer.ended.how] if answer.ended.how else [] for answer in answers]
    problems = _label_lines(ends)
    causes = (cause,) if problems and cause else ()
    return [*checks, Check(END, (*problems, *causes))]


def _write_configs(scratch: str, world: int, *, dummy: bool) -> list[str]:
    port = None if dummy else free_port()
    paths = []
    for rank in range(world):
        path = os.path.join(scratch, f"switchml-{rank}.cfg")
        config.save(path, config.compose_dummy(rank, world, port))
        paths.append(path)
    return paths


def _problems(answer: Answer, event: Event | None) -> list[str]:
    if event is None:
        how = answer.ended.how or "ended before"
        return [how, *(f"its output: {line}" for line in answer.ended.last_lines(_SHOWN))]
    error = [event["error"].splitlines()[0]] if "error" in event else []
    return [*event.get("problems", []), *error]


def _label_lines(found: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Prefix lines with their rank, unless all ranks report the same."""
    if all(own == found[0] for own in found):
        return tuple(found[0])
    return tuple(f"rank {rank}: {line}" for rank, own in enumerate(found) for line in own)
