"""Part of torch.distributed.distributed_c10d whose groups sum nothing."""

import os

made = []  # backends of groups, and the configurations of the time


class ProcessGroupGloo:
    pass


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
    made.append((backend, os.environ.get("SWITCHML_CONFIG")))


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def get_backend(group=None):
    return made[-1][0]


def barrier():
    assert made


def destroy_process_group(group=None):
    return group
