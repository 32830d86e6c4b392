"""What is told of a torch, from what its interpreter and its ranks answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.core import verify
from patchgen.core.verify import VerifyRequest, expected, libraries, summing
from patchgen.core.verify.expected import Expected
from patchgen.core.verify.subject import Answer, Event, Subject, make_environ
from patchgen.errors import OptionsError
from patchgen.system.checks import find_failed
from patchgen.system.process import CompletedRun

NAMES = {"one": "first", "two": "second"}
FINE = CompletedRun(0, b"", b"")


def answer(*events: Mapping[str, object], ended: CompletedRun = FINE) -> Answer:
    return Answer({str(event["step"]): dict(event) for event in events}, ended)


@pytest.mark.parametrize(
    ("name", "version", "flags"),
    [
        ("torch-1.7.1+switchml-cp39-cp39-linux_x86_64.whl", "1.7.1+switchml", ()),
        (
            "torch-1.7.1+switchml.dpdk.mlx5-cp39-cp39-linux_x86_64.whl",
            "1.7.1+switchml.dpdk.mlx5",
            ("DPDK", "MLX5"),
        ),
        (
            "torch-1.7.1%2Bswitchml.rdma.debug-cp37-cp37m-linux_x86_64.whl",
            "1.7.1+switchml.rdma.debug",
            ("RDMA", "DEBUG"),
        ),
        (
            "torch-1.7.1+switchml_dpdk_mlx4-1-cp39-cp39-linux_x86_64.whl",
            "1.7.1+switchml.dpdk.mlx4",
            ("DPDK", "MLX4"),
        ),
        ("torch-1.7.1_switchml.dpdk-cp39-cp39-any.whl", "1.7.1+switchml.dpdk", ("DPDK",)),
        ("torch-1.7.1-cp39-cp39-manylinux1_x86_64.whl", "1.7.1", None),
        ("torch-1.7.1+cu101-cp39-cp39-linux_x86_64.whl", "1.7.1+cu101", None),
    ],
)
def test_the_name_of_a_wheel_says_version_and_flags(
    name: str, version: str, flags: tuple[str, ...] | None
) -> None:
    assert expected.read_wheel_name(f"/somewhere/{name}").expected == Expected(version, flags)


@pytest.mark.parametrize("name", ["torch.whl", "numpy-1.19.5-cp39-cp39-linux_x86_64.whl", "x.whl"])
def test_what_is_no_name_of_a_wheel_of_torch_is_refused(name: str) -> None:
    with pytest.raises(OptionsError, match=r"not the name of a wheel of torch"):
        verify.verify(VerifyRequest(name, {}))


@pytest.mark.parametrize(
    ("wanted", "version", "flags", "message"),
    [
        (Expected("1.7.1+switchml", ()), "1.7.1+switchml", "", []),
        (Expected(None, None), "9", "RDMA", []),
        (Expected(None, ("MLX5", "DPDK")), "1.7.1", "DPDK MLX5", []),
        (
            Expected("1.7.1+switchml.dpdk", ("DPDK",)),
            "1.7.1+switchml",
            "",
            ["the version is 1.7.1+switchml, not 1.7.1+switchml.dpdk",
             "patched with no flags, not with the flags DPDK"],
        ),
        (Expected(None, ()), "1.7.1", "RDMA DEBUG",
         ["patched with the flags RDMA DEBUG, not with no flags"]),
    ],
)  # fmt: skip
def test_what_differs_from_what_was_asked_for(
    wanted: Expected, version: str, flags: str, message: list[str]
) -> None:
    found = expected.problems(wanted, version, flags)
    assert list(found[:-1]) == message
    assert not found or "build again" in found[-1]


def test_missing_libraries_are_named_with_who_needs_them() -> None:
    out = (
        "/a/libtorch_python.so:\n"
        "\tlinux-vdso.so.1 (0x1)\n"
        "\tlibgrpc++.so.1 => not found\n"
        "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"
        "/a/_C.so:\n"
        "\tlibgrpc++.so.1 => not found\n"
        "/a/_C.so: /lib/libc.so.6: version `GLIBC_2.99' not found (required by /a/_C.so)\n"
    )
    assert libraries.parse(out, "/a/libtorch_python.so") == {
        "libgrpc++.so.1": {"libtorch_python.so", "_C.so"},
        "GLIBC_2.99": {"_C.so"},
    }
    assert libraries.parse("\tliba.so => not found\n", "/a/x.so") == {"liba.so": {"x.so"}}


def test_each_step_is_a_check_with_what_rank_0_found() -> None:
    done = [
        answer({"step": "one", "found": f"by {rank}"}, {"step": "two", "problems": []})
        for rank in range(2)
    ]
    checks = summing.merge_answers(done, NAMES)
    assert [(check.name, check.found) for check in checks] == [
        ("first", "by 0"), ("second", ""), (summing.END, "")
    ]  # fmt: skip
    assert not find_failed(checks)


def test_a_problem_has_its_rank_unless_all_have_it() -> None:
    first = {"step": "one", "problems": ["same"]}
    done = [
        answer(first, {"step": "two", "problems": []}),
        answer(first, {"step": "two", "problems": ["other"]}),
    ]
    checks = summing.merge_answers(done, NAMES)
    assert [check.problems for check in checks] == [("same",), ("rank 1: other",), ()]


def test_after_a_rank_that_died_nothing_more_is_reported() -> None:
    done = [
        answer({"step": "one", "error": "RuntimeError: closed\nby peer", "last": True}),
        answer(ended=CompletedRun(-11, b"", b"a\n\nb\nc\nd\n")),
    ]
    (check,) = summing.merge_answers(done, NAMES)
    assert check.problems == (
        "rank 0: RuntimeError: closed",
        "rank 1: died of SIGSEGV",
        "rank 1: its output: b",
        "rank 1: its output: c",
        "rank 1: its output: d",
    )


def test_what_a_torch_can_do_without_is_not_required() -> None:
    events: list[dict[str, object]] = [
        {"step": "one", "problems": ["none"], "optional": True},
        {"step": "two"},
    ]
    checks = summing.merge_answers([answer(*events), answer(*events)], NAMES)
    assert [check.required for check in checks] == [False, True, True]
    assert not find_failed(checks)
    wrong = answer({"step": "one", "problems": ["wrong"]}, {"step": "two"})
    assert find_failed(summing.merge_answers([answer(*events), wrong], NAMES))


def test_a_known_cause_is_reported_only_of_ranks_that_fail_at_their_end() -> None:
    events = [{"step": step} for step in NAMES]
    assert not find_failed(summing.merge_answers([answer(*events)], NAMES, cause="known"))
    crashed = answer(*events, ended=CompletedRun(-11, b"", b"", ""))
    checks = summing.merge_answers([answer(*events), crashed], NAMES, cause="known")
    assert [check.problems for check in checks] == [(), (), ("rank 1: died of SIGSEGV", "known")]


@pytest.mark.parametrize(("may_crash", "cause", "holds"), [
    (True, "known", True), (False, "known", False), (True, "", False)
])  # fmt: skip
def test_a_crash_of_a_known_cause_can_be_accepted(
    *, may_crash: bool, cause: str, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_target: Subject, _name: str, jobs: Sequence[Event], _own: object) -> list[Answer]:
        events = [{"step": step} for step in jobs[0]["steps"]]
        crashed = CompletedRun(-11 if "train" in jobs[0]["steps"] else 0, b"", b"", "")
        return [answer(*events, ended=crashed) for _ in jobs]

    monkeypatch.setattr(summing, "run", run)
    one = Subject("python", None, str(tmp_path), 1, {})
    checks = summing.check(one, "torch", (), simulated=True, cause=cause, may_crash=may_crash)
    assert checks[-1].problems[0] == "died of SIGSEGV"
    assert (not find_failed(checks)) is holds


def test_what_is_wrong_without_switchml_is_reported_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ranks still said of SwitchML is their word that they went no further."""
    wrong: list[dict[str, object]] = [
        {"step": "gloo", "problems": ["wrong"]},
        {"step": "delegate", "last": True},
    ]

    def run(_target: Subject, _name: str, jobs: Sequence[Event], _own: object) -> list[Answer]:
        alone = [{"step": step} for step in jobs[0]["steps"][:2]]
        return [answer(*alone, *wrong) for _ in jobs]

    monkeypatch.setattr(summing, "run", run)
    checks = summing.check(
        Subject("python", None, str(tmp_path), 1, {}), "torch", (), simulated=True
    )
    assert [(check.name, check.problems) for check in checks] == [
        ("matrix product", ()),
        ("singular values", ()),
        (summing.ranks(2, "without"), ("wrong",)),
        (summing.END, ()),
    ]


