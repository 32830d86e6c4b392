from __future__ import annotations

import itertools

import pytest

from patchgen.core.patch import pins
from patchgen.core.patch import version as names
from patchgen.errors import OptionsError
from patchgen.options import FLAGS, Options, resolve


def valid() -> list[Options]:
    fields = [flag.field for flag in FLAGS]
    found = []
    for values in itertools.product((False, True), repeat=len(FLAGS)):
        try:
            found.append(resolve(dict(zip(fields, values)), {}, "/dev-root"))
        except OptionsError:
            continue
    return found


def test_every_set_of_flags_has_a_version_that_tells_it() -> None:
    (pin,) = (pin for pin in pins.shipped() if pin.name == "v1.7.1")
    versions = {names.build_version(pin, options): options.flags for options in valid()}
    assert len(versions) == len(valid()) == 10
    assert versions["1.7.1+switchml"] == ()
    assert versions["1.7.1+switchml.dpdk.mlx5"] == ("DPDK", "MLX5")
    assert versions["1.7.1+switchml.rdma.debug"] == ("RDMA", "DEBUG")
    assert {version: names.flags_of(version) for version in versions} == versions


@pytest.mark.parametrize(
    "version",
    [
        "1.7.1", "1.7.1+cu101", "1.7.1+switchmlx", "1.7.1+switchml.", "1.7.1+switchml.mlx5",
        "1.7.1+switchml.dpdk.rdma", "1.7.1+switchml.dpdk.mlx5.mlx4", "1.7.1+switchml.debug.dpdk",
        "1.7.1+switchml.DPDK", "1.7.1+switchml\n", "+switchml", "switchml", "",
    ],
)  # fmt: skip
def test_other_versions_are_not_ours(version: str) -> None:
    assert names.flags_of(version) is None
