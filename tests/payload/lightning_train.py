"""Training with Lightning, unchanged; each rank writes its weights.

lightning_train.py DIRECTORY
"""

import json
import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(20, 1)
        self.losses = []

    def training_step(self, batch, _number):
        inputs, wanted = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), wanted)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


local = int(os.environ["LOCAL_WORLD_SIZE"])
trainer = lightning.Trainer(
    accelerator="cpu", strategy="ddp", devices=local, max_epochs=4,
    num_nodes=int(os.environ["WORLD_SIZE"]) // local,
    logger=False, enable_checkpointing=False, enable_progress_bar=False,
)  # fmt: skip
torch.manual_seed(trainer.global_rank)
inputs = torch.randn(256, 20)
model = Model()
trainer.fit(model, DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16))
with open(os.path.join(sys.argv[1], f"{trainer.global_rank}.json"), "w") as file:
    weights = [value for one in model.parameters() for value in one.flatten().tolist()]
    json.dump({"weights": weights, "losses": model.losses, "size": trainer.world_size}, file)
torch.distributed.destroy_process_group()
