"""The delegate's C++, compiled without torch, and its ranks as processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from patchgen.core.patch import render as rendering
from patchgen.system.ports import free_port
from patchgen.templates import DIRECTORY
from support import unprivileged
from support.cmake import need
from support.configs import with_values
from support.shared import once
from support.simulator import SANITIZED, SANITIZERS, SANITIZING, installed_prefix
from support.waiting import GROUP, descendants, stacks

CPP = Path(__file__).parents[1] / "cpp"
STRICT = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")
CHECKED = ("-Wthread-safety",)
"""What clang alone knows: that a thread holds the mutex of what it reads or writes."""
ALONE = '-DSWITCHML_DELEGATE_DIGEST="alone"'
"""The digest of the delegate's parts, which are compiled once for their tests and those of all."""
LINK = ("-lswitchml-client", "-lglog", "-lboost_program_options", "-pthread")
MARKS = """\
#ifndef SWITCHML_DELEGATE_CLIENT
#define SWITCHML_DELEGATE_CLIENT ""
#endif
#define SWITCHML_DELEGATE_FLAGS ""
#define SWITCHML_DELEGATE_DIGEST "alone"
"""
WRAPPED = (
    "_ZN8switchml7Context5StartEPNS_6ConfigE",
    "_ZN8switchml7Context4StopEv",
    "_ZN8switchml7Context14AllReduceAsyncEPvS1_mNS_8DataTypeENS_18AllReduceOperationE",
    "getaddrinfo",
    "poll",
)
FAULTS = (
    str(CPP / "faults.cpp"),
    "-Wno-return-type-c-linkage",  # functions of the linker's names
    *(f"-Wl,--wrap={name}" for name in WRAPPED),
)
"""Arguments of the compiler for a library with faults."""
UNITED = ("linked", "refusal", "threads", "states")
"""Tests in the program of all scenarios, but for those of the whole delegate."""
# Without a sanitizer it is in the tests with a library that passes for the real one.
BUILDS = {
    "thread": (SANITIZING, *CHECKED, *SANITIZERS["thread"], *SANITIZED),
    "address": (SANITIZING, *CHECKED, *SANITIZERS["address"], *SANITIZED, "-DOTHER_ABI"),
}
_LET_GO = "  changed_.notify_all();\n}\n\nvoid Order::wake"
_PAUSE = """
  if (const char* const pause = std::getenv("PAUSE")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(pause)));
  }
"""
GROUP_MS = round(1000 * GROUP)
RENAMED = (*unprivileged.unshare("--uts"), "sh", "-c", 'hostname "$0" && exec "$@"')
TERMS = {"timeout": 1, "timeout_threshold": 100, "timeout_threshold_increment": 600}


