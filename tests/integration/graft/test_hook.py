"""The import hook: when it loads a graft, when it does not, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import graft as graft_support
from support.graft import COMMIT, VERSION, Fake, python_run

from patchgen.extras.install.graft import installing

SHOWN = "import torch, switchml_graft; print(torch.grafted, switchml_graft.loaded)"


@pytest.fixture
def torch(tmp_path: Path) -> Fake:
    return graft_support.make(tmp_path / "site")


@pytest.fixture
def graft(torch: Fake, tmp_path: Path) -> Path:
    return torch.graft(tmp_path / "a graft é.so")


def launched(
    torch: Fake, graft: Path | str, *arguments: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """A program of the fake torch, with the hook on PYTHONPATH."""
    directory = torch.site.parent / "hook"
    environ = installing.launching(str(graft), str(directory), {"PYTHONPATH": str(torch.site)})
    environ["SWITCHML_GRAFT"] = str(graft)
    return python_run(sys.executable, *arguments, **{**environ, **env})


def test_loaded_before_the_libraries_of_torch(torch: Fake, graft: Path) -> None:
    done = launched(torch, graft, "-c", SHOWN)
    assert (done.stdout, done.stderr) == (f"True {graft}\n", "")


def test_a_look_for_torch_loads_nothing(torch: Fake, graft: Path) -> None:
    code = (
        "import importlib.util as u, switchml_graft as g, ctypes; print(u.find_spec('torch').name,"
        " g.loaded, hasattr(ctypes.CDLL(None), 'switchml_delegate_report'))"
    )
    assert launched(torch, graft, "-c", code).stdout == "torch None False\n"


def test_a_program_without_torch_pays_nothing(torch: Fake, graft: Path) -> None:
    code = "import sys; print(*sys.modules)"
    without = python_run(sys.executable, "-c", code).stdout.split()
    done = launched(torch, graft, "-c", code, SWITCHML_REQUIRE="1", SWITCHML_GRAFT="/none")
    assert done.returncode == 0
    more = set(done.stdout.split()) - set(without)
    assert "switchml_graft" in more
    assert not more & {"ctypes", "json", "re", "struct", "torch", "typing"}


def test_the_report_module(torch: Fake, graft: Path) -> None:
    done = launched(torch, graft, "-m", "torch.distributed.switchml")
    assert '"flags": "DPDK"' in done.stdout, done.stderr
    code = "from torch.distributed import switchml as s; print(s.is_patched(), s.report())"
    assert launched(torch, "0", "-c", code).stdout == "False None\n"


def test_the_report_module_of_a_patched_torch_comes_first(torch: Fake, graft: Path) -> None:
    (torch.root / "distributed" / "switchml.py").write_text("own = True\n")
    code = "from torch.distributed import switchml as s; print(s.own)"
    assert launched(torch, graft, "-c", code).stdout == "True\n"


def test_none_is_wanted(torch: Fake, graft: Path) -> None:
    done = launched(torch, graft, "-c", SHOWN, SWITCHML_GRAFT="0", SWITCHML_REQUIRE="1")
    assert (done.stdout, done.stderr) == ("False None\n", "")


def refused(torch: Fake, graft: Path, *reasons: str) -> None:
    """The torch is imported without the graft, with one line; or not at all where it must be."""
    done = launched(torch, graft, "-c", SHOWN)
    assert (done.returncode, done.stdout) == (0, "False None\n"), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"switchml: warning: the graft {graft}: ")
    for reason in reasons:
        assert reason in done.stderr
    done = launched(torch, graft, "-c", SHOWN, SWITCHML_REQUIRE="1")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: SWITCHML_REQUIRE is set, but the graft {graft}: ")
    for reason in reasons:
        assert reason in last


@pytest.mark.parametrize("installed", [True, False])
def test_torchcomms_in_the_place_of_gloo(torch: Fake, graft: Path, *, installed: bool) -> None:
    if installed:
        (torch.site / "torchcomms.py").write_text("")
    done = launched(torch, graft, "-c", SHOWN, TORCH_DISTRIBUTED_USE_TORCHCOMMS="1")
    assert done.stdout == f"True {graft}\n"
    assert done.stderr.count("torchcomms takes Gloo's place") == installed


def test_another_torch(torch: Fake, tmp_path: Path) -> None:
    other = graft_support.make(tmp_path / "other", "4.5.6", "f" * 40)
    graft = other.graft(tmp_path / "other.so")
    refused(
        torch, graft, "for torch 4.5.6 (commit ffffffffffff, C++11 ABI 1)",
        f"this is torch {VERSION} (commit {COMMIT[:12]}) in {torch.root}",
    )  # fmt: skip


def test_a_graft_that_is_cut_short(torch: Fake, graft: Path) -> None:
    """At any place; the dynamic linker would crash on some of them."""
    content = graft.read_bytes()
    for size in (0, 30, 4096, len(content) // 2, len(content) - 1):
        graft.write_bytes(content[:size])
        refused(torch, graft, "is no graft, or is cut short")


def test_a_graft_whose_libraries_are_not_there(torch: Fake, tmp_path: Path) -> None:
    needed = tmp_path / "libneeded.so"
    graft_support.compile_shared(needed, "int f(void) { return 1; }", "-Wl,-soname,libneeded.so")
    graft = torch.graft(tmp_path / "needs.so", "-Wl,--no-as-needed", str(needed))
    refused(torch, graft, "cannot be loaded", "libneeded.so")


def test_python_that_takes_no_variables(torch: Fake, graft: Path, tmp_path: Path) -> None:
    """-E and -I take neither PYTHONPATH nor our variable, also where the hook is there."""
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'hook')!r}, {str(torch.site)!r}]; "
    code += "import switchml_graft; switchml_graft.activate(); "
    for flags in ("-E", "-I"):
        done = launched(torch, graft, flags, "-c", code + SHOWN)
        assert (done.stdout, done.stderr) == ("False None\n", "")
    assert launched(torch, graft, "-c", code + SHOWN).stdout == f"True {graft}\n"


def test_programs_that_are_started_from_there(torch: Fake, graft: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing, subprocess, sys

def shown():
    {SHOWN}

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=shown)
    child.start()
    child.join()
    subprocess.run([sys.executable, "-c", {SHOWN!r}], check=True)
    sys.exit(child.exitcode)
""")
    done = launched(torch, graft, str(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"True {graft}\n" * 2


def test_the_sitecustomize_of_the_user_is_run(torch: Fake, graft: Path) -> None:
    own = torch.site / "sitecustomize.py"
    own.write_text("import sys\nsys.own = [__name__, __file__]\n")
    code = "import sys, sitecustomize; print(*sys.own, sitecustomize.__file__); " + SHOWN
    done = launched(torch, graft, "-c", code)
    assert done.stdout == f"sitecustomize {own} {own}\nTrue {graft}\n", done.stderr


def test_the_environment_of_the_user_stays(tmp_path: Path) -> None:
    given = {"PYTHONPATH": "/a:/b", "OTHER": "1", "SWITCHML_GRAFT": "/old.so"}
    environ = installing.launching("lib.so", str(tmp_path), given)
    assert environ == {
        "PYTHONPATH": f"{tmp_path}:/a:/b", "OTHER": "1",
        "SWITCHML_GRAFT": os.path.abspath("lib.so"),
    }  # fmt: skip
    assert installing.launching("lib.so", str(tmp_path), {})["PYTHONPATH"] == str(tmp_path)
