"""Tests of each outcome, as a module of PyTorch's own."""

import os
import signal
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist


class GlooTest(unittest.TestCase):
    def test_sums(self):
        with tempfile.TemporaryDirectory() as directory:
            store = dist.FileStore(os.path.join(directory, "store"), 1)
            group = dist.ProcessGroupGloo(store, 0, 1)
            for _ in range(3):
                tensor = torch.ones(5)
                group.allreduce([tensor]).wait()
                self.assertEqual(tensor.tolist(), [1] * 5)
            del group

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_skips(self):
        raise unittest.SkipTest("for a reason")

    def test_dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def test_leaves_at_once(self):
        sys.exit(3)

    def test_of_nccl(self):
        pass
