"""Configurations of the ranks: the switchml.cfg of each."""

from __future__ import annotations

import os

from patchgen.core.library import config
from patchgen.extras.lab.lab import Lab
from patchgen.extras.train.job import Job
from patchgen.system.ports import free_port

_TRUE = {"true", "yes", "on", "1"}  # for boost::program_options


def describe_switch(job: Job) -> str:
    """Describes a simulated switch: which process adds.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    adder = "rank 0's process adds"
    if not job.configs:
        # The command may name another file for its ranks, which is not known before.
        unless = "" if job.workers else ", unless the command has its own switchml.cfg"
        return f"the switch is simulated: {adder}, over TCP on this machine{unless}"
    try:
        values = config.parse(config.load(job.configs[0]))
    except ValueError:  # the ranks say what is wrong with it
        return "the switch is simulated"
    if values.get("backend.simulator.external_aggregator", "").lower() in _TRUE:
        adder = "an aggregator of its own adds"
    host = values.get("general.controller_ip", "127.0.0.1")
    port = values.get("general.controller_port", config.DEFAULT_PORT)
    return f"the switch is simulated: {adder}, at {host}:{port}"


def choose_configs(job: Job, lab: Lab | None, directory: str, *, simulated: bool) -> list[str]:
    """Chooses the configurations of ranks: one for each, one for all, or none.

    Args:
        job: job of the ranks.
        lab: software switch that they are around; None: there is none.
        directory: where one that has to be made is written.
        simulated: the switch is the simulator.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    if lab is not None:
        text = lab.config
    elif len(job.configs) == 1 and job.workers != 1:
        text = config.without_numbers(config.load(job.configs[0]))
    elif job.configs or not simulated:
        return [*job.configs]
    else:
        text = config.compose_simulated(controller_port=free_port())
    path = os.path.join(directory, config.NAME)
    config.save(path, text)
    return [path]
