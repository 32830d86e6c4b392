"""Replica of a training with torchft, one of which is killed; the others continue.

torchft_train.py DIRECTORY REPLICA VICTIM

A replica writes its result to REPLICA.json in the directory.
"""

import json
import os
import signal
import sys
from datetime import timedelta

import torch
import torch_switchml
import torchft

REPLICAS, STEPS, KILLED = 2, 12, 5
PATIENCE = timedelta(seconds=60)


def make():
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    network = torch.nn.Sequential(*layers)
    return network, torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)


def differentiate(network, step, replica):
    """Compute the gradients of a replica's batch."""
    inputs = torch.randn(32, 64, generator=torch.Generator().manual_seed(100 * step + replica))
    torch.nn.functional.cross_entropy(network(inputs), (inputs.sum(1) > 0).long()).backward()


def flatten(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def train(replica, victim):
    """Train to the end; return the weights, and the state of each step."""
    network, optimizer = make()

    def load(state):
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])

    def state():
        return {"network": network.state_dict(), "optimizer": optimizer.state_dict()}

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(PATIENCE), min_replica_size=REPLICAS, load_state_dict=load,
        state_dict=state, replica_id=f"replica_{replica}", hostname="127.0.0.1", init_sync=False,
        timeout=PATIENCE, quorum_timeout=2 * PATIENCE,
    )  # fmt: skip
    committing = torchft.Optimizer(manager, optimizer)
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    seen = []
    while manager.current_step() < STEPS:
        step = manager.current_step()
        committing.zero_grad()
        differentiate(network, step, replica)
        if first and step == KILLED and replica == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        for work in [manager.allreduce(one.grad) for one in network.parameters()]:
            work.wait()
        committing.step()
        report = torch_switchml.report()
        over_gloo = report["fallbacks"]["group"]
        seen.append((step, manager.current_step(), report["calls"], over_gloo))
    manager.shutdown()
    return flatten(network), seen


def train_alone():
    """Return the weights of the undisturbed training, in one process."""
    network, optimizer = make()
    for step in range(STEPS):
        optimizer.zero_grad()
        for replica in range(REPLICAS):
            differentiate(network, step, replica)
        for parameter in network.parameters():
            parameter.grad /= REPLICAS
        optimizer.step()
    return flatten(network)


def main(directory, replica, victim):
    torch.set_num_threads(1)
    weights, seen = train(int(replica), int(victim))
    answer = {
        "weights": weights.tolist(),
        "right": torch.allclose(weights, train_alone(), atol=1e-5),
        "seen": seen,
    }
    with open(os.path.join(directory, f"{replica}.json"), "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
