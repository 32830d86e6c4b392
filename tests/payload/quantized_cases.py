"""Cases of quantized sums that run in each rank."""

import copy
import importlib
import io
import json
import os
import pickle
import sys
import threading
import time
import warnings

import numpy as np
import torch
import torch.distributed as dist
from cases import HELD, RANK, TIMEOUT, WORLD, finish, raised, start
from plugin_cases import RELEASE, model, same_everywhere, train
from support import quantize_model
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
LAYERS = {"large": (7000,), "wide": (40, 30), "bias": (100,), "norm": (2000,), "tail": (1027,)}
POISONED = {1: ("large", 700, float("nan")), 2: ("tail", 1026, float("-inf"))}  # by step


class Chosen(torch.nn.Module):
    """Module whose gradients are the arguments of `forward`."""

    def __init__(self, dtype):
        super().__init__()
        for name, shape in LAYERS.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))

    def forward(self, gradients):
        return sum((getattr(self, name) * one).sum() for name, one in gradients.items())


def gradients(rank, step, dtype):
    """Return the gradients of a rank, by layer."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    found = {
        name: (torch.randn(shape, generator=generator) * 10.0 ** (rank - 1)).to(dtype)
        for name, shape in LAYERS.items()
    }
    if step in POISONED and rank == step % WORLD:
        name, place, value = POISONED[step]
        found[name].view(-1)[place] = value
    return found


def as_array(tensor):
    return tensor.detach().to(torch.float32).reshape(-1).numpy()


class Expected:
    """Results of a model of the quantization, from the gradients of all ranks."""

    def __init__(self, bucket, feedback, skip_incomplete, least):
        self.bucket, self.feedback = bucket, feedback
        self.skip_incomplete, self.least = skip_incomplete, least
        self.residuals = {}

    def means(self, name, bits, rows):
        """Return the means of a layer's rows, one row a rank."""
        numel = rows.shape[1]
        sent = numel - (numel % self.bucket if self.skip_incomplete else 0)
        if bits == 32 or numel < self.least:
            sent = 0
        result = rows.sum(axis=0) / np.float32(WORLD)
        if sent:
            values = rows[:, :sent] + self.residuals.get(name, np.float32(0))
            scheme = quantize_model.Model(bits, WORLD, self.bucket)
            summed = quantize_model.allreduce(scheme, np.ascontiguousarray(values), WORLD, 0)
            if self.feedback:
                self.residuals[name] = summed.kept
            result[:sent] = summed.values
        return result, sent


def same_as_model(switchml, trials, backend):
    """Results are bit for bit those of the model, with all options of DistributedDataParallel."""
    start()
    group = dist.new_group(backend="gloo") if backend == "gloo" else None
    for trial in trials:
        if trial.get("dtype") == "bfloat16" and RELEASE < (2, 0):
            continue  # this Gloo cannot send the weights
        check_trial(switchml, group, **trial)


def check_trial(
    switchml,
    group,
    bits=4,
    bucket_size=512,
    layer_min_size=1024,
    dtype="float32",
    *,
    feedback=False,
    skip_incomplete=False,
    rules=(),
    cap=0.01,
    accumulate=False,
    **parallel,
):
    type_of_it = getattr(torch, dtype)
    own = Chosen(type_of_it)
    network = DistributedDataParallel(own, process_group=group, bucket_cap_mb=cap, **parallel)
    state = switchml.QuantizedState(
        bits, bucket_size, layer_min_size, error_feedback=feedback, model=network,
        skip_incomplete=skip_incomplete, process_group=group,
    )  # fmt: skip
    for name, of_it in rules:
        state.set_bits(name, of_it)
    network.register_comm_hook(state, switchml.quantized_hook)
    expected = Expected(bucket_size, feedback, skip_incomplete, layer_min_size)
    for step in range(STEPS):
        network.zero_grad()
        given = gradients(RANK, step, type_of_it)
        if accumulate:
            with network.no_sync():
                network(given).backward()
        network(given).backward()
        rows = [gradients(rank, step, type_of_it) for rank in range(WORLD)]
        for name, shape in LAYERS.items():
            factor = 2 if accumulate else 1
            values = np.stack([as_array(one[name]) * np.float32(factor) for one in rows])
            with np.errstate(invalid="ignore"):
                means, sent = expected.means(name, dict(rules).get(name, bits), values)
            wanted = torch.from_numpy(means).to(type_of_it).view(shape)
            where = (bits, dtype, feedback, rules, cap, step, name)
            check(getattr(own, name).grad, wanted, sent, where)
    assert state.report()["values"] == STEPS * sum(np.prod(shape) for shape in LAYERS.values())


