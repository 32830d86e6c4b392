"""The pip of an interpreter installs the plugin's wheel, or the error says what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import torch_project
from support.graft import make, python_run, site_of, venv
from support.modes import closed, umask
from support.programs import script
from support.torch import Plugin, checked, located, switchml_patch
from support.waiting import alive, until

from patchgen.core.torch import probe_torch
from patchgen.errors import ToolError
from patchgen.extras.install.plugin import installing, wheel
from patchgen.extras.install.plugin.target import PluginTarget
from patchgen.system.payload import run_pip

SHOWN = "import torch_switchml; print(torch_switchml.build)"


def write_wheel(directory: Path, build: int, requirement: str = "torch==1.2.3") -> str:
    contents = {f"{wheel.PACKAGE}/__init__.py": f"build = {build}\n".encode()}
    metadata = wheel.Metadata("1.2.3", "switchml", "py3-none-any", requirement)
    return wheel.write(str(directory), contents, metadata)


def add_pip(python: Path) -> Path:
    """Give an interpreter the pip of the one that runs the tests."""
    import pip

    pips = python.parents[1] / "pips"
    pips.mkdir()
    (pips / "pip").symlink_to(Path(pip.__file__).parent)
    (site_of(python) / "pip.pth").write_text(f"{pips}\n")
    return python


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return add_pip(venv(tmp_path / "venv"))


@pytest.fixture
def with_torch(light: Plugin, tmp_path: Path) -> Path:
    python = add_pip(venv(tmp_path / "venv", light.torch))
    (site_of(python) / "torch.pth").write_text(f"{located(light.torch).parent}\n")
    return python


def test_a_wheel_replaces_another_of_its_version(python: Path, tmp_path: Path) -> None:
    installing.check(str(python), os.environ)
    assert not [*site_of(python).glob("*switchml*")]
    for build in (1, 2):
        installing.install(str(python), write_wheel(tmp_path, build), os.environ)
        assert python_run(python, "-c", SHOWN).stdout == f"{build}\n"
    for words in ("removed from {}", "{}: no plugin is installed; nothing to do"):
        message = checked("plugin", "uninstall", "--torch", str(python))
        assert message.strip() == words.format(python)
        assert not [*site_of(python).glob("*switchml*")]


def test_other_users_import_it_whatever_the_umask(python: Path, tmp_path: Path) -> None:
    with umask(0o077):
        installing.install(str(python), write_wheel(tmp_path, 1), os.environ)
    assert all(closed(path) == [] for path in site_of(python).glob("*switchml*"))


UV = """\
#!/bin/sh
[ -z "$REFUSED" ] || exec {python} -c 'exit("error: The interpreter is externally managed")'
echo "$@" >>{log}
[ "$#" = 11 ] || exit 0
exec {python} -c '
import re, sys, urllib.parse, zipfile
form = "torch-switchml @ file://(.*) --hash=sha256:[0-9a-f]+\\s"
url = re.fullmatch(form, open(sys.argv[1]).read())[1]
zipfile.ZipFile(urllib.parse.unquote(url)).extractall(sys.argv[2])' "$8" {site}
"""


@pytest.mark.parametrize(
    ("there", "package", "met"),
    [
        ("1.2.3+cu126", "1.2.3+cu124", False),
        ("1.2.3+cu126", "1.2.3", False),  # PyPI's, whose torch.__version__ is 1.2.3+cu124
        ("1.2.3", "1.2.3", True),
        ("1.2.3+cu126", "1.2.3+cu126", True),
    ],
)
def test_pip_refuses_the_wheel_of_another_build(
    python: Path, tmp_path: Path, there: str, package: str, *, met: bool
) -> None:
    built = venv(tmp_path / "built")
    make(site_of(built), "1.2.3+cu124")
    for site, version in ((site_of(built), package), (site_of(python), there)):
        known = site / f"torch-{version}.dist-info"
        known.mkdir()
        text = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        (known / "METADATA").write_text(text)
    torch = probe_torch(str(built), os.environ).require_gloo()
    wanted = PluginTarget(torch, "Backend", (), 17, (), "", "")
    made = write_wheel(tmp_path, 1, wanted.requirement)
    done = python_run(python, "-m", "pip", "install", "--no-index", made)
    assert (done.returncode == 0) == met, done.stderr
    assert met or f"torch-switchml 1.2.3+switchml depends on torch==={package}" in done.stdout


def test_an_interpreter_without_pip(tmp_path: Path) -> None:
    python = venv(tmp_path / "venv")
    environ = {**os.environ, "PATH": "/nowhere"}
    with pytest.raises(ToolError, match=rf"{python}: has no pip; install it"):
        installing.check(str(python), environ)


def test_uv_installs_where_there_is_no_pip(tmp_path: Path) -> None:
    """A stand-in, which keeps to the arguments that uv 0.13 took."""
    python, log = venv(tmp_path / "venv"), tmp_path / "log"
    text = UV.format(log=log, python=sys.executable, site=site_of(python))
    uv = script(tmp_path / "bin" / "uv", text)
    environ = {**os.environ, "PATH": f"{uv.parent}:{os.environ['PATH']}"}
    installing.check(str(python), environ)
    wheel_file = write_wheel(tmp_path, 1)
    installing.install(str(python), wheel_file, environ)
    assert python_run(python, "-c", SHOWN).stdout == "1\n"
    wanted = "pip install --quiet --no-index {} --requirement {} --no-config --python " + str(
        python
    )
    first, second = log.read_text().splitlines()
    assert first == wanted.replace("{} --req", "--req").format(os.devnull)
    assert second == wanted.format("--force-reinstall --no-deps", second.split()[7])
    with pytest.raises(ToolError, match="its uv installs nothing, because the system manages"):
        installing.check(str(python), {**environ, "REFUSED": "1"})


def test_an_environment_that_the_system_manages(tmp_path: Path) -> None:
    import pip

    python, environ = torch_project.PYTHON, {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "pip").symlink_to(Path(pip.__file__).parent)  # it may have none
    if not [*Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")]:
        pytest.skip("this system does not manage its Python")
    with pytest.raises(ToolError, match="the system manages its packages") as refused:
        installing.check(python, environ)
    assert f"{python} -m venv --system-site-packages DIR" in str(refused.value)


def test_a_wheel_that_pip_refuses(python: Path, tmp_path: Path) -> None:
    broken = tmp_path / "torch_switchml-1-py3-none-any.whl"
    broken.write_text("not a wheel")
    with pytest.raises(ToolError, match=rf"{python}: pip ended with exit code 1\n.*"):
        installing.install(str(python), str(broken), os.environ)
    assert not [*site_of(python).glob("*switchml*")]


MOVED = {
    "user": "1", "target": "/nowhere/t", "prefix": "/nowhere/p", "root": "/nowhere/r",
    "dry-run": "1", "require-virtualenv": "1", "python": "/nowhere/python", "no-deps": "1",
    "quiet": "3", "platform": "none", "report": "-", "no-user": "1",
    "only-deps": "1", "config-settings": "none", "ignore-installed": "1",
}  # fmt: skip
HASHES = {"require-hashes": "1", "no-binary": ":all:", "only-binary": "torch-switchml"}
"""What pip takes for the wheel that was just made as for any other."""
REGISTRY = {
    "index-url": "http://127.0.0.1:9/i", "extra-index-url": "http://127.0.0.1:9/e\nhttp://[::1]:9/f",
    "proxy": "http://127.0.0.1:9", "cert": "/c.pem", "trusted-host": "127.0.0.1",
    "constraint": os.devnull, "break-system-packages": "1",
}  # fmt: skip


def section(name: str, settings: Mapping[str, str]) -> str:
    """Return a section of a pip.conf."""
    lines = [f"{setting} = {text}" for setting, text in settings.items()]
    return "\n".join([f"[{name}]", *lines]).replace("\nhttp", "\n  http")


@pytest.mark.parametrize("where", ["variables", "file"])
def test_settings_of_pip_that_move_or_stop_an_installation(
    python: Path, tmp_path: Path, where: str
) -> None:
    """They do not count for what is installed into a named interpreter; the registry's do."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    if where == "variables":
        environ |= {
            f"PIP_{name.upper().replace('-', '_')}": text
            for name, text in {**MOVED, **HASHES, **REGISTRY}.items()
        }
    else:
        file = tmp_path / "pip.conf"
        sections = section("global", {**MOVED, **REGISTRY}), section("install", {**MOVED, **HASHES})
        file.write_text("\n".join(sections))
        environ["PIP_CONFIG_FILE"] = str(file)
    installing.check(str(python), environ)
    installing.install(str(python), write_wheel(tmp_path, 1), environ)
    assert python_run(python, "-c", SHOWN).stdout == "1\n"
    command = [str(python), run_pip.__file__, "config", "list"]
    listed = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    expected = [f":env:.{name}={text!r}" for name, text in {**HASHES, **REGISTRY}.items()]
    assert sorted(listed.splitlines()) == sorted([*expected, f":env:.config-file={os.devnull!r}"])


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("use-feature = of-another-pip", "of-another-pip"), ("timeout = none", "option timeout:")],
)
def test_a_setting_that_this_pip_does_not_know(
    python: Path, tmp_path: Path, setting: str, reason: str
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(f"[global]\n{setting}\n")
    environ = {**os.environ, "PIP_CONFIG_FILE": str(file)}
    with pytest.raises(ToolError, match=rf"pip ended with exit code \d\n(.*\n)*.*{reason}"):
        installing.check(str(python), environ)


def test_the_reason_of_an_older_pip(tmp_path: Path) -> None:
    """It is in what that pip prints, where a newer one writes it to its errors."""
    python = venv(tmp_path / "venv")
    (site_of(python) / "pip").mkdir()
    (site_of(python) / "pip" / "__init__.py").touch()
    (site_of(python) / "pip" / "__main__.py").write_text(
        "print('no option x'); raise SystemExit(3)"
    )
    with pytest.raises(ToolError, match="pip ended with exit code 3\nno option x"):
        installing.check(str(python), os.environ)


SLOW = """
import os, pathlib, time
def main():
    pathlib.Path(os.environ["PIDS"]).write_text(str(os.getpid()))
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    pathlib.Path(os.environ["DONE"]).touch()
main()
"""


def test_pip_finishes_where_the_command_gets_a_signal(tmp_path: Path) -> None:
    python = venv(tmp_path / "venv")
    make(site_of(python))
    (site_of(python) / "pip").mkdir()
    (site_of(python) / "pip" / "__main__.py").write_text(SLOW)
    (site_of(python) / "pip" / "__init__.py").touch()
    files = {name: tmp_path / name for name in ("PIDS", "GO", "DONE")}
    environ = {**os.environ, **{name: str(path) for name, path in files.items()}}
    code = "import sys; from patchgen.__main__ import main; main()"
    command = [sys.executable, "-c", code, "plugin", "install", "--torch", str(python)]
    with subprocess.Popen(command, env=environ, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        until(lambda: files["PIDS"].exists() and files["PIDS"].read_text(), process)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # a pip that the signal reaches is gone by then
        files["GO"].touch()
        assert process.wait() == -signal.SIGTERM
    assert files["DONE"].exists()
    assert not alive(files["PIDS"].read_text())


@pytest.fixture
def broken_cmake(tmp_path: Path) -> str:
    """A PATH on which cmake fails."""
    text = "#!/bin/sh\necho cmake was called >&2\nexit 1\n"
    program = script(tmp_path / "bin" / "cmake", text)
    return f"{program.parent}:{os.environ['PATH']}"


def test_what_was_built_is_taken_from_the_cache(
    light: Plugin, home: Path, tmp_path: Path, broken_cmake: str
) -> None:
    """A second build compiles nothing, and neither does an installation; another flag does."""
    given = ["--torch", str(light.torch), "--switchml-home", str(home)]
    given += ["--cache", str(light.wheel.parent / "cache")]
    environ = {**light.environ, "PATH": broken_cmake}
    message = checked("plugin", "build", *given, "-o", tmp_path / "dist", **environ)
    assert "taking the compiled module from the cache" in message
    (wheel_file,) = (tmp_path / "dist").glob("*.whl")
    assert wheel_file.read_bytes() == light.wheel.read_bytes()
    done = switchml_patch("plugin", "build", *given, "--debug", "-o", tmp_path / "d", **environ)
    assert done.returncode == 4
    assert "cmake was called" in done.stderr
    assert not (tmp_path / "d").exists()


def test_plugin_is_installed_for_a_torch(
    light: Plugin, home: Path, with_torch: Path, broken_cmake: str
) -> None:
    given = ["--torch", str(with_torch), "--switchml-home", str(home)]
    given += ["--cache", str(light.wheel.parent / "cache")]
    message = checked("plugin", "install", *given, PATH=broken_cmake, **light.environ)
    installed, needed, for_gloo = message.splitlines()[-3:]
    assert installed.startswith(f"installed for {with_torch}: ")
    assert needed.endswith(f": export SWITCHML_CONFIG='{home}/switchml.cfg'")
    assert for_gloo.endswith(": export SWITCHML_FOR_GLOO=1")
    shown = "import torch, torch_switchml; print(torch_switchml.report()['flags'] == '')"
    done = python_run(with_torch, "-c", shown)
    assert done.stdout == "True\n", done.stderr


def test_a_client_library_that_is_not_complete(
    with_torch: Path, tmp_path: Path, broken_cmake: str
) -> None:
    """Before anything is compiled; without one the switch is simulated."""
    given = ("plugin", "install", "--torch", with_torch, "--cache", tmp_path / "cache")
    done = switchml_patch(*given, "--switchml-home", tmp_path, PATH=broken_cmake)
    assert done.returncode == 2
    assert f"SWITCHML_HOME: no {tmp_path}/include/switchml/context.h" in done.stderr
    done = switchml_patch(*given, PATH=broken_cmake)
    assert done.returncode == 4
    assert "no client library is named with --switchml-home: the switch is simulated" in done.stderr
    assert "cmake was called" in done.stderr