def render(directory: Path) -> None:
    """Write the C++ of the delegate library and of its callers, in the folders of the library."""
    folders = tuple(f"{rendering.PROJECT}/{name}/" for name in rendering.SOURCE_FOLDERS)
    for path, content in rendering.compiled_files("").items():
        folder = next((folder for folder in folders if path.startswith(folder)), "")
        target = directory / path.removeprefix(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def compiled(
    name: str, sources: Sequence[Path], home: Path, directory: Path, *command: str
) -> Path:
    """Return a program of `sources`, in the directory where the C++ is; `home` has the library.

    `command` is the compiler, and its further arguments.
    """
    out = directory / name
    paths = [f"-I{directory}", f"-I{home}/include", *map(str, sources), "-o", str(out)]
    whole = [command[0], *STRICT, *command[1:], *paths, f"-L{home}/lib", *LINK]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def configure(build: Path, home: Path, *flags: str) -> None:
    """Configure the delegate's project and its tests in a build folder."""
    need("cmake", "ninja")
    source = Path(DIRECTORY).resolve() / "delegate"
    options = [f"-DCMAKE_CXX_COMPILER={SANITIZING}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}"]
    paths = ["-S", str(source), "-B", str(build), f"-DSWITCHML_HOME={home}"]
    subprocess.run(["cmake", "-G", "Ninja", *options, *paths], check=True)


def configured(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a build folder of the delegate's project and its tests, with a sanitizer.

    Its parts are compiled, once a run: they are most of the code.
    """

    def make(directory: Path) -> None:
        configure(directory, installed_prefix(factory, name), *SANITIZED, *SANITIZERS[name])
        subprocess.run(["cmake", "--build", directory, "--target", "parts"], check=True)

    return once(factory, f"delegate-tests-{name}", make)


def parts(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the archive of the delegate's parts with a sanitizer."""
    return configured(factory, name) / "libparts.a"


def compile_parts(directory: Path, *options: str) -> Path:
    """Return the object of the delegate's parts, in the directory where the C++ is."""
    out, command = directory / "parts.o", ["clang++", *STRICT, "-O0", ALONE, *options]
    files = [f"-I{directory}", "-c", str(directory / "parts.cpp"), "-o", str(out)]
    subprocess.run([*command, *files], check=True)
    return out


def plain_parts(factory: pytest.TempPathFactory) -> Path:
    """Return the C++ of the delegate, and the object of its parts without a sanitizer.

    The environment says how long a thread pauses that has let its turn go.
    """

    def make(directory: Path) -> None:
        render(directory)
        order = directory / "sum/order.cpp"
        text = order.read_text()
        assert text.count(_LET_GO) == 1
        order.write_text(text.replace(_LET_GO, _LET_GO.replace("\n", _PAUSE, 1)))
        compile_parts(directory)

    return once(factory, "delegate-parts", make)


def unite(directory: Path, *tests: str) -> Path:
    """Write a source that includes the delegate without its parts, and tests, which saves time.

    The test of the whole delegate stays apart: as in a torch, the linker takes functions of both
    from the first.
    """
    whole, included = (directory / "unity.cpp").read_text(), '#include "parts.cpp"\n'
    assert whole.count(included) == 1
    sources = (f'#include "{CPP / name}.cpp"\n' for name in tests)
    unit = directory / "unit.cpp"
    unit.write_text(MARKS + whole.replace(included, "") + "".join(sources))
    return unit


def sanitized(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the program of all scenarios, compiled once a run with one of BUILDS."""

    def make(directory: Path) -> None:
        prefix = installed_prefix(factory, name)
        shutil.copy(prefix / "switchml.cfg", directory)
        render(directory)
        sources = [CPP / "delegate.cpp", unite(directory, *UNITED), parts(factory, name)]
        compiled("delegate", sources, prefix, directory, *BUILDS[name], *FAULTS)

    return once(factory, f"delegate-{name}", make) / "delegate"


def compile_alone(name: str, directory: Path, *given: str | Path) -> Path:
    """Return a program without a library, in the directory where the C++ is.

    `given` are the parts that the test `name` needs, and options of the compiler.
    """
    out, flags = directory / name, [*STRICT, *SANITIZED, *CHECKED, ALONE, f"-I{directory}"]
    command = [SANITIZING, *flags, CPP / f"{name}.cpp", *given, "-pthread", "-ldl", "-o", out]
    subprocess.run(command, check=True)
    return out


def compile_mutants(
    name: str,
    sources: Sequence[str],
    mutants: Mapping[str, tuple[str, str]],
    directory: Path,
    *included: str,
) -> Path:
    """Compile all mutants of sources into a program, which runs the one it is given.

    They are one unit, each in a namespace of its own, as headers take most of a compiler's time. A
    mutant is a text of the sources or of the test `name`, and the text that replaces it. `included`
    are the headers that the sources need of other ones.
    """
    render(directory)
    whole = "".join((directory / source).read_text() for source in sources)
    tested = (CPP / f"{name}.cpp").read_text()
    unit = [*re.findall("#include <.*", whole + tested), *(f'#include "{one}"' for one in included)]
    unit.append("namespace switchml_delegate {}")
    for number, (before, after) in enumerate(mutants.values()):
        assert (whole + tested).count(before) == 1, before
        opening = f"namespace mutant{number} {{ namespace switchml_delegate {{ using namespace ::"
        unit.append(opening + "switchml_delegate; } }")
        text = re.sub(r"#(include|pragma) .*", "", (whole + tested).replace(before, after))
        unit.append(f"namespace mutant{number} {{\n{text}\n}}")
    runs = (
        f'if (words[1] == std::string("{one}")) return mutant{number}::main(count - 1, words + 1);'
        for number, one in enumerate(mutants)
    )
    unit.append("int main(int count, char** words) {\n" + "\n".join(runs) + "\nreturn 0;\n}")
    program = directory / "mutants"
    program.with_suffix(".cpp").write_text("\n".join(unit))
    files = [f"{program}.cpp", str(directory / "parts.cpp")]
    paths = [f"-I{directory}", f"-I{CPP}", *files, "-o", str(program)]
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", ALONE, *paths, "-pthread"], check=True)
    return program


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return environment of a rank, without the user's SwitchML."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SWITCHML_", "RDMAV_"))}
    env |= {"TSAN_OPTIONS": "halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**env, **given}


def run(
    program: Path,
    scenario: str,
    size: int,
    scratch: Path,
    *,
    timeout_ms: int = GROUP_MS,
    env: Mapping[int, Mapping[str, str]] | None = None,
    config: Mapping[str, object] | None = None,
    store: Path | None = None,
    hosts: Sequence[str] = (),
    prepared: Callable[[Path], None] | None = None,
) -> list[str]:
    """Run all ranks, which must succeed, and return their stderr.

    Args:
        program: beside it is the template of switchml.cfg.
        timeout_ms: of the group.
        env: more for the environment of a rank, by rank; that of rank -1 is for all.
        config: other values for switchml.cfg.
        store: the directory of the Store, which may have been used before.
        hosts: names of the ranks' hosts; this one's without.
        prepared: called with the directory of each rank, which has its switchml.cfg.
    """
    template = (program.parent / "switchml.cfg").read_text()
    port, given = free_port(), env or {}
    processes = []
    for rank in range(size):
        directory = scratch / str(rank)
        directory.mkdir(parents=True)
        values = {"rank": rank, "num_workers": size, "controller_port": port, **TERMS}
        text = with_values(template, {**values, **(config or {})})
        (directory / "switchml.cfg").write_text(text)
        if prepared is not None:
            prepared(directory)
        kept = str(store or scratch / "store")
        arguments = [scenario, str(rank), str(size), kept, str(timeout_ms)]
        host = [*RENAMED, hosts[rank]] if hosts else []
        processes.append(
            subprocess.Popen(
                [*host, program, *arguments],
                cwd=directory,
                env=environment({**given.get(-1, {}), **given.get(rank, {})}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    lines = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=240)
            assert process.returncode == 0, err
            assert out == "ok\n"
            assert "Sanitizer" not in err, err
            lines.append(err)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{scenario} hangs\n{stacks(one.pid for one in processes)}") from None
    finally:
        for process in processes:
            for pid in descendants(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()
    return lines
