"""Validated by CycloneDX's own schema, which its library brings along."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.wheelhouse import COMMIT, GLOO, PROVENANCE

from patchgen.core.wheel import sbom
from patchgen.core.wheel.bom import document
from patchgen.core.wheel.env.lockfile import Lock, Package
from patchgen.core.wheel.linked import DebianPackage, Library, Linked
from patchgen.core.wheel.provenance import WheelInputs
from patchgen.errors import ToolError

CHANNEL = "https://conda.anaconda.org/conda-forge"
LOCK = Lock(
    platform="linux-64",
    packages=(
        Package(
            "cmake", "3.26.4", "h0_1", f"{CHANNEL}/linux-64/cmake-3.26.4-h0_1.conda",
            "5" * 32, "6" * 64, (("libuv", ">=1"), ("__glibc", ">=2.17")),
        ),
        Package(
            "libuv", "1.44", "0", f"{CHANNEL}/noarch/libuv-1.44-0.tar.bz2", "7" * 32, "8" * 64
        ),
    ),
    channels=(CHANNEL,),
    source="environment.yml",
    content_hash="9" * 64,
)  # fmt: skip
LIBC = DebianPackage("libc6", "2.36-9+deb12u1", "amd64", "debian")
LINKED = Linked(
    frozenset({"", "third_party/gloo"}),
    (
        Library("libc.so.6", debian=LIBC),
        Library("libcuda.so.1"),
        Library("libm.so.6", debian=LIBC),
        Library("libuv.so.1", conda="libuv"),
    ),
)
NOTHING = replace(LINKED, libraries=())
WHEEL = "pkg:pypi/torch@1.7.1%2Bswitchml.dpdk"
CMAKE = "pkg:conda/cmake@3.26.4?build=h0_1&channel=conda-forge&subdir=linux-64&type=conda"
LIBUV = "pkg:conda/libuv@1.44?build=0&channel=conda-forge&subdir=noarch&type=tar.bz2"


def describe(
    provenance: WheelInputs = PROVENANCE, lock: Lock | None = LOCK, linked: Linked = NOTHING
) -> Any:
    text = document(provenance, lock, linked)
    assert objection(text) is None
    return json.loads(text)


def objection(text: str) -> object:
    """Objection of the schema of CycloneDX, or None."""
    # Seconds of imports, which no other process of the run needs.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


def components(data: Any) -> dict[str, Any]:  # JSON
    return {one["bom-ref"]: one for one in data["components"]}


def sha256(digit: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digit * 64}]


def test_the_wheel() -> None:
    metadata = describe()["metadata"]
    assert metadata["timestamp"] == "2020-12-07T19:40:04+00:00"
    wheel = metadata["component"]
    assert wheel["name"] == "torch"
    assert wheel["version"] == "1.7.1+switchml.dpdk"
    assert wheel["purl"] == WHEEL
    assert wheel["hashes"] == sha256("1")


def test_what_it_consists_of() -> None:
    data = describe()
    found = components(data)
    assert found["source:pytorch"]["purl"] == f"pkg:github/pytorch/pytorch@{COMMIT}"
    gloo = found["source:third_party/gloo"]
    assert gloo["purl"] == f"pkg:github/facebookincubator/gloo@{GLOO}"
    assert gloo["version"] == GLOO
    assert found["patch"]["hashes"] == sha256("2")
    assert found["client"]["hashes"] == sha256("3")
    assert found["client"]["properties"] == [{"name": "switchml-patch:simulator", "value": "true"}]
    needs = {one["ref"]: one.get("dependsOn", []) for one in data["dependencies"]}
    assert needs[WHEEL] == ["client", "patch", "source:pytorch", "source:third_party/gloo"]


def test_the_lock_is_of_the_build_only() -> None:
    data = describe()
    found = components(data)
    assert {ref for ref, one in found.items() if one.get("scope") == "excluded"} == {CMAKE, LIBUV}
    assert {one["alg"]: one["content"] for one in found[CMAKE]["hashes"]} == {
        "MD5": "5" * 32,
        "SHA-256": "6" * 64,
    }
    needs = {one["ref"]: one.get("dependsOn", []) for one in data["dependencies"]}
    assert needs[CMAKE] == [LIBUV]


def test_a_repository_that_was_not_compiled_is_left_out() -> None:
    data = describe(linked=replace(NOTHING, repositories=frozenset({""})))
    assert {ref for ref in components(data) if ref.startswith("source:")} == {"source:pytorch"}
    data = describe(linked=replace(NOTHING, repositories=None))
    for ref in ("source:pytorch", "source:third_party/gloo"):
        compiled = {"name": "switchml-patch:compiled", "value": "unknown"}
        assert compiled in components(data)[ref]["properties"]


def test_what_has_the_shared_objects_that_it_needs() -> None:
    data = describe(linked=LINKED)
    found = components(data)
    libc = "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64"
    assert found[libc]["purl"] == libc
    assert [one["value"] for one in found[libc]["properties"]] == ["libc.so.6", "libm.so.6"]
    assert "purl" not in found["library:libcuda.so.1"]
    assert found[LIBUV]["scope"] == "required"
    assert found[LIBUV]["properties"] == [{"name": "switchml-patch:needed", "value": "libuv.so.1"}]
    assert found[CMAKE]["scope"] == "excluded"
    needs = {one["ref"]: one.get("dependsOn", []) for one in data["dependencies"]}
    assert {libc, LIBUV, "library:libcuda.so.1"} < {*needs[WHEEL]}


def test_without_a_lock_and_a_client_library() -> None:
    found = components(describe(replace(PROVENANCE, client_sha256=None), None))
    assert found.keys() == {"source:pytorch", "source:third_party/gloo", "patch"}


def test_a_repository_that_is_elsewhere_or_there_twice() -> None:
    address = "https://gitlab.com/libeigen/eigen.git"
    places = {"third_party/eigen": GLOO, "third_party/onnx/eigen": GLOO}
    found = components(
        describe(
            replace(PROVENANCE, commits=places, addresses=dict.fromkeys(places, address)),
            linked=replace(NOTHING, repositories=frozenset(places)),
        )
    )
    for place in places:
        purl = found[f"source:{place}"]["purl"]
        assert purl.startswith(f"pkg:generic/eigen@{GLOO}?vcs_url=git%2Bhttps://gitlab.com/")


def test_the_same_values_give_the_same_bytes() -> None:
    turned = replace(LOCK, packages=LOCK.packages[::-1])
    assert document(PROVENANCE, turned, LINKED) == document(PROVENANCE, LOCK, LINKED)
    other = replace(PROVENANCE, wheel=replace(PROVENANCE.wheel, sha256="a" * 64))
    assert describe(other)["serialNumber"] != describe()["serialNumber"]


def test_it_is_written_beside_the_wheel(tmp_path: Path) -> None:
    path = sbom.write(str(tmp_path / "a.whl"), PROVENANCE, LOCK, LINKED)
    assert path == str(tmp_path / "a.whl.cdx.json")
    with open(path, encoding="ascii") as file:
        assert file.read() == document(PROVENANCE, LOCK, LINKED)


def test_a_library_that_is_missing_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        ToolError, match=r"^cyclonedx-python-lib and pyelftools: not installed; .* pip install"
    ):
        sbom.write(str(tmp_path / "a.whl"), PROVENANCE, LOCK, LINKED)
