"""Train a small network to read digits, on as many ranks as the launcher starts.

An ordinary script of DistributedDataParallel with Gloo, without a line about SwitchML. It draws the
digits itself, from the shapes below. Every run does the same, bit for bit. Runs under Python 3.6
and newer.
"""

import argparse
import array
import datetime as dt
import json
import os

import torch
import torch.distributed as dist

# DistributedDataParallel imports this module. If that were after the process group is made, the
# module would keep the group, and torch 2 may then abort at exit.
import torch.distributed.nn
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

SHAPES = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
PIXELS = 16  # of a side of an image
IMAGES = 4096  # to learn from, by all ranks together
UNSEEN = 1024  # to test with
BATCH = 32  # images of a step, on each rank
LEARNING_RATE, MOMENTUM = 0.1, 0.9
SPOKEN = 16  # steps between two lines of output


def draw(count: int, seed: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return images of digits, distorted, with noise, and the digit in each image."""
    chance = torch.Generator().manual_seed(seed)

    def between(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(count, generator=chance)

    rows = [[[float(dot) for dot in word] for word in line.split()] for line in SHAPES.split("\n")]
    shapes = torch.tensor(rows[1:-1]).transpose(0, 1)
    digits = torch.randint(10, (count,), generator=chance)
    turn, slant = between(-0.35, 0.35), between(-0.3, 0.3)
    wide, high = between(1.2, 2.0), between(1.0, 1.5)
    across = torch.stack(
        [
            wide * (turn.cos() + slant * turn.sin()),
            wide * (slant * turn.cos() - turn.sin()),
            between(-0.5, 0.5),
        ],
        dim=1,
    )
    down = torch.stack([high * turn.sin(), high * turn.cos(), between(-0.4, 0.4)], dim=1)
    where = functional.affine_grid(
        torch.stack([across, down], dim=1), [count, 1, PIXELS, PIXELS], align_corners=False
    )
    images = functional.grid_sample(shapes[digits].unsqueeze(1), where, align_corners=False)
    return images + 0.25 * torch.randn(images.shape, generator=chance), digits


def network() -> nn.Module:
    """Return a network of 72 thousand weights, smooth so that rounding errors do not grow."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (PIXELS // 4) ** 2, 128),
        nn.Tanh(),
        nn.Linear(128, 10),
    )


def train(epochs: int) -> "tuple[dict[str, object], array.array[float]]":
    """Train in the process group; return the measurements of this rank, and its weights."""
    rank, world = dist.get_rank(), dist.get_world_size()
    images, digits = draw(IMAGES, seed=1)
    unseen, answers = draw(UNSEEN, seed=2)

    torch.manual_seed(0)
    model = DistributedDataParallel(network())
    largest = torch.zeros(())

    def measure(gradient: torch.Tensor) -> None:
        largest.clamp_(min=gradient.abs().max())

    for weights in model.parameters():
        weights.register_hook(measure)  # called before the sum
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)

    each = IMAGES // (world * BATCH)  # steps of an epoch
    losses = []  # type: list[float]
    accuracies = []  # type: list[float]
    for epoch in range(epochs):
        order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(epoch))
        for batch in order[rank::world][: each * BATCH].split(BATCH):
            loss = functional.cross_entropy(model(images[batch]), digits[batch])
            optimizer.zero_grad()
            loss.backward()  # here DistributedDataParallel sums the gradients of all ranks
            optimizer.step()
            losses.append(loss.item())
            if rank == 0 and len(losses) % SPOKEN == 0:
                print(f"step {len(losses)} of {epochs * each}: loss {losses[-1]:.3f}", flush=True)
        with torch.no_grad():
            right = model.module(unseen[rank::world]).argmax(1) == answers[rank::world]
        total = right.sum()  # int64, which stays with Gloo
        dist.all_reduce(total)
        accuracies.append(total.item() / UNSEEN)
        if rank == 0:
            print(f"epoch {epoch + 1} of {epochs}: reads {accuracies[-1]:.1%}", flush=True)

    learnt = torch.cat([weights.detach().flatten() for weights in model.parameters()])
    measured = {
        "losses": losses,
        "accuracies": accuracies,
        "largest_gradient": largest.item(),
        "learning_rate": LEARNING_RATE,
        "momentum": MOMENTUM,
    }
    return measured, array.array("f", learnt.tolist())


def main() -> None:
    """Run one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--output", help="a directory for what was measured and learnt")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=dt.timedelta(minutes=5))
    rank = dist.get_rank()
    measured, weights = train(given.epochs)
    dist.destroy_process_group()
    if given.output:
        with open(os.path.join(given.output, f"{rank}.json"), "w", encoding="ascii") as file:
            json.dump(measured, file)
        with open(os.path.join(given.output, f"{rank}.weights"), "wb") as file:
            weights.tofile(file)


if __name__ == "__main__":
    main()
