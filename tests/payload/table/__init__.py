"""torch.distributed's documented functions, as cells that run in turn on every rank.

A cell's outcome is its result, or the type of its exception. It depends neither on time nor on the
order in which floats are added.
"""

import importlib
import json
import os

import torch
import torch.distributed as dist

from table.common import CELLS, SETTING, begin, plain, rank

for _name in (
    "matrix",
    "point_to_point",
    "all_reduce",
    "collectives",
    "groups",
    "training",
    "backends",
    "starting",
    "broken",
):
    importlib.import_module(f"table.{_name}")


def outcome(function):
    try:
        return ["returned", plain(function())]
    except Exception as error:
        return ["raised", type(error).__name__]


def run(switchml, directory, ports=(), only=None, without=()):
    """Write the outcome of every cell to a file, and its number of SwitchML's allreduces.

    Cells with one of the words `without` in their name are left out.
    """
    SETTING.update(directory=directory, ports=ports)
    begin()
    number = rank()
    cells = {}
    for name in only or CELLS:
        if not {*name.split()}.isdisjoint(without):
            continue
        before = (switchml.report() or {}).get("calls", 0)
        answer = outcome(CELLS[name])
        cells[name] = [*answer, (switchml.report() or {}).get("calls", 0) - before]
    with open(os.path.join(directory, f"{number}.json"), "w", encoding="utf-8") as file:
        json.dump({"cells": cells, "report": switchml.report()}, file)
    if only is None:
        os._exit(0)  # torch 1.13 waits for ever for the broken groups
    dist.destroy_process_group()
    return {}


def spawned_rank(number, world_size, configs, arguments):
    os.environ.update(
        RANK=str(number),
        WORLD_SIZE=str(world_size),
        SWITCHML_CONFIG=os.path.join(configs, str(number), "switchml.cfg"),
    )
    run(__import__("worker").load_report_module(), **arguments)


def spawn(switchml, world_size, configs, **arguments):
    """Start the ranks as children of this process."""
    torch.multiprocessing.spawn(
        spawned_rank, args=(world_size, configs, arguments), nprocs=world_size
    )
    return {}
