"""Cases for torches that have device meshes."""

import warnings

import torch
import torch.distributed as dist
from cases import RANK, WORLD, calls, check_sum, everyone, start
from plugin_cases import model, same_everywhere, train
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.nn.parallel import DistributedDataParallel


def meshes(switchml):
    """Use device meshes, functional collectives, and FullyShardedDataParallel's allreduces."""
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
    before = switchml.report()
    train(pieces)
    after = switchml.report()
    delegated = after["calls"] - before["calls"]
    elsewhere = after["fallbacks"]["group"] - before["fallbacks"]["group"]
    shared = rows.get_group("replicate") is dist.group.WORLD  # an older torch makes a new group
    assert (delegated, elsewhere) == ((4, 0) if shared else (0, 4)), after
    assert torch.allclose(whole_weights(pieces), reference, atol=1e-5)


def whole_weights(sharded):
    return torch.cat([p.full_tensor().detach().flatten() for p in sharded.parameters()])


def check_counted(switchml, parallel, numel):
    """Train for 4 steps, with a sum of all `numel` gradients in each."""
    before = switchml.report()
    train(parallel)
    after = switchml.report()
    assert after["calls"] - before["calls"] == 4, after
    assert after["bytes"] - before["bytes"] >= 4 * 4 * numel, after


def sharded(switchml):
    """Train with both kinds of FullyShardedDataParallel: a reduce-scatter of all gradients."""
    warnings.simplefilter("ignore")
    start()
    reference = same_everywhere(train(DistributedDataParallel(model())))
    numel = sum(p.numel() for p in model().parameters())

    first = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    check_counted(switchml, first, numel)
    with FullyShardedDataParallel.summon_full_params(first):
        weights = torch.cat([p.detach().flatten() for p in first.parameters()])
        assert torch.allclose(weights, reference, atol=1e-5)

    second = model()
    fully_shard(second)
    check_counted(switchml, second, numel)
    assert torch.allclose(whole_weights(second), reference, atol=1e-5)

    halves = model()
    fully_shard(halves, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16))
    check_counted(switchml, halves, numel)
    assert torch.allclose(whole_weights(halves), reference, atol=1e-2)
    assert sum(switchml.report()["fallbacks"].values()) == 0, switchml.report()


def hybrid(switchml):
    """Shard within two hosts of two ranks; SwitchML sums equal shards between the hosts."""
    warnings.simplefilter("ignore")
    start()
    reference = same_everywhere(train(DistributedDataParallel(model())))
    assert calls(switchml) == 0, switchml.report()
    pieces = model()
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(pieces, mesh=mesh)
    check_counted(switchml, pieces, sum(p.numel() for p in model().parameters()) // 2)
    assert torch.allclose(whole_weights(pieces), reference, atol=1e-5)
