"""Part of torch.distributed.distributed_c10d whose groups sum nothing."""

import os


class ProcessGroupGloo:
    pass


def init_process_group(backend, init_method=None):
    global _backend
    _backend = backend


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def get_backend():
    return _backend


def barrier():
    assert _backend


def destroy_process_group():
    global _backend
    del _backend
