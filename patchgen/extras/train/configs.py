"""Configurations of the ranks: the switchml.cfg of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen.core.library import config
from patchgen.errors import OptionsError
from patchgen.extras.lab.lab import cpus
from patchgen.extras.train.ways import STOCK
from patchgen.system import paths
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.extras.lab.lab import Lab, RemoteLab
    from patchgen.extras.train.job import Job, Setup

_TRUE = {"true", "yes", "on", "1"}  # for boost::program_options


@dataclass(frozen=True)
class Configs:
    """Configurations that the user named: one for each rank, or one to fill in."""

    files: tuple[str, ...] = ()
    text: str = ""
    """Text of the first file."""
    values: Mapping[str, str] | None = None
    """Values of the first file; None where the client library would refuse it."""

    def check(self, workers: int) -> None:
        """Compares their number with that of the ranks.

        Raises:
            OptionsError: it does not fit.
        """
        if len(self.files) > 1 and workers not in (0, len(self.files)):
            raise OptionsError(
                f"{len(self.files)} configurations for {workers} ranks; give one for each rank, "
                "or one in which the rank is filled in"
            )

    def describe_switch(self, workers: int) -> str:
        """Describes a simulated switch: which process adds.

        Args:
            workers: ranks to start; 0 where the command starts its own.
        """
        adder = "rank 0's process adds"
        if not self.files:
            # The command may name another file for its ranks, which is not known before.
            unless = "" if workers else ", unless the command has its own switchml.cfg"
            return f"the switch is simulated: {adder}, over TCP on this machine{unless}"
        if self.values is None:  # the ranks say what is wrong with it
            return "the switch is simulated"
        if self.values.get("backend.simulator.external_aggregator", "").lower() in _TRUE:
            adder = "an aggregator of its own adds"
        host = self.values.get("general.controller_ip", "127.0.0.1")
        port = self.values.get("general.controller_port", config.DEFAULT_PORT)
        return f"the switch is simulated: {adder}, at {host}:{port}"


NO_CONFIGS = Configs()


def read_configs(files: Sequence[str]) -> Configs:
    """Reads the configurations that the user named.

    Raises:
        OptionsError: one cannot be read.
    """
    texts = [_read(path) for path in files]
    if not texts:
        return NO_CONFIGS
    try:
        values = config.parse(texts[0])
    except ValueError:
        values = None
    return Configs(tuple(files), texts[0], values)


def rank_configs(job: Job, setup: Setup, lab: Lab | RemoteLab | None = None) -> dict[str, Any]:
    """Configurations as the ranks take them: `files`, one for each, or a `template`, or neither."""
    own: dict[str, Any] = {"files": [], "template": None, "cpus": []}
    named = job.configs
    if lab is not None:
        return {**own, "template": lab.config, "cpus": cpus()}
    if setup.way == STOCK:
        return own
    if len(named.files) == 1 and job.workers != 1:
        return {**own, "template": config.make_template(named.text)}
    if named.files:
        return {**own, "files": [*named.files]}
    if setup.simulated:
        text = (
            config.compose_simulated(aggregator=setup.aggregator)
            if setup.aggregator
            else config.compose_simulated(controller_port=free_port())
        )
        return {**own, "template": config.make_template(text)}
    return own


def _read(path: str) -> str:
    try:
        return config.load(path)
    except OSError as error:
        name = paths.printable(paths.from_native(path))
        raise OptionsError(f"{name}: {error.strerror}; give a switchml.cfg") from error
