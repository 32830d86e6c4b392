"""`switchml-patch verify` on a real torch with the real patch, whole and broken in several ways."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED

import pytest
from support import graft as graft_support
from support import messages, quick_torch
from support import real as real_library
from support.graft import compile_shared
from support.programs import script
from support.torch import checked, located, switchml_patch, version_of
from support.waiting import read_rest, until
from support.wheelhouse import Entry, listing, zipped

from patchgen.core import meanings
from patchgen.core.patch import render
from patchgen.core.verify import summing, wheels
from patchgen.extras.lab.simulator import compose_simulated
from patchgen.system.ports import free_port

# A torch of its own that is the interpreter's with a graft before it, and the report module in it.
SHIM = """
import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libgraft.so"), ctypes.RTLD_GLOBAL)
_own, __file__ = __file__, {real!r}
__path__.append(os.path.dirname(__file__))
exec(compile(open(__file__).read(), __file__, "exec"))
__file__, __version__ = _own, {version!r}
import torch.distributed
torch.distributed.__path__.append(os.path.join(os.path.dirname(__file__), "distributed"))
"""
# Torch 1.7.1 under Python 3.9 crashes now and then at the end of a process that has trained.
ENDS = """
import atexit, sys
def _told(*arguments, tell=sys.excepthook):
    global _code
    _code = 1
    tell(*arguments)
_code, sys.excepthook = 0, _told
@atexit.register
def _leave():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_code)
"""
# Appended to torch.distributed.switchml, which every rank imports before it makes a group.
BROKEN = """
import torch.distributed as _dist
_all_reduce = _dist.all_reduce
def _broken(tensor, *arguments, **named):
    import os, signal, time
    delegated = tensor.dtype == torch.float32 and report()["delegating"] and tensor.numel() == 256
    {before}
    answer = _all_reduce(tensor, *arguments, **named)
    {after}
    return answer
_dist.all_reduce = _broken
"""
FROZEN = """
_report = report
_first = report()
def report():
    return dict(_report(), calls=_first["calls"])
"""
NO_LAPACK = """
def _svd(*_arguments):
    raise RuntimeError("svd: LAPACK library not found in compilation")
