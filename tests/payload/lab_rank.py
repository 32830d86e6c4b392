"""Rank of the lab whose worker is another program: makes a group, and starts the worker.

`lab_rank.py PYTHON WORKER PACKETS`; the group is stock Gloo's, and gives the rank its switchml.cfg.
"""

import os
import subprocess
import sys

import torch.distributed as dist

dist.init_process_group("gloo")
python, worker, packets = sys.argv[1:]
code = subprocess.call([python, worker, os.environ["SWITCHML_CONFIG"], packets])
dist.barrier()
dist.destroy_process_group()
sys.exit(code)
