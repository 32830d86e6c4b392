"""Training with transformers, unchanged; each rank writes its weights.

transformers_train.py DIRECTORY
"""

import json
import os
import sys

import torch
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(20, 1)
        self.losses = []

    def forward(self, inputs, wanted):
        loss = torch.nn.functional.mse_loss(self.layer(inputs), wanted)
        self.losses.append(loss.item())
        return {"loss": loss}


arguments = TrainingArguments(
    output_dir=os.path.join(sys.argv[1], "output"), use_cpu=True, max_grad_norm=0,
    per_device_train_batch_size=16, num_train_epochs=4, learning_rate=0.05, optim="sgd",
    lr_scheduler_type="constant", save_strategy="no", report_to=[], remove_unused_columns=False,
)  # fmt: skip
torch.manual_seed(arguments.process_index)
inputs = torch.randn(256, 20)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = Model()
collate = lambda rows: dict(zip(("inputs", "wanted"), map(torch.stack, zip(*rows))))  # noqa: E731
Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
with open(os.path.join(sys.argv[1], f"{arguments.process_index}.json"), "w") as file:
    weights = [value for one in model.parameters() for value in one.flatten().tolist()]
    json.dump({"weights": weights, "losses": model.losses, "size": arguments.world_size}, file)
torch.distributed.destroy_process_group()