def check(found, wanted, sent, where):
    """Check that the first `sent` values are exact, and the others up to the order of the sum."""
    found, wanted = found.flatten(), wanted.flatten()
    assert torch.allclose(found[sent:], wanted[sent:], rtol=1e-5, atol=1e-6, equal_nan=True), where
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    assert same[:sent].all(), (where, found[:sent][~same[:sent]], wanted[:sent][~same[:sent]])


def trained(switchml):
    """Train in few bits, with and without error feedback: the ranks keep equal weights."""
    start()
    found = {}
    for bits, feedback in ((32, False), (8, False), (2, True), (1, True)):
        network = DistributedDataParallel(model(), bucket_cap_mb=0.02)
        state = switchml.QuantizedState(bits, error_feedback=feedback, layer_min_size=64)
        network.register_comm_hook(state, switchml.quantized_hook)
        found[f"{bits}"] = state, same_everywhere(train(network, steps=30))
    whole = found["32"][1]
    apart = {bits: ((one - whole).norm() / whole.norm()).item() for bits, (_, one) in found.items()}
    sent = {bits: state.report()["bytes"] for bits, (state, _) in found.items()}
    return finish(switchml, apart=apart, sent=sent)


def freed_late(switchml, backend):
    """End the groups while one of their threads still frees parts of a bucket."""
    start()
    group = dist.new_group(backend="gloo") if backend == "gloo" else None
    hook = importlib.import_module("torch_switchml._quantized")
    freeing, ended = threading.Event(), threading.Event()

    class FreedLate(hook.QuantizedSum):
        def __del__(self):
            if threading.current_thread() is not threading.main_thread() and not freeing.is_set():
                freeing.set()
                ended.wait(TIMEOUT)

    hook.QuantizedSum = FreedLate
    network = DistributedDataParallel(torch.nn.Linear(2000, 100), process_group=group)
    state = switchml.QuantizedState(8, process_group=group)
    network.register_comm_hook(state, switchml.quantized_hook)
    on_all = torch.tensor([0])
    for _ in range(100):  # a sum that is there at once leaves it to this thread
        network(torch.ones(1, 2000)).sum().backward()
        on_all.fill_(freeing.is_set())
        dist.all_reduce(on_all, op=dist.ReduceOp.MIN)
        if on_all:
            break
    assert on_all
    threading.Timer(1, ended.set).start()
    del network, state, group
    result = finish(switchml)
    HELD.clear()
    time.sleep(2)
    return result


def whole_types(switchml):
    """float64 and complex gradients are averaged unquantized, beside quantized ones."""
    start()

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = torch.nn.Parameter(torch.zeros(3000, dtype=torch.float64))
            self.usual = torch.nn.Parameter(torch.zeros(3000))
            self.unused = torch.nn.Parameter(torch.zeros(2000))

        def forward(self, factor):
            return (self.wide * factor).sum() + (self.usual * factor.float()).sum()

    network = DistributedDataParallel(Mixed(), find_unused_parameters=True)
    network.register_comm_hook(switchml.QuantizedState(8), switchml.quantized_hook)
    for _ in range(3):
        network.zero_grad()
        network(torch.tensor(1e300 if RANK else 3e300, dtype=torch.float64)).backward()
        mean = (3e300 + 1e300 * (WORLD - 1)) / WORLD
        wanted = torch.full((3000,), mean, dtype=torch.float64)
        assert torch.allclose(network.module.wide.grad, wanted)
        assert network.module.usual.grad.isnan().all(), "1e300 is inf in float32"
        assert network.module.unused.grad is None or not network.module.unused.grad.any()


