"""The patch in a real PyTorch: plain init_process_group("gloo"), several processes, true sums."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version
from support import messages
from support.group_checks import (
    check_gradient_types,
    check_rank_killed,
    check_stays_with_gloo,
    check_sums,
    check_sums_in_fewer_bits,
)
from support.hosts import check_training
from support.launcher import Launcher
from support.pages import ROOT, blocks
from support.torch import results, version_of

DIFFER = messages.DIFFERS.format


@pytest.mark.parametrize("prepostprocessor", ["bypass", "cpu_exponent_quantizer"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_sums_are_true_and_delegated(launch: Launcher, world: int, prepostprocessor: str) -> None:
    check_sums(launch, world, prepostprocessor)


@pytest.mark.parametrize(
    ("world", "prepostprocessor", "chunk"),
    [(2, "bypass", 700), (3, "cpu_exponent_quantizer", 2**20)],
)
def test_gradients_of_every_type(
    launch: Launcher, world: int, prepostprocessor: str, chunk: int
) -> None:
    check_gradient_types(launch, world, prepostprocessor, chunk)


@pytest.mark.parametrize(
    ("world", "bits", "bucket", "skip"), [(2, 4, 512, False), (3, 8, 100, True), (3, 2, 128, False)]
)
def test_sums_in_fewer_bits(
    launch: Launcher, world: int, bits: int, bucket: int, *, skip: bool
) -> None:
    check_sums_in_fewer_bits(launch, world, bits, bucket, skip=skip)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"CHUNK_NUMEL": "7"}, DIFFER("SWITCHML_CHUNK_NUMEL=7", 1048576)),
        ({"DTYPES": "float32"}, DIFFER("SWITCHML_DTYPES=float32", "float32,int32,")),
        ({"DTYPES": ","}, "SWITCHML_DTYPES is ',', not a list of float32, int32,"),
        ({"OPS": "sum"}, DIFFER("SWITCHML_OPS=SUM", "SUM,AVG")),
        ({"OPS": "MAX"}, "SWITCHML_OPS is 'MAX', not a list of SUM, AVG"),
        ({"MIN_NUMEL": "7"}, DIFFER("SWITCHML_MIN_NUMEL=7", 1)),
        ({"MIN_NUMEL": "5"}, DIFFER("SWITCHML_MIN_NUMEL=5", 1)),
        ({"MIN_NUMEL": "auto"}, "SWITCHML_MIN_NUMEL is 'auto'"),
        ({"MIN_NUMEL": "-1"}, "SWITCHML_MIN_NUMEL is '-1'"),
        ({"QUANTIZATION_BITS": "8"}, DIFFER("SWITCHML_QUANTIZATION_BITS=8", 32)),
        ({"QUANTIZATION_BITS": "9"}, "SWITCHML_QUANTIZATION_BITS is '9', not 1 to 8, or 32"),
        ({"num_workers": 5}, "switchml.cfg has" + messages.OTHER_SIZE.format(5, 2)),
        ({"rank": 0}, "switchml.cfg has" + messages.OTHER_RANK.format(0, 1)),
        ({"packet_numel": 64}, DIFFER("packet_numel=64", 256)),
        ({"controller_port": 1}, DIFFER("simulator=127.0.0.1:1", "127.0.0.1:")),
        ({"backend": "carrier_pigeon"}, "backend = carrier_pigeon"),
        ({"num_worker_threads": 0}, "num_worker_threads = 0"),
        ({"num_worker_threads": "many"}, "unusable switchml.cfg"),
        ({"prepostprocessor": "magic"}, "prepostprocessor = magic is not known"),
    ],
)
def test_rank_that_disagrees(launch: Launcher, given: dict[str, object], reason: str) -> None:
    """By a variable, in capitals, or by its switchml.cfg."""
    env = {f"SWITCHML_{name}": str(value) for name, value in given.items() if name.isupper()}
    ranks = launch("outcome", 2, rank_env={1: env}, per_rank={1: {} if env else given})
    check_stays_with_gloo(ranks)
    assert f"rank 1: {reason}" in ranks[0].err


def test_narrowed_types_and_operations(launch: Launcher) -> None:
    env = {"SWITCHML_DTYPES": "float32,int32", "SWITCHML_OPS": "sum"}
    ranks = launch("narrowed", 2, env=env)
    for result in results(ranks):
        assert result["report"]["calls"] == 2
        assert result["report"]["fallbacks"]["dtype"] == 1
    assert f"allreduce(SUM) of float32, int32{messages.DELEGATES}" in ranks[0].err


@pytest.mark.parametrize("require", ["0", "1"])
def test_two_groups_in_two_threads(launch: Launcher, require: str) -> None:
    results(launch("two_threads", 2, arguments={"rounds": 40}, env={"SWITCHML_REQUIRE": require}))


@pytest.mark.parametrize("victim", [0, 1])
def test_no_config_on_one_rank(launch: Launcher, victim: int) -> None:
    ranks = launch("outcome", 2, per_rank={victim: None})
    check_stays_with_gloo(ranks)
    for result in results(ranks):
        report = result["report"]
        assert report["reason"] == f"rank {victim}: {messages.NO_CONFIG}"
        assert report["decision"] == f"{messages.STAYS}: {report['reason']}"
        assert (report["delegating"], report["terms"]) == (False, {})
    assert f"{messages.STAYS}: rank {victim}: {messages.NO_CONFIG}" in ranks[0].err
    warnings = [line for line in ranks[victim].err.splitlines() if "warning: " in line]
    assert len(warnings) == 1
    for place in ("/etc/switchml.cfg", f"/{victim}/switchml.cfg", f"/{victim}/switchml-"):
        assert place in warnings[0]
    assert "warning: " not in ranks[1 - victim].err


def test_minimum_number_of_elements(launch: Launcher) -> None:
    for result in results(launch("minimum", 2, env={"SWITCHML_MIN_NUMEL": "100"})):
        assert result["report"]["fallbacks"]["numel"] == 1


@pytest.mark.parametrize("victim", [0, 2])
def test_rank_killed(launch: Launcher, victim: int) -> None:
    check_rank_killed(launch, victim)


def test_ranks_that_disagree_on_the_size(launch: Launcher) -> None:
    for result in results(launch("mismatch", 2, timeout=20)):
        assert "SwitchML" in result["first"]


def test_hosts_of_two_ranks_by_the_lines_of_the_documentation(
    launch: Launcher, tmp_path: Path
) -> None:
    if Version(version_of(launch.python)) < Version("1.10"):
        pytest.skip("a hook's bucket has buffer() since PyTorch 1.10: make test-pinned PIN=1.10.0")
    page = blocks(ROOT / "docs" / "hosts.md")
    (lines,) = (block.text for block in page if "\ndef hook" in block.text)
    own = ("dist.init_process_group(", "model = ", "model(")  # those of the test take their place
    kept = [line for line in lines.splitlines(keepends=True) if not line.startswith(own)]
    path = tmp_path / "recipe.py"
    path.write_text("".join(kept))
    arguments, env = {"path": str(path)}, {"LOCAL_WORLD_SIZE": "2"}
    config = {"rank": "auto", "num_workers": 2}
    check_training(launch("hierarchies:recipe", 4, arguments=arguments, config=config, env=env))
