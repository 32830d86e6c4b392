"""Start and end, again and again."""

import gc
import os

import torch.distributed as dist

from table.common import SETTING, TIMEOUT, begin, cell, own_tensor, rank, world


def facts():
    tensor = own_tensor()
    dist.all_reduce(tensor)
    return [tensor, dist.get_rank(), dist.get_world_size(), dist.get_backend()]


def again(**how):
    gc.collect()  # models in reference cycles hold a group, which would still delegate
    dist.destroy_process_group()
    try:
        begin(**how)
    except Exception:
        begin_elsewhere()
        raise
    return facts()


def begin_elsewhere():
    """Start over a file that no rank has used yet. All ranks call this equally often.

    Waits for all ranks, because Gloo fails if a rank ends its group while another still connects.
    """
    SETTING["starts"] += 1
    begin(**place(f"fallback-{SETTING['starts']}"))
    dist.barrier()


def place(name):
    return {"init_method": f"file://{SETTING['directory']}/{name}", **own()}


def own():
    return {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}


@cell
def init_with_file():
    return again(**place("init_with_file"))


@cell
def init_with_tcp():
    method = f"tcp://127.0.0.1:{SETTING['ports'][0]}"
    return again(init_method=method, **own())


@cell
def init_with_env():
    os.environ["MASTER_PORT"] = str(SETTING["ports"][1])
    return again()


@cell
def init_with_file_store():
    path = os.path.join(SETTING["directory"], "store")
    return again(store=dist.FileStore(path, world()), **own())


@cell
def init_with_tcp_store():
    store = dist.TCPStore("127.0.0.1", SETTING["ports"][2], world(), rank() == 0, TIMEOUT)
    return again(store=store, **own())


@cell
def init_with_prefix_store():
    path = os.path.join(SETTING["directory"], "prefixed")
    store = dist.PrefixStore("prefix", dist.FileStore(path, world()))
    return again(store=store, **own())


@cell
def init_with_a_hash_store_each():
    dist.destroy_process_group()
    try:
        begin(store=dist.HashStore(), rank=0, world_size=1)
        answer = facts()
        dist.destroy_process_group()
    finally:
        begin_elsewhere()
    return answer


@cell
def init_with_store_and_method():
    return again(store=dist.HashStore(), init_method="env://", **own())


@cell
def init_with_unknown_method():
    return again(init_method="pigeon://", **own())


@cell
def init_twice():
    begin()


@cell
def init_after_destroy():
    dist.destroy_process_group()
    before = dist.is_initialized()
    raised = []
    for function in (dist.get_rank, dist.barrier, dist.destroy_process_group):
        try:
            function()
        except Exception as error:
            raised.append(type(error).__name__)
    begin(**place("init_after_destroy"))
    return [before, raised, dist.is_initialized(), facts()]
