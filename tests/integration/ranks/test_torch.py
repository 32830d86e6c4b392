"""The patch in a real PyTorch: plain init_process_group("gloo"), several processes, true sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from support.hosts import LEADERS, check_training
from support.torch import REPOSITORY, results, version_of

from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from support.launcher import Launcher, Rank

pytestmark = pytest.mark.integration

SIZES = [1, 1_000_003]
LARGE = 64 * 2**20 // 4  # of two ranks only, as more of them are slow on few cores


def went_to_gloo(ranks: list[Rank]) -> None:
    for result in results(ranks):
        assert result["report"]["calls"] == 0
        assert result["report"]["fallbacks"]["group"] == 2


@pytest.mark.parametrize("prepostprocessor", ["bypass", "cpu_exponent_quantizer"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_sums_are_true_and_delegated(launch: Launcher, world: int, prepostprocessor: str) -> None:
    sizes = [*SIZES, LARGE] if world == 2 else SIZES
    ranks = launch(
        "sums", world, arguments={"sizes": sizes}, config={"prepostprocessor": prepostprocessor}
    )
    for result in results(ranks):
        report = result["report"]
        assert (report["delegating"], report["reason"]) == (True, "")
        assert report["group"] == f"process group of {world} ranks: {report['decision']}"
        listed = " ".join(f"{name}={value}" for name, value in report["terms"].items())
        assert report["decision"].endswith(f" goes to SwitchML ({listed})")
        assert report["terms"]["num_workers"] == str(report["world_size"]) == str(world)
        assert report["terms"]["SWITCHML_OPS"] == "SUM,AVG"
    said = [line for line in ranks[0].err.splitlines() if "process group" in line]
    assert len(said) == 1
    assert "goes to SwitchML" in said[0]
    assert "process group" not in ranks[1].err


def test_nothing_finite_comes_of_inf_and_nan(launch: Launcher) -> None:
    config = {"prepostprocessor": "cpu_exponent_quantizer"}
    for result in results(launch("nonfinite", 2, config=config)):
        assert result["finite"][:3] == [False] * 3
        assert result["report"]["calls"] == 4


def test_everything_else_falls_back_and_is_right(launch: Launcher) -> None:
    results(launch("fallbacks", 3))


@pytest.mark.parametrize(
    ("world", "prepostprocessor", "chunk"),
    [(2, "bypass", 700), (3, "cpu_exponent_quantizer", 2**20)],
)
def test_gradients_of_every_type(
    launch: Launcher, world: int, prepostprocessor: str, chunk: int
) -> None:
    config = {"prepostprocessor": prepostprocessor}
    env = {"SWITCHML_CHUNK_NUMEL": str(chunk)}
    results(launch("gradient_types", world, config=config, env=env))


def test_chunks_that_differ(launch: Launcher) -> None:
    ranks = launch("outcome", 2, rank_env={1: {"SWITCHML_CHUNK_NUMEL": "7"}})
    went_to_gloo(ranks)
    assert "rank 1: SWITCHML_CHUNK_NUMEL=7 where rank 0 has 1048576" in ranks[0].err


def test_halves_without_room(launch: Launcher) -> None:
    results(launch("halves_overflow", 2, config={"prepostprocessor": "cpu_exponent_quantizer"}))


@pytest.mark.parametrize(
    ("world", "bits", "bucket", "skip"), [(2, 4, 512, False), (3, 8, 100, True), (3, 2, 128, False)]
)
def test_sums_in_fewer_bits(
    launch: Launcher, world: int, bits: int, bucket: int, *, skip: bool
) -> None:
    env = {
        "SWITCHML_QUANTIZATION_BITS": str(bits),
        "SWITCHML_QUANTIZATION_BUCKET_SIZE": str(bucket),
        "SWITCHML_QUANTIZATION_MINIMAL_SIZE": "300",
        "SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS": str(int(skip)),
    }
    arguments = {"bits": bits, "bucket": bucket, "least": 300, "skip": skip}
    ranks = launch("quantized", world, arguments=arguments, env=env)
    found = results(ranks)
    assert all(result["works"] == found[0]["works"] for result in found)
    assert f"goes to SwitchML in {bits} bits (" in ranks[0].err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("8", "SWITCHML_QUANTIZATION_BITS=8 where rank 0 has 32"),
        ("9", "SWITCHML_QUANTIZATION_BITS is '9', not 1 to 8, or 32"),
    ],
)
def test_bits_that_differ(launch: Launcher, given: str, reason: str) -> None:
    ranks = launch("outcome", 2, rank_env={1: {"SWITCHML_QUANTIZATION_BITS": given}})
    went_to_gloo(ranks)
    assert f"rank 1: {reason}" in ranks[0].err


def test_narrowed_types_and_operations(launch: Launcher) -> None:
    env = {"SWITCHML_DTYPES": "float32,int32", "SWITCHML_OPS": "sum"}
    ranks = launch("narrowed", 2, env=env)
    for result in results(ranks):
        assert result["report"]["calls"] == 2
        assert result["report"]["fallbacks"]["dtype"] == 1
    assert "allreduce(SUM) of float32, int32 goes to SwitchML" in ranks[0].err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"SWITCHML_DTYPES": "float32"}, "SWITCHML_DTYPES=float32 where rank 0 has float32,int32,"),
        ({"SWITCHML_OPS": "sum"}, "SWITCHML_OPS=SUM where rank 0 has SUM,AVG"),
        ({"SWITCHML_OPS": "MAX"}, "SWITCHML_OPS is 'MAX', not a list of SUM, AVG"),
        ({"SWITCHML_DTYPES": ","}, "SWITCHML_DTYPES is ',', not a list of float32, int32,"),
    ],
)
def test_types_and_operations_that_differ(
    launch: Launcher, given: dict[str, str], reason: str
) -> None:
    ranks = launch("outcome", 2, rank_env={1: given})
    went_to_gloo(ranks)
    assert f"rank 1: {reason}" in ranks[0].err


def test_subgroups_stay_with_gloo(launch: Launcher) -> None:
    ranks = launch("groups", 3)
    results(ranks)
    assert "the group has 2 of the 3 workers" in ranks[0].err
    assert "another process group delegates" in ranks[0].err


@pytest.mark.parametrize("require", ["0", "1"])
def test_two_groups_in_two_threads(launch: Launcher, require: str) -> None:
    results(launch("two_threads", 2, arguments={"rounds": 40}, env={"SWITCHML_REQUIRE": require}))


def test_destroy_and_init_again(launch: Launcher, tmp_path: Path) -> None:
    results(launch("again", 2, arguments={"times": 5, "store": str(tmp_path)}))


def test_distributed_data_parallel(launch: Launcher) -> None:
    """The same weights on all ranks, and the losses of stock Gloo within the fixed-point bound."""
    arguments = {"steps": 12}
    quantized = {"prepostprocessor": "cpu_exponent_quantizer"}
    ranks = [
        launch("train", 2, arguments=arguments, preload=False),
        launch("train", 2, arguments=arguments, config=quantized),
        launch("train", 2, arguments=arguments, env={"SWITCHML_DISABLE": "1"}),
    ]
    stock, delegated, disabled = (results(of_one_way, trained=True) for of_one_way in ranks)
    assert delegated[0]["weights"] == delegated[1]["weights"]
    for reference, mine, same in zip(stock, delegated, disabled):
        assert reference["report"] is None
        assert mine["report"]["calls"] >= 12
        assert same["losses"] == reference["losses"]
        assert same["weights"] == reference["weights"]
        assert mine["losses"] == pytest.approx(reference["losses"], rel=1e-5)


@pytest.mark.parametrize("victim", [0, 1])
def test_no_config_on_one_rank(launch: Launcher, victim: int) -> None:
    ranks = launch("outcome", 2, per_rank={victim: None})
    went_to_gloo(ranks)
    for result in results(ranks):
        report = result["report"]
        assert report["reason"] == f"rank {victim}: no switchml.cfg"
        assert report["decision"] == f"allreduce stays with Gloo: {report['reason']}"
        assert (report["delegating"], report["terms"]) == (False, {})
    assert f"stays with Gloo: rank {victim}: no switchml.cfg" in ranks[0].err
    warnings = [line for line in ranks[victim].err.splitlines() if "warning: " in line]
    assert len(warnings) == 1
    for place in ("/etc/switchml.cfg", f"/{victim}/switchml.cfg", f"/{victim}/switchml-"):
        assert place in warnings[0]
    assert "warning: " not in ranks[1 - victim].err


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"num_workers": 5}, "switchml.cfg has num_workers = 5, the group has 2 ranks"),
        ({"rank": 0}, "switchml.cfg has rank = 0, the process has rank 1"),
        ({"packet_numel": 64}, "packet_numel=64 where rank 0 has 256"),
        ({"controller_port": 1}, "simulator=127.0.0.1:1 where rank 0 has 127.0.0.1:"),
        ({"backend": "carrier_pigeon"}, "backend = carrier_pigeon"),
        ({"num_worker_threads": 0}, "num_worker_threads = 0"),
        ({"num_worker_threads": "many"}, "unusable switchml.cfg"),
        ({"prepostprocessor": "magic"}, "prepostprocessor = magic is not known"),
    ],
)
def test_config_that_disagrees(launch: Launcher, values: dict[str, object], reason: str) -> None:
    ranks = launch("outcome", 2, per_rank={1: values})
    went_to_gloo(ranks)
    assert f"rank 1: {reason}" in ranks[0].err


def test_required_but_not_possible(launch: Launcher) -> None:
    ranks = launch("refused", 2, per_rank={1: {"num_workers": 5}}, env={"SWITCHML_REQUIRE": "1"})
    for result in results(ranks):
        assert "SWITCHML_REQUIRE is set" in result["error"]
        assert "rank 1: switchml.cfg has num_workers = 5, the group has 2 ranks" in result["error"]


def test_disabled_on_one_rank(launch: Launcher) -> None:
    ranks = launch("outcome", 2, rank_env={1: {"SWITCHML_DISABLE": "1"}})
    went_to_gloo(ranks)
    assert "rank 1: SWITCHML_DISABLE is set" in ranks[0].err


def test_minimum_number_of_elements(launch: Launcher) -> None:
    for result in results(launch("minimum", 2, env={"SWITCHML_MIN_NUMEL": "100"})):
        assert result["report"]["fallbacks"]["numel"] == 1


@pytest.mark.parametrize("given", ["abc", "-1"])
def test_minimum_that_is_not_a_number(launch: Launcher, given: str) -> None:
    ranks = launch("outcome", 2, rank_env={1: {"SWITCHML_MIN_NUMEL": given}})
    went_to_gloo(ranks)
    assert f"rank 1: SWITCHML_MIN_NUMEL is '{given}'" in ranks[0].err


def test_minimum_that_differs(launch: Launcher) -> None:
    ranks = launch("outcome", 2, rank_env={1: {"SWITCHML_MIN_NUMEL": "7"}})
    went_to_gloo(ranks)
    assert "rank 1: SWITCHML_MIN_NUMEL=7 where rank 0 has 1" in ranks[0].err


@pytest.mark.parametrize("victim", [0, 2])
def test_rank_killed(launch: Launcher, victim: int) -> None:
    """Rank 0 hosts the aggregator, so its death is also the death of the switch."""
    ranks = launch("dies", 3, arguments={"victim": victim}, timeout=20)
    for number, rank in enumerate(ranks):
        if number == victim:
            assert rank.code == -9
            continue
        result = rank.result
        assert "SwitchML" in result["first"]
        assert "SwitchML" in result["second"]
        assert result["elapsed"] < 25
        assert result["report"]["calls"] == 1
        assert result["report"]["failure"]


def test_rank_that_never_comes(launch: Launcher) -> None:
    ranks = launch("late", 2, arguments={"victim": 1}, timeout=4)
    result = ranks[0].result
    assert "did not finish within 4000 ms" in result["first"]
    assert "did not finish within 4000 ms" in result["second"]
    assert result["elapsed"] < 8
    assert result["second_elapsed"] < 1
    assert ranks[0].code == 0


def test_ranks_that_disagree_on_the_size(launch: Launcher) -> None:
    for result in results(launch("mismatch", 2, timeout=20)):
        assert "SwitchML" in result["first"]


@pytest.mark.parametrize("method", ["env", "tcp", "file"])
def test_init_methods(launch: Launcher, tmp_path: Path, method: str) -> None:
    where = {"env": "", "tcp": f"127.0.0.1:{free_port()}", "file": f"{tmp_path}/s"}
    arguments = {"sizes": [1, 1000], "init_method": f"{method}://{where[method]}"}
    results(launch("sums", 2, arguments=arguments))


def test_torchs_own_launcher(launch: Launcher, torch_launcher: list[str]) -> None:
    (log,) = launch.torchrun("sums", 2, torch_launcher, {"sizes": [1, 1000]})
    assert log.code == 0, log.out + log.err
    assert log.out.count("RESULT ") == 2


def test_debug_detail(launch: Launcher) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    results(launch("sums", 2, arguments={"sizes": [1, 1000]}, env=env))
    results(launch("train", 2, arguments={"steps": 2}, env=env), trained=True)


@pytest.mark.parametrize(
    ("case", "world", "arguments", "delegated"),
    [
        ("send_and_receive", 3, {}, 0),
        ("reduce_in_group", 2, {}, 0),
        ("reduce_in_group", 3, {}, 0),
        ("averaged_sgd", 3, {"epochs": 2}, 32),
    ],
)
def test_tutorial_programs(
    launch: Launcher, case: str, world: int, arguments: dict[str, object], delegated: int
) -> None:
    ours = results(launch(case, world, arguments=arguments), trained=True)
    for result in ours:
        assert result["report"]["calls"] == delegated
    if case == "averaged_sgd":
        stock = results(launch(case, world, arguments=arguments, preload=False), trained=True)
        for mine, reference in zip(ours, stock):
            assert mine["weights"] == ours[0]["weights"]
            assert mine["losses"] == pytest.approx(reference["losses"], rel=1e-4)


def test_hosts_of_two_ranks_by_the_lines_of_the_documentation(
    launch: Launcher, tmp_path: Path
) -> None:
    if Version(version_of(launch.python)) < Version("1.10"):
        pytest.skip("a hook's bucket has buffer() since PyTorch 1.10: make test-pinned PIN=1.10.0")
    page = (REPOSITORY / "docs" / "hosts.md").read_text()
    (lines,) = (block for block in page.split("```") if "\ndef hook" in block)
    own = ("dist.init_process_group(", "model = ", "model(")  # those of the test take their place
    path = tmp_path / "recipe.py"
    path.write_text(
        "".join(
            line
            for line in lines.partition("\n")[2].splitlines(keepends=True)
            if not line.startswith(own)
        )
    )
    arguments, env = {"path": str(path)}, {"LOCAL_WORLD_SIZE": "2"}
    check_training(launch("hierarchies:recipe", 4, arguments=arguments, per_rank=LEADERS, env=env))
