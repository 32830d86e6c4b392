"""Training with DeepSpeed, which sums in its own group; each rank writes its weights.

deepspeed_train.py DIRECTORY
"""

import json
import os
import sys

import deepspeed
import torch

deepspeed.init_distributed()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.Linear(50, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
config = {"train_micro_batch_size_per_gpu": 16, "gradient_clipping": 0}
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
rank, size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
torch.manual_seed(rank)
losses = []
for batch in torch.randn(16, 16, 20):
    loss = torch.nn.functional.mse_loss(engine(batch), batch.sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    weights = [value for one in engine.module.parameters() for value in one.flatten().tolist()]
    json.dump({"weights": weights, "losses": losses, "size": size}, file)
engine.destroy()
