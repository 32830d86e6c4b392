"""Training with Accelerate, unchanged; each rank writes its weights.

accelerate_train.py DIRECTORY
"""

import json
import os
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(accelerator.process_index)
inputs = torch.randn(256, 20)
data = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16, shuffle=True)
model = torch.nn.Linear(20, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
losses = []
for _ in range(4):
    for batch, wanted in data:
        loss = torch.nn.functional.mse_loss(model(batch), wanted)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
trained = accelerator.unwrap_model(model)
with open(os.path.join(sys.argv[1], f"{accelerator.process_index}.json"), "w") as file:
    weights = [value for one in trained.parameters() for value in one.flatten().tolist()]
    json.dump({"weights": weights, "losses": losses, "size": accelerator.num_processes}, file)
accelerator.end_training()
