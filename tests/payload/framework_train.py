"""Training with a framework, unchanged; each rank writes its weights.

framework_train.py FRAMEWORK DIRECTORY
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


def seeded_data(seed):
    """Return data of one rank."""
    torch.manual_seed(seed)
    inputs = torch.randn(256, 20)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def write(rank, size, parameters, losses):
    weights = [value for one in parameters for value in one.flatten().tolist()]
    with open(os.path.join(sys.argv[2], f"{rank}.json"), "w") as file:
        json.dump({"weights": weights, "losses": losses, "size": size}, file)


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    data = DataLoader(seeded_data(accelerator.process_index), batch_size=16, shuffle=True)
    model = torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = []
    for _ in range(4):
        for batch, wanted in data:
            loss = mse_loss(model(batch), wanted)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    place = accelerator.process_index, accelerator.num_processes
    write(*place, accelerator.unwrap_model(model).parameters(), losses)
    accelerator.end_training()


def deepspeed():
    """Sum in a group of DeepSpeed's own."""
    import deepspeed as library

    library.init_distributed()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.Linear(50, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    config = {"train_micro_batch_size_per_gpu": 16, "gradient_clipping": 0}
    engine, *_ = library.initialize(model=model, optimizer=optimizer, config=config)
    rank = library.comm.get_rank()
    torch.manual_seed(rank)
    losses = []
    for batch in torch.randn(16, 16, 20):
        loss = mse_loss(engine(batch), batch.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    write(rank, library.comm.get_world_size(), engine.module.parameters(), losses)
    engine.destroy()


def fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 1)
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(rank)
    losses = []
    for batch in torch.randn(16, 16, 20):
        loss = mse_loss(model(batch), batch.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    write(rank, size, [one.full_tensor() for one in model.parameters()], losses)
    dist.destroy_process_group()


def lightning():
    import lightning as library

    class Model(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(20, 1)
            self.losses = []

        def training_step(self, batch, _number):
            inputs, wanted = batch
            loss = mse_loss(self.layer(inputs), wanted)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    local = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = library.Trainer(
        accelerator="cpu", strategy="ddp", devices=local, max_epochs=4,
        num_nodes=int(os.environ["WORLD_SIZE"]) // local,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
    )  # fmt: skip
    data, model = seeded_data(trainer.global_rank), Model()
    trainer.fit(model, DataLoader(data, batch_size=16))
    write(trainer.global_rank, trainer.world_size, model.parameters(), model.losses)
    dist.destroy_process_group()


def transformers():
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(20, 1)
            self.losses = []

        def forward(self, inputs, wanted):
            loss = mse_loss(self.layer(inputs), wanted)
            self.losses.append(loss.item())
            return {"loss": loss}

    arguments = TrainingArguments(
        output_dir=os.path.join(sys.argv[2], "output"), use_cpu=True, max_grad_norm=0,
        per_device_train_batch_size=16, num_train_epochs=4, learning_rate=0.05, optim="sgd",
        lr_scheduler_type="constant", save_strategy="no", report_to=[], remove_unused_columns=False,
    )  # fmt: skip
    data, model = seeded_data(arguments.process_index), Model()
    collate = lambda rows: dict(zip(("inputs", "wanted"), map(torch.stack, zip(*rows))))  # noqa: E731
    Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
    write(arguments.process_index, arguments.world_size, model.parameters(), model.losses)
    dist.destroy_process_group()


globals()[sys.argv[1]]()
