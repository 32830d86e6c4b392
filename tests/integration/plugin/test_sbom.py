"""SBOM in the plugin's wheel, and the libraries that a linker wrote into shared objects."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support import bill
from support.torch import Plugin, version_of

from patchgen.core import sbom
from patchgen.errors import TreeError
from patchgen.extras.install.plugin import bundle
from patchgen.system import files, wheel


def read(path: str | Path) -> dict[str, dict[str, Any]]:
    """SBOMs of a wheel by name, each as its schema wants it and in RECORD."""
    with wheel.reading(str(path), TreeError) as opened, zipfile.ZipFile(path) as archive:
        names = [name for name in opened.names if ".dist-info/sboms/" in name]
        texts = {os.path.basename(name): archive.read(name).decode() for name in names}
    return {name: bill.checked(text) for name, text in texts.items()}


def shared(path: Path, *options: str) -> str:
    """A shared object that needs what the options name."""
    command = ["cc", "-shared", "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed"]
    subprocess.run([*command, f"-L{path.parent}", *options, "-o", path], check=True)
    return str(path)


def glog_package() -> str:
    """Return the package of libglog.so.1, whose name differs between releases of Debian."""
    found = subprocess.check_output(["dpkg-query", "--search", "*/libglog.so.1"], text=True)
    return found.partition(":")[0]


def test_libraries_have_the_packages_of_dpkg_and_conda(tmp_path: Path) -> None:
    libraries = tmp_path / "lib"
    libraries.mkdir()
    for name in ("conda", "nobody", "torch_cpu"):
        shared(libraries / f"lib{name}.so")
    (tmp_path / "conda-meta").mkdir()
    record = {"name": "some", "version": "1.2", "build": "0", "subdir": "linux-64"}
    record_file = tmp_path / "conda-meta" / "some-1.2-0.json"
    record_file.write_text(json.dumps({**record, "files": ["lib/libconda.so"]}))
    names = ("glog", "conda", "nobody", "torch_cpu", "m")
    made = shared(libraries / "_C.so", *(f"-l{name}" for name in names))
    environ = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    found = {one["bom-ref"]: one for one in sbom.find_libraries([made], environ)}
    package = glog_package()
    command = ["dpkg-query", "--show", "--showformat=${Version} ${Architecture}", package]
    version, arch = subprocess.check_output(command, text=True).split()
    assert found.keys() == {"libglog.so.1", "libconda.so", "libnobody.so"}
    glog = found["libglog.so.1"]
    assert (glog["name"], glog["version"]) == (package, version)
    assert f"?arch={arch}&distro=debian-" in glog["purl"]
    assert glog["purl"].endswith("&upstream=google-glog")
    assert found["libconda.so"]["purl"] == "pkg:conda/some@1.2?build=0&subdir=linux-64"
    digest = files.sha256(str(libraries / "libnobody.so"))
    assert found["libnobody.so"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert "purl" not in found["libnobody.so"]
    (libraries / "libnobody.so").unlink()
    (gone,) = (one for one in sbom.find_libraries([made], environ) if "nobody" in one["name"])
    assert gone == {"bom-ref": "libnobody.so", "type": "library", "name": "libnobody.so"}


def test_the_wheel_of_the_plugin_lists_what_it_is_made_from(plugin: Plugin) -> None:
    (output,) = read(plugin.wheel).values()
    found = {one["bom-ref"]: one for one in output["components"]}
    main = output["metadata"]["component"]
    assert (main["name"], f"torch_switchml-{main['version']}-" in plugin.wheel.name) == (
        "torch-switchml", True,
    )  # fmt: skip
    assert found["pytorch"]["description"] == f"torch {version_of(plugin.torch)}"
    assert "?" in found["pytorch"]["purl"], "neither of the torches is PyPI's"
    assert found["switchml-simulator"]["hashes"]
    assert found["libglog.so.1"]["purl"].startswith(f"pkg:deb/debian/{glog_package()}@")
    assert found["program:c++"]["scope"] == "excluded"
    assert {"libtorch_cpu.so", "libstdc++.so.6"}.isdisjoint(found)
    (parts,) = (one["dependsOn"] for one in output["dependencies"] if one["ref"] == "main")
    assert {"pytorch", "libglog.so.1"} <= {*parts}


def test_auditwheels_own_stays_beside_it(plugin: Plugin, tmp_path: Path) -> None:
    pytest.importorskip("auditwheel", reason="needs the extra `bundle`")
    made = bundle.write(str(plugin.wheel), str(tmp_path), os.environ)
    before, after = read(plugin.wheel), read(made.path)
    assert after.keys() == {"auditwheel.cdx.json", "switchml.cdx.json"}
    assert after["switchml.cdx.json"] == before["switchml.cdx.json"]
