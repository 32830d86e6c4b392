"""What holds for the patch holds for the plugin: the same tests, under a current torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import test_torch as patch

# Tests, of which pytest takes those that are named here with the fixtures of this directory.
from test_torch import (
    test_debug_detail,
    test_destroy_and_init_again,
    test_disabled_on_one_rank,
    test_distributed_data_parallel,
    test_everything_else_falls_back_and_is_right,
    test_halves_without_room,
    test_rank_that_never_comes,
    test_required_but_not_possible,
    test_subgroups_stay_with_gloo,
    test_torchs_own_launcher,
)

if TYPE_CHECKING:
    from support.launcher import Launcher

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("world", "prepostprocessor"), [(2, "bypass"), (3, "cpu_exponent_quantizer")]
)
def test_sums_are_true_and_delegated(launch: Launcher, world: int, prepostprocessor: str) -> None:
    patch.test_sums_are_true_and_delegated(launch, world, prepostprocessor)


def test_gradients_of_every_type(launch: Launcher) -> None:
    patch.test_gradients_of_every_type(launch, 3, "bypass", 700)


def test_sums_in_fewer_bits(launch: Launcher) -> None:
    patch.test_sums_in_fewer_bits(launch, 3, 4, 512, skip=False)


def test_two_groups_in_two_threads(launch: Launcher) -> None:
    patch.test_two_groups_in_two_threads(launch, "1")


def test_no_config_on_one_rank(launch: Launcher) -> None:
    patch.test_no_config_on_one_rank(launch, 1)


def test_rank_killed(launch: Launcher) -> None:
    patch.test_rank_killed(launch, 0)
