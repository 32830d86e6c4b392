"""SBOM of what a provenance describes, as CycloneDX's own schema and library read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support.wheelhouse import COMMIT, PROVENANCE

from patchgen.core import sbom
from patchgen.core.library import origin
from patchgen.core.wheel.provenance import describe
from patchgen.system import statement
from patchgen.system.files import Artifact, sha256
from patchgen.system.statement import Provenance

CLIENT_COMMIT = "0123456789" * 4
TOOLCHAIN = {"programs": {"c++": "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"}}


def client(*linked: str) -> Provenance:
    commit = statement.describe_commit(
        "p4app-switchML", "https://github.com/p4lang/p4app-switchML", CLIENT_COMMIT
    )
    return Provenance(
        origin.CLIENT,
        (Artifact(origin.ARCHIVE, 3, "5" * 64),),
        {"fixes": ["honest", "waits"]},
        {"linked": list(linked), "toolchain": TOOLCHAIN},
        (commit,),
    )


def components(content: bytes) -> dict[str, Any]:
    """Components by their references, once the schema has passed the whole."""
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode())
    assert problem is None, problem
    return {one["bom-ref"]: one for one in json.loads(content)["components"]}


def test_a_wheel_of_a_client_library_with_fixes() -> None:
    made = describe(replace(PROVENANCE, wheel=None))
    made = replace(made, resolved={**made.resolved, "client": client().statement()})
    content = sbom.compose(made, [], "torch", PROVENANCE.request.version)
    found = components(content)
    assert found["pytorch"]["purl"] == "pkg:pypi/torch@1.7.1"
    (vcs,) = found["pytorch"]["externalReferences"]
    assert vcs == {"type": "vcs", "url": f"git+https://github.com/pytorch/pytorch.git@{COMMIT}"}
    gloo = PROVENANCE.source.commits["third_party/gloo"]
    assert found["third_party/gloo"]["purl"] == f"pkg:github/facebookincubator/gloo@{gloo}"
    assert found["switchml_pytorch.patch"]["hashes"][0]["content"] == PROVENANCE.patch.sha256
    library = found["p4app-switchML"]
    assert library["purl"] == f"pkg:github/p4lang/p4app-switchml@{CLIENT_COMMIT}"
    assert library["hashes"][0]["content"] == made.find_digest(origin.ARCHIVE)
    (patch,) = library["pedigree"]["patches"]
    assert {one["id"] for one in patch["resolves"]} == {"honest", "waits"}
    assert (found["program:cmake"]["version"], found["program:cmake"]["scope"]) == (
        "3.18.4", "excluded",
    )  # fmt: skip
    report = json.loads(content)
    assert report["metadata"]["component"]["purl"] == "pkg:pypi/torch@1.7.1%2Bswitchml.dpdk"
    assert report["metadata"]["timestamp"] == "2020-12-07T19:40:04+00:00"  # of SOURCE_DATE_EPOCH


def test_the_same_inputs_give_the_same_bytes() -> None:
    """Without a clock and without chance, also in the number that GitHub's attestations need."""
    made = client()
    content = sbom.compose(made, [], origin.ARCHIVE)
    assert sbom.compose(made, [], origin.ARCHIVE) == content
    report = json.loads(content)
    assert "timestamp" not in report["metadata"]
    assert report["metadata"]["component"]["hashes"][0]["content"] == "5" * 64
    other = json.loads(sbom.compose(client("gRPC 1.51.1 (packages)"), [], origin.ARCHIVE))
    assert report["serialNumber"] != other["serialNumber"]


def test_libraries_that_are_linked_from_a_home(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdpdk.a").write_bytes(b"!<arch>\n")
    made = client(f"DPDK ({tmp_path})", "gRPC 1.51.1 (packages)")
    found = components(sbom.compose(made, [], origin.ARCHIVE))
    assert found["DPDK"]["hashes"][0]["content"] == sha256(str(tmp_path / "lib" / "libdpdk.a"))
    assert "version" not in found["DPDK"]
    assert (found["gRPC"]["version"], found["gRPC"]["purl"]) == (
        "1.51.1", "pkg:generic/grpc@1.51.1",
    )  # fmt: skip
