"""A rank behind a link of its own: times allreduces, and a training, in several ways.

python network_rank.py OPTIONS, as JSON: numel, rounds, bits (of the ways with fewer than 32), steps
of a training (0: none), training_bits, racks. Rank 0 prints what was found, as JSON. The default
group is SwitchML's, and a second one is stock Gloo. With racks, hierarchical_hook's groups take the
place of SwitchML's.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn
import torch_switchml
import train  # the demo's script
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

WARM = 2  # rounds and steps that are not timed
IMAGES = 8  # of a step, on each rank
TINY = 20  # rounds of an allreduce of one value
BUCKETS = 4  # of DistributedDataParallel, as which the quantized tensor comes


class Bucket:
    """Bucket of a communication hook: one of several equal parts of a tensor."""

    def __init__(self, layer, index):
        self.layer, self.number = layer, index

    def buffer(self):
        return self.layer

    def gradients(self):
        return [self.layer]

    def parameters(self):
        return [self.layer]

    def index(self):
        return self.number

    def is_last(self):
        return self.number == BUCKETS - 1


class Ways:
    """Ways to sum or average a tensor."""

    def __init__(self, numel, bits, racks):
        self.stock = dist.new_group(backend="gloo")
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.source = torch.rand(numel, generator=torch.Generator().manual_seed(1)) - 0.5
        self.tensor = torch.empty(numel)
        self.buckets = [Bucket(part, n) for n, part in enumerate(self.tensor.chunk(BUCKETS))]
        self.states = {each: torch_switchml.QuantizedState(bits=each) for each in bits}
        self.one = torch.zeros(1)
        self.racks = torch_switchml.HierarchicalState() if racks else None

    def names(self):
        return ["gloo", "racks" if self.racks else "float32", *map(str, self.states)]

    def switched(self, tensor):
        """Sums or averages through SwitchML alone."""
        if self.racks:
            self.racks.average(tensor).wait()
        else:
            dist.all_reduce(tensor)

    def together(self):
        dist.all_reduce(self.one.zero_(), group=self.stock)

    def reduce(self, name):
        """The seconds of one allreduce on this rank; the result must be right."""
        torch.mul(self.source, self.rank + 1, out=self.tensor)
        self.together()
        begun = time.perf_counter()
        if name == "gloo":
            dist.all_reduce(self.tensor, group=self.stock)
        elif name in {"float32", "racks"}:
            self.switched(self.tensor)
        else:
            state = self.states[int(name)]
            futures = [torch_switchml.quantized_hook(state, one) for one in self.buckets]
            for future in futures:
                future.wait()
        seconds = time.perf_counter() - begun
        self.check(name)
        return seconds

    def check(self, name):
        total = self.world * (self.world + 1) / 2
        if name in {"gloo", "float32"}:
            wrong, allowed = (self.tensor - self.source * total).abs().max(), 1e-5 * total
        elif name == "racks":
            wrong, allowed = (self.tensor - self.source * (total / self.world)).abs().max(), 1e-5
        else:  # the mean; each rank rounds by at most half a step of the largest value of all
            wrong = (self.tensor - self.source * (total / self.world)).abs().max()
            allowed = 0.51 * (self.world * 0.5) / (2 ** (int(name) - 1) - 1)
        if not wrong <= allowed:
            raise SystemExit(f"{name}: wrong by {wrong:g}, and rounding explains {allowed:g}")


def longest(seconds, group):
    """Longest time of all ranks, for each round."""
    found = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX, group=group)
    return found.tolist()


def timed(ways, rounds):
    """Seconds of each round by way; the ways take turns."""
    found = {name: [] for name in ways.names()}
    for number in range(WARM + rounds):
        for name, seconds in found.items():
            one = ways.reduce(name)
            if number >= WARM:
                seconds.append(one)
    return {name: longest(seconds, ways.stock) for name, seconds in found.items()}


def latency(ways, reduce):
    """Seconds of an allreduce of one value."""
    seconds = []
    for _ in range(TINY):
        ways.together()
        begun = time.perf_counter()
        reduce(ways.one.zero_())
        seconds.append(time.perf_counter() - begun)
    return statistics.median(longest(seconds, ways.stock))


def network():
    """The demo's network with wider layers: 2.1 million weights."""
    layers = list(train.network())
    wide = [nn.Linear(512, 2048), nn.Tanh(), nn.Linear(2048, 512), nn.Tanh(), nn.Linear(512, 10)]
    return nn.Sequential(*layers[:7], *wide)


def trained(ways, name, steps):
    """Steps a second of a training, and its weights."""
    torch.manual_seed(0)
    model = DistributedDataParallel(network(), process_group=ways.stock if name == "gloo" else None)
    if name not in {"gloo", "float32"}:
        state = torch_switchml.QuantizedState(bits=int(name), error_feedback=True)
        model.register_comm_hook(state, torch_switchml.quantized_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    count = IMAGES * (WARM + steps)
    images, digits = train.draw(count * ways.world, seed=1)
    images, digits = images[ways.rank :: ways.world], digits[ways.rank :: ways.world]
    for number, (batch, right) in enumerate(zip(images.split(IMAGES), digits.split(IMAGES))):
        if number == WARM:
            ways.together()
            begun = time.perf_counter()
        optimizer.zero_grad()
        functional.cross_entropy(model(batch), right).backward()
        optimizer.step()
    ways.together()
    seconds = time.perf_counter() - begun
    return steps / max(longest([seconds], ways.stock))


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo" if options["racks"] else "switchml")
    ways = Ways(options["numel"], options["bits"], options["racks"])
    found = {
        "seconds": timed(ways, options["rounds"]),
        "latency": {
            "gloo": latency(ways, lambda one: dist.all_reduce(one, group=ways.stock)),
            "switchml": latency(ways, ways.switched),
        },
    }
    if options["steps"]:
        names = ["gloo", "float32", *map(str, options["training_bits"])]
        found["steps"] = {name: trained(ways, name, options["steps"]) for name in names}
        found["weights"] = sum(one.numel() for one in network().parameters())
    found["calls"] = torch_switchml.report()["calls"]
    if ways.rank == 0:
        sys.stdout.write("RESULT " + json.dumps(found) + "\n")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
