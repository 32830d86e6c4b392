"""Libraries in the plugin's wheel: those that may travel, and those that may not."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from support.torch import Plugin, located

from patchgen.errors import ToolError
from patchgen.extras.install.plugin import bundle
from patchgen.extras.install.plugin import wheel as plugin_wheel

pytest.importorskip("auditwheel", reason="needs the extra `bundle`")
METADATA = plugin_wheel.Metadata("1", "switchml", "cp311-cp311-linux_x86_64", "torch==1")


def library(directory: Path, name: str, *needed: str) -> Path:
    """A shared library that needs others."""
    path = directory / name
    uses = [str(directory / one) for one in needed]
    command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-x", "none", *uses]
    options = [f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-o", str(path)]
    subprocess.run([command[0], *options, *command[1:]], check=True)
    return path


def wheel(directory: Path, *needed: str) -> str:
    """A wheel whose extension module needs libraries."""
    module = library(directory, "_C.so", *needed).read_bytes()
    contents = {f"{plugin_wheel.PACKAGE}/_C.so": module}
    return plugin_wheel.write(str(directory), contents, METADATA)


def environ(directory: Path) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(directory)}


def test_libraries_of_drivers_stay_outside(tmp_path: Path) -> None:
    for name in ("libibverbs.so.1", "libnl-3.so.200", "libtorch_cpu.so"):
        library(tmp_path, name)
    library(tmp_path, "libgrpc++.so.1.51", "libnl-3.so.200")
    plain = wheel(tmp_path, "libibverbs.so.1", "libgrpc++.so.1.51", "libtorch_cpu.so")
    made = bundle.write(plain, str(tmp_path / "dist"), environ(tmp_path))
    assert made.inside == ("libgrpc++.so.1.51",)
    assert made.outside == ("libibverbs.so.1", "libnl-3.so.200")
    assert "manylinux" in made.path
    assert os.listdir(tmp_path / "dist") == [os.path.basename(made.path)]


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("librte_eal.so.23", r"^librte_eal\.so\.23 is of DPDK, whose shared libraries load"),
        ("libgone.so.1", r'cannot be bundled: .*"libgone\.so\.1".* could not be located'),
    ],
)
def test_a_library_that_may_not_travel_is_named(tmp_path: Path, name: str, output: str) -> None:
    library(tmp_path, name)
    plain = wheel(tmp_path, name)
    if "gone" in name:
        (tmp_path / name).unlink()
    with pytest.raises(ToolError, match=output):
        bundle.write(plain, str(tmp_path / "dist"), environ(tmp_path))
    assert not (tmp_path / "dist").exists()


def test_the_plugin_loads_what_it_has_brought(plugin: Plugin, torch: Path, tmp_path: Path) -> None:
    made = [
        bundle.write(str(plugin.wheel), str(tmp_path / name), os.environ) for name in ("one", "two")
    ]
    assert Path(made[0].path).read_bytes() == Path(made[1].path).read_bytes()
    assert made[0].outside == ()
    with zipfile.ZipFile(made[0].path) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import torch, torch_switchml._C as own; own.report(); "
        "print(open('/proc/self/maps').read())"
    )
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{located(torch).parent}"}
    mapped = subprocess.check_output([torch, "-c", code], env=environ, text=True)
    brought = {path.name for path in (tmp_path / "site" / "torch_switchml.libs").iterdir()}
    assert len(brought) == len(made[0].inside)
    for name in brought:
        assert f"{tmp_path}/site/torch_switchml.libs/{name}\n" in mapped
    assert "/libboost_program_options.so" not in mapped
