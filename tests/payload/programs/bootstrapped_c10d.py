"""Part of torch.distributed.distributed_c10d as the bootstrap uses."""

import os

made = []


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
    made.append((backend, os.environ.get("SWITCHML_CONFIG")))


def destroy_process_group(group=None):
    return group


def get_backend(group=None):
    return made[0][0]


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])