def differ(switchml):
    """Settings that differ between ranks, at first or later, raise on all ranks."""
    start()
    errors = []
    for late in (False, True):
        network = DistributedDataParallel(model())
        state = switchml.QuantizedState(
            4 if RANK or late else 8, layer_min_size=64, model=network, seed=5
        )
        network.register_comm_hook(state, switchml.quantized_hook)
        try:
            network(torch.ones(2, 64)).sum().backward()
            if RANK == 0:
                state.set_bits("0.weight", 7)
            network(torch.ones(2, 64)).sum().backward()
        except (ValueError, RuntimeError) as error:  # the latter in older torches
            errors.append(str(error))
    return finish(switchml, errors=errors)


def unnamed(switchml):
    """Parameters without names raise on all ranks, and nothing is left in flight."""
    start()
    network = DistributedDataParallel(model())
    state = switchml.QuantizedState(4, layer_min_size=64, error_feedback=True)
    state.exclude("0.weight")
    network.register_comm_hook(state, switchml.quantized_hook)
    either = (ValueError, RuntimeError)  # the latter in older torches
    errors = [raised(network(torch.ones(2, 64)).sum().backward, kind=either)]
    another = DistributedDataParallel(model())  # after a backward pass that failed
    state.attach(another)
    another.register_comm_hook(state, switchml.quantized_hook)
    same_everywhere(train(another, steps=2))
    names = ("1.weight", "module.0.weight")
    errors += [raised(state.exclude, name, kind=either) for name in names]
    return finish(switchml, errors=errors)


def resumed(switchml):
    """A training from a checkpoint continues as without a checkpoint."""
    start()

    def network_of(state, weights=None):
        network = DistributedDataParallel(model(), bucket_cap_mb=0.02)
        if weights is not None:
            network.module.load_state_dict(weights)
        state.attach(network)
        network.register_comm_hook(state, switchml.quantized_hook)
        return network

    def new_state():
        return switchml.QuantizedState(
            2, 100, 64, stochastic=True, error_feedback=True, seed=11, skip_incomplete=True
        )

    state = new_state()
    network = network_of(state)
    train(network, steps=5)
    weights, file = copy.deepcopy(network.module.state_dict()), io.BytesIO()
    torch.save(state.state_dict(), file)
    pickled = pickle.dumps(state)
    straight = same_everywhere(train(network, steps=5))

    loaded = new_state()
    file.seek(0)
    loaded.load_state_dict(torch.load(file))
    again = [loaded, pickle.loads(pickled)]  # noqa: S301  # our own
    for one in again:
        assert torch.equal(straight, same_everywhere(train(network_of(one, weights), steps=5)))
    forgotten = same_everywhere(train(network_of(new_state(), weights), steps=5))
    assert not torch.equal(straight, forgotten), "the residuals and the step count"


def stochastic(switchml):
    """The mean of many roundings is right, ranks draw different numbers, a seed repeats them."""
    start()
    own = Chosen(torch.float32)
    network = DistributedDataParallel(own)
    given = gradients(1, 0, torch.float32)  # the same on all ranks

    def drawn(seed, steps):
        state = switchml.QuantizedState(2, 512, 1024, stochastic=True, seed=seed, model=network)
        found = []
        for _ in range(steps):
            network.zero_grad()
            current[0] = state
            network(given).backward()
            found.append(own.large.grad.clone())
        return torch.stack(found)

    current = [None]
    network.register_comm_hook(None, lambda _, bucket: switchml.quantized_hook(current[0], bucket))
    first, again, other = drawn(1, 200), drawn(1, 2), drawn(2, 2)
    assert torch.equal(first[:2], again)
    assert not torch.equal(again, other)
    assert not torch.equal(first[0], first[1])
    scale = given["large"].abs().max()
    levels = {round(one, 2) for one in (first[0][:512] / first[0][:512].abs().max()).tolist()}
    assert len(levels) == 2 * WORLD + 1, "ranks round differently"
    error = (first.mean(dim=0) - given["large"]).abs() / scale
    assert error.mean() < 0.5 / (200 * WORLD) ** 0.5, error.mean()


