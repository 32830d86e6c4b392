"""What leaves a broken group behind: the last cells."""

import datetime as dt

import torch.distributed as dist

from table.common import cell, rank

SHORT = dt.timedelta(milliseconds=500)


@cell
def monitored_barrier_without_rank_1():
    group = dist.new_group()
    return None if rank() == 1 else dist.monitored_barrier(group, timeout=SHORT)


@cell
def monitored_barrier_without_rank_1_waits_for_all():
    group = dist.new_group()
    if rank() == 1:
        return None
    return dist.monitored_barrier(group, timeout=SHORT, wait_all_ranks=True)
