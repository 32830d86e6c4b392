"""A graft that the user names for a run: it is looked at with its torch, which is imported once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support import graft as graft_support
from support.graft import Fake

from patchgen.errors import ToolError, TreeError
from patchgen.extras.train import setup
from patchgen.extras.train.job import Job
from patchgen.extras.train.setup import Setup, prepare


@pytest.fixture
def torch(tmp_path: Path) -> Fake:
    """It writes down each of its imports, with whether a graft was loaded."""
    made = graft_support.make(tmp_path / "site")
    with (made.root / "__init__.py").open("a") as file:
        file.write(f"print(grafted, file=open({str(tmp_path / 'imports')!r}, 'a'))\n")
    return made


def prepared(torch: Fake, library: Path | None, **environ: str) -> Setup:
    directory = str(torch.site.parent)
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(torch.site), **environ}
    job = Job(
        command=(), python=sys.executable, cache=directory, cwd=directory, environ=given,
        graft=str(library) if library else None,
    )  # fmt: skip
    return prepare(job, os.path.join(directory, "setup"))


def imports(torch: Fake) -> list[str]:
    return (torch.site.parent / "imports").read_text().splitlines()


def test_torch_is_imported_once(torch: Fake, tmp_path: Path) -> None:
    """It is not asked for headers, which some torches import a module for: nothing is compiled."""
    (torch.root / "utils").mkdir()
    extension = f"print('headers', file=open({str(tmp_path / 'imports')!r}, 'a'))\n"
    (torch.root / "utils" / "cpp_extension.py").write_text(extension)
    library = torch.graft(tmp_path / "graft.so")
    setup = prepared(torch, library)
    assert (setup.variant, setup.environ["SWITCHML_GRAFT"]) == ("graft", str(library))
    assert setup.torch.root == str(torch.root)
    assert imports(torch) == ["True"]


def test_a_torch_that_has_lost_its_plugin(torch: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts without run would not notice."""
    monkeypatch.setattr(setup, "_build_setup", lambda way, _job, torch, _at: Setup(torch, way, ""))
    assert prepared(torch, None).notes == []
    (note,) = prepared(torch, None, SWITCHML_REQUIRE="1").notes
    assert "plugin install --torch" in note


@pytest.mark.parametrize("require", ["0", "1"])
def test_a_graft_of_another_torch(torch: Fake, tmp_path: Path, require: str) -> None:
    other = graft_support.make(tmp_path / "other", "4.5.6")
    library = other.graft(tmp_path / "other.so")
    with pytest.raises(TreeError, match=r"the graft .*other\.so: it is for torch 4\.5\.6"):
        prepared(torch, library, SWITCHML_REQUIRE=require)


@pytest.mark.parametrize("require", ["0", "1"])
def test_a_graft_that_cannot_be_loaded(torch: Fake, tmp_path: Path, require: str) -> None:
    needed = tmp_path / "libneeded.so"
    graft_support.compile_shared(needed, "int f(void) { return 1; }", "-Wl,-soname,libneeded.so")
    library = torch.graft(tmp_path / "needs.so", "-Wl,--no-as-needed", str(needed))
    with pytest.raises(ToolError, match=r"cannot be loaded: .*libneeded\.so"):
        prepared(torch, library, SWITCHML_REQUIRE=require)


def test_a_graft_that_ends_the_process(torch: Fake, tmp_path: Path) -> None:
    aborts = tmp_path / "libaborts.so"
    code = "void abort(void); __attribute__((constructor)) void f(void) { abort(); }"
    graft_support.compile_shared(aborts, code)
    library = torch.graft(tmp_path / "aborts.so", "-Wl,--no-as-needed", str(aborts))
    with pytest.raises(ToolError, match=r"aborts\.so: cannot be loaded: died of SIGABRT"):
        prepared(torch, library)
    assert imports(torch) == ["False"]