def from_cgx(switchml):
    """CGX's state and hook average as ours with the equivalent settings."""
    start()
    cgx = importlib.import_module("torch_switchml.cgx")

    def averaged(state, hook):
        own = Chosen(torch.float32)
        network = DistributedDataParallel(own)
        network.register_comm_hook(state, hook)
        network(gradients(RANK, 0, torch.float32)).backward()
        return torch.cat([p.grad.flatten() for p in own.parameters()]), state.report()

    os.environ.update(
        CGX_COMPRESSION_QUANTIZATION_BITS="3", CGX_COMPRESSION_BUCKET_SIZE="100",
        CGX_COMPRESSION_SKIP_INCOMPLETE_BUCKETS="1", CGX_COMPRESSION_MINIMAL_SIZE="1100",
    )  # fmt: skip
    ours = switchml.QuantizedState
    pairs = [
        (cgx.CGXState(None), ours(3, 100, 1100, skip_incomplete=True)),
        (
            cgx.CGXState(dist.group.WORLD, 2000, {"bits": 5, "bucket_size": 64}),
            ours(5, 64, 2000, skip_incomplete=True),
        ),
    ]
    os.environ.update(
        SWITCHML_QUANTIZATION_BITS="2", SWITCHML_QUANTIZATION_BUCKET_SIZE="200",
        SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS="0", SWITCHML_QUANTIZATION_MINIMAL_SIZE="0",
    )  # fmt: skip
    pairs.append((cgx.CGXState(None, layer_min_size=0), ours(2, 200, 16)))
    for name in [*os.environ]:
        if name.startswith(("CGX_", "SWITCHML_QUANTIZATION_")):
            del os.environ[name]
    pairs.append((cgx.CGXState(None), ours(32)))
    for theirs, same in pairs:
        mean, sent = averaged(theirs, cgx.cgx_hook)
        wanted, wanted_sent = averaged(same, switchml.quantized_hook)
        assert torch.equal(mean, wanted)
        assert sent == wanted_sent
    errors = []
    for given, variables in (
        ({"bit": 4}, {}),
        ({"bits": 0}, {}),
        ({}, {"CGX_COMPRESSION_BUCKET_SIZE": "many"}),
        ({}, {"CGX_COMPRESSION_SKIP_INCOMPLETE_BUCKETS": "2"}),
    ):
        os.environ.update(variables)
        errors.append(raised(cgx.CGXState, None, compression_params=given, kind=ValueError))
        for name in variables:
            del os.environ[name]
    os.environ["CGX_INTRA_BROADCAST"] = "1"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cgx.CGXState(None)
    return finish(switchml, errors=errors, warned=[str(one.message) for one in warned])


def cgx_by_variable(switchml):
    """The hook rounds to the 2 bits of the variable; return the distance from exact means."""
    start()
    least = 1500
    cgx = importlib.import_module("torch_switchml.cgx")
    own = Chosen(torch.float32)
    network = DistributedDataParallel(own)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        network.register_comm_hook(cgx.CGXState(None, least), cgx.cgx_hook)
    network(gradients(RANK, 0, torch.float32)).backward()
    expected = Expected(512, feedback=False, skip_incomplete=False, least=least)
    rows = [gradients(rank, 0, torch.float32) for rank in range(WORLD)]
    apart = []
    for name in LAYERS:
        means, sent = expected.means(name, 2, np.stack([as_array(one[name]) for one in rows]))
        found = as_array(getattr(own, name).grad)
        if sent:
            assert np.array_equal(found, means), name
        else:
            apart.append(float(np.abs(found - means).max() / np.abs(means).max()))
    return finish(switchml, apart=apart, warned=[str(one.message) for one in warned])


def lost(switchml):
    """A lost rank raises in the backward pass of the others."""
    start()
    network = DistributedDataParallel(model(), bucket_cap_mb=0.02)
    state = switchml.QuantizedState(4, layer_min_size=64)
    network.register_comm_hook(state, switchml.quantized_hook)
    train(network, steps=2)
    if RANK == 1:
        sys.stdout.write("RESULT {}\n")
        sys.stdout.flush()
        os._exit(0)
    error = raised(train, network, steps=1)
    sys.stdout.write("RESULT " + json.dumps({"error": error}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the group waits for the rank that is gone


def example(switchml):
    """Run docs/quantized.py: a step of each network has the same loss with all bits."""
    start()
    sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "docs"))
    quantized = importlib.import_module("quantized")
    measured = {
        network: [quantized.train(network, bits, feedback=bits < 32, steps=1) for bits in (32, 4)]
        for network in quantized.NETWORKS
    }
    return finish(switchml, measured=measured)