torch.svd = _svd
"""
WRONG_PRODUCT = """
_mm = torch.Tensor.mm
torch.Tensor.mm = lambda *arguments: _mm(*arguments) + 1
"""
CRASH = """
import atexit, os, signal
_init = torch.optim.SGD.__init__
def _crashing(*arguments, **named):
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    _init(*arguments, **named)
torch.optim.SGD.__init__ = _crashing
"""
ALL = [
    "torch imports",
    "libraries",
    "patched",
    "symbols",
    "version and flags as expected",
    "matrix product",
    "singular values",
    "2 ranks without SwitchML",
    "2 ranks through SwitchML",
    "sums of float32",
    "sums of int32",
    "counters",
    "fallback",
    "training",
    "destroyed and made again",
    "the end of the ranks",
]
REPORT = Path("distributed", "switchml.py")  # the report module, in a torch
THROUGH, FLOAT32 = summing.ranks(2), summing.STEPS["float32"]


@dataclass(frozen=True)
class Patched:
    """A torch package under `root`, and an interpreter that imports it."""

    root: Path
    interpreter: Path
    version: str

    @property
    def torch(self) -> Path:
        return self.root / "torch"

    def append(self, text: str) -> None:
        """Append to the report module."""
        with (self.torch / REPORT).open("a") as file:
            file.write(text)

    def break_(self, *, before: str = "pass", after: str = "pass") -> None:
        self.append(BROKEN.format(before=before, after=after))


@dataclass(frozen=True)
class Verified:
    checks: dict[str, dict[str, Any]]

    @property
    def failed(self) -> dict[str, str]:
        return {
            name: "\n".join(check["problems"])
            for name, check in self.checks.items()
            if not check["ok"]
        }


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command makes its temporary files; it must leave none."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    for name in [*os.environ]:
        if name.startswith("SWITCHML_") and not name.startswith("SWITCHML_TEST_"):
            monkeypatch.delenv(name)
    return directory


@pytest.fixture(scope="session")
def real(torch_python: Path) -> tuple[str, str]:
    """__init__.py and the version of the torch in use."""
    return str(located(torch_python) / "__init__.py"), version_of(torch_python).partition("+")[0]


def make(root: Path, python: Path, real: tuple[str, str], graft: Path, patched: Path) -> Patched:
    made = Patched(root, root.parent / "python", f"{real[1]}+switchml")
    (made.torch / "lib").mkdir(parents=True)
    (made.torch / "distributed").mkdir()
    shim = SHIM.format(real=real[0], version=made.version)
    (made.torch / "__init__.py").write_text(shim + ENDS * (real[1] == "1.7.1"))
    shutil.copy(graft, made.torch / "lib" / "libgraft.so")
    shutil.copy(graft.with_name(render.LIBRARY), made.torch / "lib")
    shutil.copy(patched / "torch" / REPORT, made.torch / REPORT)
    script(made.interpreter, f'#!/bin/sh\nPYTHONPATH="{root}" exec "{python}" "$@"\n')
    return made


@pytest.fixture
def torch(
    tmp_path: Path, torch_python: Path, real: tuple[str, str], graft: Path, patched: Path
) -> Patched:
    return make(tmp_path / "site", torch_python, real, graft, patched)


@pytest.fixture
def quick(tmp_path: Path) -> Patched:
    """A patched torch that is imported in no time, for what is looked at before ranks sum."""
    site = quick_torch.make(tmp_path)
    made = Patched(site, tmp_path / "quick-python", f"{graft_support.VERSION}+switchml")
    (made.torch / REPORT).write_text(quick_torch.REPORT)
    for text in (made.torch / "lib").iterdir():
        text.unlink()
    script(made.interpreter, f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    return made


def with_other_ranks(interpreter: Path, directory: Path, instead: str = "exit 1") -> Path:
    """An interpreter whose ranks do this instead of their work; they import no torch."""
    ranks = f'case "$1" in *verify_rank.py) {instead} ;; esac'
    return script(directory / "other-ranks", f'#!/bin/sh\n{ranks}\nexec "{interpreter}" "$@"\n')


def verify(*arguments: str | Path, code: int = 0, **env: str) -> Verified:
    done = switchml_patch("verify", *arguments, "--json", **env)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stdout
    checks = json.loads(done.stdout)["checks"] if done.stdout else []
    return Verified({check["name"]: check for check in checks})


def wheel_of(torch: Patched, python: Path, directory: Path) -> Path:
    code = "import sys; print('cp%d%d' % sys.version_info[:2])"
    tag = subprocess.check_output([python, "-c", code], text=True).strip()
    name = f"torch-{torch.version}-{tag}-{tag}-linux_{os.uname().machine}.whl"
    record = f"torch-{torch.version}.dist-info/RECORD"
    entries = [
        Entry(str(file.relative_to(torch.root)), file.read_bytes(), method=ZIP_STORED)
        for file in sorted(torch.root.rglob("*"))
        if file.is_file()
    ]
    return zipped(directory / name, [*entries, Entry(record, listing(entries, record))])


def test_all_holds(torch: Patched, scratch: Path) -> None:
    done = verify(torch.interpreter)
    assert done.failed == {}
    assert list(done.checks) == ALL
    assert "the simulator" in done.checks["patched"]["found"]
    assert "libgraft.so" in done.checks["symbols"]["found"]
    assert summing.SIMULATED in done.checks[THROUGH]["found"]
    assert done.checks["sums of int32"]["found"].endswith("exact")
    assert done.checks["counters"]["found"] == "10 calls, 806152 bytes"
    assert not list(scratch.iterdir())


def test_a_line_for_each_check(torch_python: Path) -> None:
    """A torch that is not patched, as Debian's."""
    done = switchml_patch("verify", torch_python)
    assert done.returncode == 6
    lines = done.stdout.splitlines()
    assert [line[:20] for line in lines[:3]] == [
        "[x] torch imports: " + lines[0][19:20], "[x] libraries: " + lines[1][15:20], "[ ] patched"
    ]  # fmt: skip
    assert lines[3].strip().startswith("no: there is no patch, graft or plugin; for PyTorch 1.13 ")
    assert lines[3].endswith(" plugin build")
    assert len(lines) == 4


