"""Train two small networks with gradients of fewer and fewer bits, on two real ranks.

An example for `torch_switchml.quantized_hook`. PYTHON has a torch and the plugin:

PYTHON docs/quantized.py --output build/quantized.json python -m docs.compression
build/quantized.json > docs/compression.svg
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.distributed as dist
import torch_switchml
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(
    str(Path(__file__).parents[1] / "patchgen" / "extras" / "train" / "demo" / "payload")
)
DIGITS = importlib.import_module("train")  # the images and the network of the demo

WAYS = {
    "float32": (32, False),
    "8 bits": (8, False),
    "4 bits": (4, False),
    "4 bits, error feedback": (4, True),
    "2 bits": (2, False),
    "2 bits, error feedback": (2, True),
}
STEPS, BATCH, RANKS = 512, 32, 2
LENGTH, VALUES, WIDTH = 12, 10, 64  # of the sequences that are sorted


class Sorter(nn.Module):
    """Transformer that predicts the sorted sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Embedding(VALUES, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.answer = nn.Linear(WIDTH, VALUES)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return logits [batch, VALUES, LENGTH] of numbers [batch, LENGTH]."""
        return self.answer(self.layers(self.values(numbers) + self.places)).transpose(1, 2)


def images(rank: int, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    inputs, answers = DIGITS.draw(4096, seed=1)
    for step in range(steps):
        chance = torch.Generator().manual_seed(RANKS * step + rank)
        chosen = torch.randint(len(inputs), (BATCH,), generator=chance)
        yield inputs[chosen], answers[chosen]


def sequences(rank: int, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for step in range(steps):
        chance = torch.Generator().manual_seed(RANKS * step + rank)
        numbers = torch.randint(VALUES, (BATCH, LENGTH), generator=chance)
        yield numbers, numbers.sort(dim=1).values


def unseen_sequences() -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(RANKS * STEPS)
    numbers = torch.randint(VALUES, (1024, LENGTH), generator=chance)
    return numbers, numbers.sort(dim=1).values


def sgd(weights: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=0.1, momentum=0.9)


def adam(weights: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, lr=1e-3)


# Network, optimizer, batches of a rank, and test data, by title.
NETWORKS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Convolutional network, digits": (
        DIGITS.network, sgd, images, lambda: DIGITS.draw(1024, seed=2),
    ),
    "Transformer, sorting": (Sorter, adam, sequences, unseen_sequences),
}  # fmt: skip


def train(network: str, bits: int, *, feedback: bool, steps: int = STEPS) -> dict[str, Any]:
    """Train a network once, and return the measurements of this rank."""
    build, optimize, batches, unseen = NETWORKS[network]
    torch.manual_seed(0)
    model = DistributedDataParallel(build(), bucket_cap_mb=0.1)
    state = torch_switchml.QuantizedState(bits, error_feedback=feedback, model=model)
    model.register_comm_hook(state, torch_switchml.quantized_hook)
    optimizer = optimize(model.parameters())
    losses = []
    for inputs, answers in batches(dist.get_rank(), steps):
        loss = functional.cross_entropy(model(inputs), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    inputs, answers = unseen()
    with torch.no_grad():
        right = (model.module.eval()(inputs).argmax(dim=1) == answers).float().mean()
    return {
        "losses": torch.stack(losses).tolist(),
        "accuracy": right.item(),
        "bytes": state.report()["bytes"] / steps,
    }


def rank_of_it(rank: int, backend: str, port: int, output: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group(backend, rank=rank, world_size=RANKS)
    measured: dict[str, Any] = {}
    for network in NETWORKS:
        for way, (bits, feedback) in WAYS.items():
            found = train(network, bits, feedback=feedback)
            measured.setdefault(network, {})[way] = found
            if rank == 0:
                told = f"{found['accuracy']:.1%} right, {found['bytes']:,.0f} bytes a step"
                sys.stderr.write(f"{network}, {way}: {told}\n")
    dist.destroy_process_group()
    if rank == 0:
        Path(output).write_text(json.dumps(measured), encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="gloo", help="gloo, or switchml with its switchml.cfg")
    parser.add_argument("--port", type=int, default=29555)
    parser.add_argument("--output", required=True)
    given = parser.parse_args()
    arguments = (given.backend, given.port, given.output)
    torch.multiprocessing.spawn(rank_of_it, arguments, nprocs=RANKS)


if __name__ == "__main__":
    main()
