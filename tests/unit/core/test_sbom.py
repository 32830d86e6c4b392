"""SBOM of what a provenance describes, as CycloneDX's own schema and library read it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packageurl import PackageURL
from support import bill
from support.wheelhouse import COMMIT, INPUTS, describe

from patchgen.core import sbom
from patchgen.core.library import origin
from patchgen.core.wheel import provenance
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


# Of each type, and of all, as purl's specification has them. The library knows some of them.
QUALIFIERS = {
    "conda": {"build", "channel", "subdir", "type"},
    "deb": {"arch", "distro", "upstream"},
    "generic": set(),
    "github": set(),
    "pypi": set(),
}
ALL = {"repository_url", "vcs_url"}
URL = r"(?:git\+)?(?:https|ssh|file)://\S+"


def check_purl(text: str) -> PackageURL:
    """Return a purl that is valid by its type, canonical, and has qualifiers that are URLs."""
    purl = PackageURL.from_string(text)
    assert not [one for one in purl.validate() if one.severity.value != "info"], text
    assert purl.to_string() == text
    assert {*purl.qualifiers} <= QUALIFIERS[purl.type] | ALL
    assert all(re.fullmatch(URL, purl.qualifiers[name]) for name in ALL & {*purl.qualifiers})
    return purl


def components(content: bytes) -> dict[str, Any]:
    """Components by their references, once the schema has passed the whole."""
    data = bill.checked(content.decode())
    assert data["specVersion"] == "1.6"
    for one in (data["metadata"]["component"], *data["components"]):
        if "purl" in one:
            check_purl(one["purl"])
    return {one["bom-ref"]: one for one in data["components"]}


def test_a_wheel_of_a_client_library_with_fixes() -> None:
    made = provenance.describe(INPUTS)
    made = replace(made, resolved={**made.resolved, "client": client().statement()})
    content = sbom.compose(made, [], "torch", INPUTS.request.version)
    found = components(content)
    source = f"vcs_url=git%2Bhttps://github.com/pytorch/pytorch.git%40{COMMIT}"
    assert found["pytorch"]["purl"] == f"pkg:pypi/torch@1.7.1?{source}"
    (vcs,) = found["pytorch"]["externalReferences"]
    assert vcs == {"type": "vcs", "url": f"git+https://github.com/pytorch/pytorch.git@{COMMIT}"}
    gloo = INPUTS.source.commits["third_party/gloo"]
    assert found["third_party/gloo"]["purl"] == f"pkg:github/facebookincubator/gloo@{gloo}"
    assert found["switchml_pytorch.patch"]["hashes"][0]["content"] == INPUTS.patched.patch.sha256
    library = found["p4app-switchML"]
    assert library["purl"] == f"pkg:github/p4lang/p4app-switchml@{CLIENT_COMMIT}"
    assert library["hashes"][0]["content"] == made.find_digest(origin.ARCHIVE)
    (patch,) = library["pedigree"]["patches"]
    assert {one["id"] for one in patch["resolves"]} == {"honest", "waits"}
    assert (found["program:cmake"]["version"], found["program:cmake"]["scope"]) == (
        "3.18.4", "excluded",
    )  # fmt: skip
    report = json.loads(content)
    main = report["metadata"]["component"]["purl"]
    assert main == f"pkg:pypi/torch@1.7.1%2Bswitchml.dpdk?{source}"
    assert report["metadata"]["timestamp"] == "2020-12-07T19:40:04+00:00"  # of SOURCE_DATE_EPOCH


INDEX = "https://download.pytorch.org/whl"
SOURCE = f"git+https://github.com/pytorch/pytorch.git@{COMMIT}"
DEBIAN = PackageURL("deb", "debian", "python3-torch", "1.13.1+dfsg-4", {"distro": "debian-12"})


@pytest.mark.parametrize(
    ("version", "commit", "package", "purl"),
    [
        ("2.6.0", COMMIT, None, {}),
        ("2.13.0+cpu", COMMIT, None, {"repository_url": f"{INDEX}/cpu"}),
        ("2.6.0+cu124", COMMIT, None, {"repository_url": f"{INDEX}/cu124"}),
        ("2.6.0+rocm6.2.4", "Unknown", None, {"repository_url": f"{INDEX}/rocm6.2.4"}),
        ("2.6.0+switchml", COMMIT, None, {"vcs_url": SOURCE}),
        ("2.7.0a0+gitdeadbee", COMMIT, None, {"vcs_url": SOURCE}),
        ("2.7.0.dev20250101", COMMIT, None, {"vcs_url": SOURCE}),
        ("1.13.0a0", "Unknown", None, {}),
        ("1.13.0a0", "Unknown", DEBIAN, {"distro": "debian-12"}),
    ],
)
def test_a_torch_is_named_by_where_it_came_from(
    version: str, commit: str, package: PackageURL | None, purl: dict[str, str]
) -> None:
    made = replace(client(), kind="plugin", resolved={
        "toolchain": TOOLCHAIN, "torch": {"version": version, "commit": commit},
    })  # fmt: skip
    content = sbom.compose(made, [], "torch-switchml", "2.6.0+switchml", package)
    found = components(content)["pytorch"]
    shown = check_purl(found["purl"])
    assert (shown.type, shown.qualifiers) == (package.type if package else "pypi", purl)
    assert found["description"] == f"torch {version}"
    assert bool(found.get("externalReferences")) == (commit == COMMIT)
    main = json.loads(content)["metadata"]["component"]["purl"]
    assert main == "pkg:generic/torch-switchml@2.6.0%2Bswitchml"


@pytest.mark.parametrize(
    ("address", "package", "vcs"),
    [
        ("https://github.com/Owner/Name.git", "github/owner/name", ""),
        ("git@github.com:owner/name.git", "github/owner/name", ""),
        ("https://gitlab.com/own/fork.git", "generic/fork", "https://gitlab.com/own/fork.git"),
        ("git@example.com:own/fork.git", "generic/fork", "ssh://git%40example.com/own/fork.git"),
        ("https://notgithub.com/own/fork", "generic/fork", "https://notgithub.com/own/fork"),
    ],
)
def test_a_submodule_is_named_by_its_repository(address: str, package: str, vcs: str) -> None:
    made = describe()
    one = statement.describe_commit("third_party/one", address, CLIENT_COMMIT)
    made = replace(made, materials=(*made.materials, one))
    found = components(sbom.compose(made, [], "torch"))["third_party/one"]
    source = f"?vcs_url=git%2B{vcs}%40{CLIENT_COMMIT}" if vcs else ""
    assert found["purl"] == f"pkg:{package}@{CLIENT_COMMIT}{source}"


@pytest.mark.parametrize(
    ("url", "qualifiers"),
    [
        (
            "https://conda.anaconda.org/conda-forge/linux-64/glog-0.5.0-0.conda",
            {
                "channel": "conda-forge",
                "repository_url": "https://conda.anaconda.org",
                "type": "conda",
            },
        ),
        (
            "https://repo.anaconda.com/pkgs/main/linux-64/glog-0.5.0-0.tar.bz2",
            {"channel": "main", "type": "tar.bz2"},
        ),
        (
            "https://me:secret@example.com:8443/t/token/mirror/own/linux-64/glog-0.5.0-0.conda",
            {
                "channel": "own",
                "repository_url": "https://example.com:8443/mirror",
                "type": "conda",
            },
        ),
        ("file:///srv/own/linux-64/glog-0.5.0-0.conda",
         {"channel": "own", "repository_url": "file:///srv", "type": "conda"}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_conda_package_is_named_by_its_channel(
    tmp_path: Path, url: str, qualifiers: dict[str, str]
) -> None:
    """Also a torch, which lies deeper in the prefix than a library."""
    root = tmp_path / "lib/python3.8/site-packages/torch"
    root.mkdir(parents=True)
    (root / "version.py").touch()
    (tmp_path / "conda-meta").mkdir()
    files = ["lib/python3.8/site-packages/torch/version.py"]
    record = {"name": "pytorch", "version": "1.7.1", "build": "0", "subdir": "linux-64"}
    (tmp_path / "conda-meta/one.json").write_text(
        json.dumps({**record, "files": files, "url": url})
    )
    purl = sbom.find_torch(str(root), {"PATH": ""})
    assert purl is not None
    assert purl.qualifiers == {"build": "0", "subdir": "linux-64", **qualifiers}
    assert check_purl(purl.to_string()) == purl


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