def test_a_plugin_of_another_torch(quick: Patched) -> None:
    """It is told; a patch is not asked for."""
    (quick.torch / REPORT).unlink()
    (quick.root / "torch_switchml.py").write_text("raise ImportError('undefined symbol: _ZN3c10x')")
    done = verify(quick.interpreter, code=6)
    message = (
        "torch_switchml: ImportError: undefined symbol: _ZN3c10x; its libraries are not of one"
    )
    assert done.failed["plugin"].startswith(message)
    assert {"patched", THROUGH}.isdisjoint(done.checks)


def test_a_folder_of_that_name_where_the_user_is(
    quick: Patched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    python = with_other_ranks(quick.interpreter, tmp_path)
    assert verify(python, code=6).checks["torch imports"]["ok"]


def test_an_interpreter_without_torch() -> None:
    done = verify(sys.executable, code=6)
    assert f"{sys.executable} has no torch; install one" in done.failed["torch imports"]
    assert list(done.checks) == ["torch imports"]


def test_a_library_that_is_not_there(quick: Patched, tmp_path: Path) -> None:
    """Where LD_LIBRARY_PATH alone finds it, that is told."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    grpc = elsewhere / "libgrpc_like.so"
    compile_shared(grpc, "int f() { return 1; }", "-Wl,-soname,libgrpc_like.so")
    needs = "-Wl,--no-as-needed", str(grpc)
    compile_shared(quick.torch / "lib" / "libneeds.so", "int f(); int g() { return f(); }", *needs)
    python = with_other_ranks(quick.interpreter, tmp_path)
    found = verify(python, code=6, LD_LIBRARY_PATH=str(elsewhere)).checks["libraries"]
    assert found["ok"]
    assert "only LD_LIBRARY_PATH finds libgrpc_like.so" in found["found"]
    done = verify(python, code=6)
    meaning = meanings.find("library", "libgrpc_like.so not found")
    assert done.failed["libraries"] == f"libgrpc_like.so not found, for libneeds.so: {meaning}"


def test_a_symbol_that_is_not_there(torch: Patched) -> None:
    """As of a client library that was built for DPDK, in a torch that was not."""
    bad = torch.torch / "lib" / "libbad.so"
    compile_shared(bad, "int rte_eal_init(); int g() { return rte_eal_init(); }")
    with (torch.torch / "__init__.py").open("a") as file:
        file.write(f"ctypes.CDLL({str(bad)!r})\n")
    done = verify(torch.interpreter, code=6)
    assert list(done.checks) == ["torch imports", "libraries"]
    error, _, meaning = done.failed["torch imports"].partition("undefined symbol: rte_eal_init; ")
    assert error
    assert meaning == meanings.find("import", "undefined symbol: rte_eal_init")


def test_a_report_module_without_the_patched_library(quick: Patched, patched: Path) -> None:
    shutil.copy(patched / "torch" / REPORT, quick.torch / REPORT)
    done = verify(quick.interpreter, code=6)
    assert "no library has switchml_delegate_report" in done.failed["patched"]


def test_all_that_is_wrong_is_reported(
    tmp_path: Path, torch_python: Path, real: tuple[str, str], graft: Path, patched: Path
) -> None:
    """Sums of one size, NaN or wrong by little; counters stand still; ranks crash at their end."""
    torch = make(tmp_path / "site", torch_python, (real[0], "1.7.1"), graft, patched)
    torch.append(FROZEN + CRASH)
    wrong = 'float("nan") if _dist.get_rank() == 0 else 1e-4'
    torch.break_(after=f"if delegated: tensor[255] += {wrong}")
    done = verify(torch.interpreter, code=6)
    lost, other = done.failed[FLOAT32].splitlines()
    assert lost.startswith("rank 0: 256 elements: wrong by nan")
    assert other.startswith("rank 1: 256 elements: wrong by 0.0001")
    assert "counted are 0 calls and 806152 bytes" in done.failed["counters"]
    assert done.failed[summing.STEPS["again"]] == "the sum was not delegated"
    end, cause = done.failed[summing.END].splitlines()
    assert end == "died of SIGSEGV"
    assert cause.startswith("the cause: under Python 3.")
    assert cause.endswith("such as 3.7 or 3.8, does not have it")
    assert len(done.failed) == 4


def test_products_that_are_wrong(torch: Patched, tmp_path: Path) -> None:
    """Looked at by one rank, as there is one configuration."""
    torch.append(WRONG_PRODUCT)
    config = tmp_path / "alone.cfg"
    config.write_text(compose_simulated(rank=0, workers=1, controller_port=free_port()))
    done = verify(torch.interpreter, f"--config={config}", code=6)
    assert done.failed["matrix product"].startswith("wrong by 1, allowed is ")
    assert summing.ranks(1, "without") in done.checks
    assert summing.ranks(1) not in done.checks


def test_a_rank_that_dies(torch: Patched) -> None:
    torch.break_(before="delegated and _dist.get_rank() == 1 and os.kill(os.getpid(), 9)")
    done = verify(torch.interpreter, code=6)
    assert "rank 1: died of SIGKILL" in done.failed[FLOAT32]
    assert f"rank 0: RuntimeError: {messages.FAILED}" in done.failed[FLOAT32]
    assert list(done.checks)[-1] == FLOAT32, "the rest is not looked at"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_to_end(
    quick: Patched,
    scratch: Path,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    """While ranks run: none of them is left, nor a temporary file, also where both are ended."""
    pids = tmp_path / "pids"
    wheel = wheel_of(quick, Path(sys.executable), tmp_path)
    python = with_other_ranks(Path(sys.executable), tmp_path, f'echo $$ >>"{pids}"; exec sleep 600')
    arguments = ["verify", str(wheel), "--python", str(python)]
    command = [sys.executable, "-m", "patchgen", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 2, process)
        process.send_signal(number)
        err = read_rest(process)
    assert process.returncode == code, err
    assert "Traceback" not in err
    for pid in pids.read_text().split():
        assert not os.path.exists(f"/proc/{pid}")
    assert not list(scratch.iterdir())


def test_a_wheel_without_lapack_and_configurations_of_the_user(
    torch: Patched, torch_python: Path, tmp_path: Path, scratch: Path
) -> None:
    """That it has no LAPACK is told; what verify is for holds."""
    torch.append(NO_LAPACK)
    wheel = wheel_of(torch, torch_python, tmp_path)
    shutil.rmtree(torch.root)
    port = free_port()
    files = [tmp_path / f"{rank}.cfg" for rank in range(2)]
    for rank, path in enumerate(files):
        path.write_text(compose_simulated(rank=rank, workers=2, controller_port=port))
    done = verify(wheel, "--python", torch_python, *(f"--config={path}" for path in files))
    assert list(done.checks) == [wheels.NAME, *ALL]
    assert str(scratch) in done.checks["torch imports"]["found"]
    assert list(done.failed) == ["singular values"]
    assert not done.checks["singular values"]["required"]
    assert "built without LAPACK" in done.failed["singular values"]
    assert "libopenblas-dev" in done.failed["singular values"]
    assert not list(scratch.iterdir())


def test_a_wheel_that_is_damaged(torch: Patched, torch_python: Path, tmp_path: Path) -> None:
    wheel = wheel_of(torch, torch_python, tmp_path)
    wheel.write_bytes(
        wheel.read_bytes().replace(b"torch.distributed.__path__", b"torch.distributed.__hath__")
    )
    done = verify(wheel, "--python", torch_python, code=6)
    assert list(done.checks) == [wheels.NAME]
    assert "torch/__init__.py" in done.failed[wheels.NAME]


def test_an_interpreter_is_named_once(torch_python: Path) -> None:
    verify(torch_python, "--python", torch_python, code=2)


def test_a_wheel_that_is_not_what_is_imported(quick: Patched, tmp_path: Path) -> None:
    """The interpreter's own torch comes first."""
    wheel = wheel_of(quick, Path(sys.executable), tmp_path)
    done = verify(wheel, "--python", quick.interpreter, code=6)
    message = done.failed["torch imports"]
    assert message.startswith(f"{quick.torch} is imported instead of the wheel's")


def test_the_real_client_library(
    tmp_path: Path,
    torch_python: Path,
    real: tuple[str, str],
    patched: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = real_library.dummy(tmp_path_factory)
    lib = tmp_path / "graft.so"
    arguments = ["--torch", str(torch_python), "--source", str(patched), "-o", str(lib)]
    checked("graft", "build", *arguments, "--switchml-home", home)
    torch = make(tmp_path / "site", torch_python, real, lib, patched)
    done = verify(torch.interpreter)
    assert done.failed == {}
    assert list(done.checks) == ALL
    assert "the real client library" in done.checks["patched"]["found"]
    assert "not a switch" in done.checks[THROUGH]["found"]
