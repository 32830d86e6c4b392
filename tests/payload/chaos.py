"""Training of the chaos test: a network of docs/compression.md, restarted from its checkpoint.

Each sum is compared with the inputs of all ranks. A rank writes its steps to `progress`.
"""

import importlib
import itertools
import os
import struct
import sys
import zlib

import cases
import torch
import torch.distributed as dist
from cases import RANK, WORLD
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUCKET_MB = 0.1  # small, for several allreduces at once
CHECKED, SAVED = 4, 20  # steps between checks of the sums, and between checkpoints
INTEGERS = 5000
EXPLAINED = 3  # trainings with rounding errors


def networks():
    """Return builder, optimizer and batches of the networks of docs/compression.md."""
    sys.path.append(os.path.join(ROOT, "docs"))
    found = importlib.import_module("quantized").NETWORKS
    return {name.replace(",", " ").split()[0].lower(): parts for name, parts in found.items()}


def batches_from(network, rank, steps, first=0):
    return itertools.islice(networks()[network][2](rank, steps), first, None)


def make(network):
    torch.manual_seed(0)
    build, optimize = networks()[network][:2]
    model = build()
    return model, optimize(model.parameters())


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


# ---- undisturbed, without ranks --------------------------------------------------------------


def explain(switchml, network, steps, world):
    """Train in one process, write the weights, and return how far rounding may move them.

    The training is repeated with errors in each sum of gradients, as large as SwitchML's may be.
    """
    weights = train_alone(network, steps, world, None)
    weights.numpy().tofile("weights")
    spread = 0.0
    for seed in range(EXPLAINED):
        chance = torch.Generator().manual_seed(seed)
        other = train_alone(network, steps, world, chance)
        spread = max(spread, float((other - weights).abs().max()))
    return {"spread": spread}


def train_alone(network, steps, world, chance):
    model, optimizer = make(network)
    parameters = [*model.parameters()]
    for batches in zip(*(batches_from(network, rank, steps) for rank in range(world))):
        gradients = []
        for inputs, answers in batches:
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), answers).backward()
            gradients.append(flat(parameter.grad for parameter in parameters))
        total = cases.in_rank_order(gradients)
        if chance is not None:
            total += cases.bound(gradients) * (2 * torch.rand(len(total), generator=chance) - 1)
        total /= world
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, part in zip(parameters, total.split(sizes)):
            parameter.grad.copy_(part.view_as(parameter))
        optimizer.step()
    return flat(parameters)


# ---- the ranks -------------------------------------------------------------------------------


class Progress:
    """State of a rank: process, steps, SwitchML's calls, failovers, Gloo's calls, returns."""

    def __init__(self, switchml):
        self.switchml = switchml
        self.file = os.open("progress", os.O_RDWR | os.O_CREAT, 0o644)
        self.write(-1)

    def write(self, step):
        report = self.switchml.report()
        over = report["failover"]
        gloo = over["calls"] + report["fallbacks"]["group"]
        returns = over.get("returns", -1)  # this torch's delegate does not
        numbers = (os.getpid(), step, report["calls"], over["failovers"], gloo, returns)
        os.pwrite(self.file, struct.pack("6q", *numbers), 0)


def train(switchml, network, steps, checkpoint):
    """Train to the end, or until asked to end; return why the rank cannot go on."""
    progress = Progress(switchml)
    answer = {}
    try:
        answer["step"] = go_on(network, steps, checkpoint, progress)
    except RuntimeError as error:
        answer["failed"] = str(error)
    return cases.finish(switchml, **answer)


def go_on(network, steps, checkpoint, progress):
    model, optimizer = make(network)
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    cases.start()
    progress.write(step)
    parallel = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    sums = []
    parallel.register_comm_hook(sums, sum_bucket)
    for inputs, answers in batches_from(network, RANK, steps, step):
        optimizer.zero_grad()
        functional.cross_entropy(parallel(inputs), answers).backward()
        optimizer.step()
        check_integers(step)
        step += 1
        progress.write(step)
        if step % CHECKED == 0 or step == steps:
            check_sums(sums)
        ends = asked_to_end()
        if RANK == 0 and (ends or step % SAVED == 0):
            save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                 checkpoint)  # fmt: skip
        if ends:
            break
    weights = flat(model.parameters())
    cases.check_same(weights)
    weights.numpy().tofile("weights")
    dist.barrier()
    return step


def sum_bucket(sums, bucket):
    """Sum a bucket of gradients, and keep its input and sum."""
    mine = bucket.buffer()
    kept = [mine.clone(), None]
    sums.append(kept)  # in the order of the calls, which those of the ends may not be

    def average(future):
        total = future.value()[0]
        kept[1] = total.clone()
        return total / WORLD

    return dist.all_reduce(mine, async_op=True).get_future().then(average)


def check_integers(step):
    mine = torch.arange(INTEGERS, dtype=torch.int32) * (RANK + 1) + step
    dist.all_reduce(mine)
    factor = WORLD * (WORLD + 1) // 2
    expected = torch.arange(INTEGERS, dtype=torch.int32) * factor + WORLD * step
    assert torch.equal(mine, expected), f"step {step}: wrong integers"


def check_sums(sums):
    """Check kept sums: right within the fixed point's error, and the same on all ranks."""
    given = torch.cat([one for one, _ in sums])
    total = torch.cat([one for _, one in sums])
    everyone = [torch.empty_like(given) for _ in range(WORLD)]
    dist.all_gather(everyone, given)
    digest = torch.tensor([zlib.crc32(total.numpy().tobytes())])
    digests = [torch.empty_like(digest) for _ in range(WORLD)]
    dist.all_gather(digests, digest)
    assert len({int(one) for one in digests}) == 1, "ranks have other sums"
    begin = 0
    for one, _ in sums:
        end = begin + len(one)
        cases.check_sum(total[begin:end], [other[begin:end] for other in everyone], exact=False)
        begin = end
    sums.clear()


def asked_to_end():
    """Return whether rank 0 found the file that ends the training; the same on all ranks."""
    ending = torch.tensor([int(RANK == 0 and os.path.exists("end"))])
    dist.broadcast(ending, 0)
    return bool(ending)


def save(state, checkpoint):
    torch.save(state, checkpoint + ".part")
    os.replace(checkpoint + ".part", checkpoint)
