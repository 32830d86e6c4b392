from __future__ import annotations

import json
import zlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from support.wheelhouse import (
    COMMIT,
    COMMITS,
    GLOO,
    INPUTS,
    OPTIONS,
    TOOLCHAIN,
    describe,
    make_inputs,
)  # fmt: skip

from patchgen import __version__
from patchgen.core.library import homes
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.values import WheelInputs
from patchgen.system.files import measure
from patchgen.system.statement import write


def definition(inputs: WheelInputs = INPUTS) -> Any:  # JSON
    predicate: Any = describe(inputs).statement()["predicate"]
    return predicate["buildDefinition"]


def test_it_is_a_statement_about_the_wheel() -> None:
    made: Any = describe().statement()
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["predicateType"] == "https://slsa.dev/provenance/v1"
    assert made["subject"] == [
        {
            "name": "torch-1.7.1+switchml.dpdk-cp39-cp39-linux_x86_64.whl",
            "digest": {"sha256": "1" * 64},
            "annotations": {"size": 17},
        }
    ]
    assert made["predicate"]["runDetails"]["builder"]["version"] == {
        "cyclonedx-python-lib": version("cyclonedx-python-lib"),
        "switchml-patch": __version__,
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }


def test_what_was_asked_for_and_what_it_was_made_with() -> None:
    assert definition()["externalParameters"] == {
        "pin": {"name": "v1.7.1", "commit": COMMIT},
        "flags": ["DPDK"],
        "homes": {
            "SWITCHML_HOME": "/opt/s\\xff",
            "GRPC_HOME": "/opt/third_party/grpc/build",
            "DPDK_HOME": "/opt/third_party/dpdk/build",
        },
        "variables": {"USE_CUDA": "0"},
    }

    assert definition()["internalParameters"] == {
        "version": "1.7.1+switchml.dpdk",
        "toolchain": TOOLCHAIN,
        "SOURCE_DATE_EPOCH": 1607370004,
        "buildPath": "/build/source",
        "isolation": {"namespaces": "mount, network", "network": {"compile": "loopback"}},
    }


def test_what_it_was_made_from() -> None:
    assert definition()["resolvedDependencies"] == [
        {
            "name": "pytorch",
            "uri": f"git+https://github.com/pytorch/pytorch.git@{COMMIT}",
            "digest": {"gitCommit": COMMIT},
        },
        {
            "name": "third_party/gloo",
            "uri": f"git+https://github.com/facebookincubator/gloo@{GLOO}",
            "digest": {"gitCommit": GLOO},
        },
        {"name": "switchml_pytorch.patch", "digest": {"sha256": INPUTS.patched.patch.sha256}},
        {
            "name": "libswitchml-client.a",
            "digest": {"sha256": "3" * 64},
            "annotations": {"simulator": True},
        },
        {"name": "conda-lock.yml", "digest": {"sha256": "4" * 64}},
    ]


def test_what_there_is_none_of_is_left_out() -> None:
    left_out = ["third_party/x"]
    given: dict[str, Any] = {"accepted": ("no-blas",), "left_out": left_out}
    bare = definition(make_inputs(client=None, lock=None, **given))
    names = [one["name"] for one in bare["resolvedDependencies"]]
    assert names == ["pytorch", "third_party/gloo", "switchml_pytorch.patch"]
    assert bare["externalParameters"]["accepted"] == ["no-blas"], "the user went on without"
    assert bare["externalParameters"]["without"] == left_out, "also by an earlier build"


def test_without_namespaces_the_reason_and_the_path_are_recorded() -> None:
    own = replace(INPUTS, sandbox=Sandbox("/w", "/w", "refused"))
    found = definition(own)["internalParameters"]
    assert found["isolation"]["namespaces"] == "refused"
    assert found["buildPath"] == "/w/source"


def test_the_provenance_of_the_client_library_is_in_that_of_the_wheel(tmp_path: Path) -> None:
    options = replace(OPTIONS, switchml_home=str(tmp_path))
    bare = make_inputs(options=options)
    assert "client" not in definition(bare)["internalParameters"]
    library = describe()
    (tmp_path / "lib").mkdir()
    write(str(tmp_path / homes.ARCHIVE), library)
    assert definition(bare)["internalParameters"]["client"] == library.statement()


def test_the_same_values_give_the_same_bytes(tmp_path: Path) -> None:
    wheel = str(tmp_path / "a.whl")
    path = write(wheel, describe())
    assert path == f"{wheel}.provenance.json"
    first = measure(path)
    turned = dict(reversed(COMMITS.items()))
    assert measure(write(wheel, describe(make_inputs(commits=turned)))) == first
    with open(path, encoding="ascii") as file:
        assert json.load(file) == describe().statement()
