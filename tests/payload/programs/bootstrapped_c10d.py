"""Part of torch.distributed.distributed_c10d as the bootstrap uses."""

import os

made = []


class Backend(str):
    UNDEFINED = "undefined"


class BackendConfig:
    def __init__(self, backend):
        self.map = {"cpu": "gloo", "cuda": "nccl"}

    def get_device_backend_map(self):
        return self.map


def is_nccl_available():
    return "NCCL" in os.environ


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
    made.append((backend, os.environ.get("SWITCHML_CONFIG")))


def new_group(ranks=None, timeout=None, backend=None):
    made.append((backend, ranks))


def destroy_process_group(group=None):
    return group


def get_backend(group=None):
    return Backend(made[0][0])


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])
