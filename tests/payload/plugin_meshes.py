"""What only a torch has that knows device meshes."""

import warnings

import torch
import torch.distributed as dist
from cases import RANK, WORLD, calls, check_sum, everyone, finish, start
from plugin_cases import model, same_everywhere, train
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.nn.parallel import DistributedDataParallel


def meshes(switchml):
    """Device meshes, functional collectives, and the allreduces of FullyShardedDataParallel."""
    warnings.simplefilter("ignore")
    start()
    mesh = init_device_mesh("cpu", (WORLD,))
    tensors = everyone(1000, torch.float32)
    partial = DTensor.from_local(tensors[RANK].clone(), mesh, [Partial()])
    check_sum(partial.redistribute(placements=[Replicate()]).to_local(), tensors)
    check_sum(functional.all_reduce(tensors[RANK].clone(), "sum", mesh).clone(), tensors)
    assert calls(switchml) == 2, switchml.report()

    reference = same_everywhere(train(DistributedDataParallel(model())))
    before = calls(switchml)
    whole = FullyShardedDataParallel(
        model(), sharding_strategy=ShardingStrategy.NO_SHARD, device_id=torch.device("cpu")
    )
    weights = same_everywhere(train(whole))
    assert calls(switchml) > before, switchml.report()
    assert torch.allclose(weights, reference, atol=1e-5)

    pieces = model()
    rows = init_device_mesh("cpu", (WORLD, 1), mesh_dim_names=("replicate", "shard"))
    fully_shard(pieces, mesh=rows)
    pieces.set_force_sum_reduction_for_comms(True)  # else ReduceOp.AVG, which is Gloo's
    before = switchml.report()
    train(pieces)
    after = switchml.report()
    delegated = after["calls"] - before["calls"]
    elsewhere = after["fallbacks"]["group"] - before["fallbacks"]["group"]
    shared = rows.get_group("replicate") is dist.group.WORLD  # in an older torch it is another one
    assert (delegated, elsewhere) == ((4, 0) if shared else (0, 4)), after
    weights = torch.cat([p.full_tensor().detach().flatten() for p in pieces.parameters()])
    assert torch.allclose(weights, reference, atol=1e-5)
    return finish(switchml)
