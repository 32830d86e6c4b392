"""The tests of torch.distributed that are in torch itself, for a torch without its source."""

from __future__ import annotations

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class TestDistBackendWithSpawn(
    TestDistBackend,  # type: ignore[misc]  # a class of torch
    DistributedTest._DistTestBase,  # type: ignore[misc]
):
    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


del TestDistBackend  # no test of its own