def test_what_would_change_the_result_is_not_in_the_environment(
    tmp_path: Path,
) -> None:
    names = ("SWITCHML_REQUIRE", "SWITCHML_MIN_NUMEL", "GLOO_DEVICE_TRANSPORT")
    theirs = {**dict.fromkeys(names, "7"), "PYTHONPATH": "/theirs"}
    one = Subject("python", None, str(tmp_path), 1, theirs)
    plain = make_environ(one, {"OWN": "1"})
    assert not [name for name in plain if name.startswith("SWITCHML_")]
    assert (plain["PYTHONPATH"], plain["GLOO_SOCKET_IFNAME"], plain["OWN"]) == (
        "/theirs",
        "lo",
        "1",
    )
    assert "GLOO_DEVICE_TRANSPORT" not in plain
    unpacked = make_environ(replace(one, unpacked="/wheel"), {})
    assert unpacked["PYTHONPATH"] == "/wheel:/theirs"
    assert plain["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "PYTHONDONTWRITEBYTECODE" not in unpacked, "the ranks find what the first has compiled"


def test_what_cannot_be_verified_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    with pytest.raises(OptionsError, match=r"give .*/bin/python$"):
        verify.verify(VerifyRequest(str(tmp_path), {}))
    with pytest.raises(OptionsError, match=r"no\.cfg: cannot be read"):
        verify.verify(VerifyRequest("python3", {}, configs=[str(tmp_path / "no.cfg")]))
