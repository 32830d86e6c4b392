"""The images: one writes the same patch and builds the same wheel, in one the plugin sums."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import torch_project
from support.first_process import first
from support.pages import ROOT
from support.programs import script
from support.waiting import ENOUGH, descendants, until

from patchgen.cli import main
from patchgen.core.wheel.payload import enclosure

IMAGE = "switchml-patch:1.7.1"
TAG = "switchml-patch:test"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
BASE = "docker.io/library/debian"
ALONE = {"CCACHE_DIR", "XDG_CACHE_HOME"}
"""Variables of the environment, where the others are make's."""
HOME = "/opt/switchml"
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
"""
"""What podman needs where it may neither raise limits nor make a network."""
OF_TORCH = ("python3-torch", "libtorch-dev", "libgloo-dev")
"""Packages that the small project takes the rest of torch from."""
CHROOT = 'for at in dev proc tmp; do mount --rbind /$at "$0/$at"; done; exec chroot "$0" "$@"'

NOBODYS = ("12345:12345", "54321:0")
"""Users that the images do not know, as `docker run --user` and OpenShift have them."""
CACHES = """
import os, torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
os.makedirs(os.path.join(torch.hub.get_dir(), str(os.getuid())))
os.makedirs(os.path.join(cache_dir(), str(os.getuid())))
"""
PROGRAM = r"""
import torch, torch_switchml
torch.distributed.init_process_group("switchml")
tensor = torch.ones(1000)
torch.distributed.all_reduce(tensor)
print(f'{tensor.sum().item()} {torch_switchml.report()["calls"]}\n', end="")
torch.distributed.destroy_process_group()
"""


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **variables}, check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("script", ["image", "in-image"])
@pytest.mark.parametrize("engine", ["", "docker"])
def test_no_engine(tmp_path: Path, script: str, engine: str) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = run(ROOT / "ci" / script, PATH=str(tmp_path), ENGINE=engine)
    assert done.returncode == 1
    names = engine or "podman, buildah and docker"
    assert done.stderr == f"ci/engine: none of {names} is here: install one\n"


STAND_IN = """\
#!/bin/sh
case "$1 $2" in
  "buildx version") exit {buildx} ;;
  "info --format") echo '[name=seccomp,profile=builtin {security}]' ;;
  *) echo "$@" ;;
esac
"""
"""An engine that prints what it is given, and answers as docker does."""


def put_engine(programs: Path, engine: str, security: str = "", buildx: int = 0) -> None:
    """Put a stand-in for an engine, and what the scripts call besides it, into a directory."""
    script(programs / engine, STAND_IN.format(security=security, buildx=buildx))
    for name in ("dirname", "id", "mkdir", "realpath"):
        (programs / name).symlink_to(f"/usr/bin/{name}")


USER = f"--user {os.getuid()}:{os.getgid()} "


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ("name=cgroupns", USER),
        ("name=rootless name=cgroupns", ""),  # where the user is root in the container
        ("name=userns", f"--userns host {USER}"),
    ],
)
def test_files_of_a_container_of_docker_belong_to_the_user(
    tmp_path: Path, security: str, expected: str
) -> None:
    put_engine(tmp_path / "bin", "docker", security)
    given = {"PATH": str(tmp_path / "bin"), "WORK": str(tmp_path), "BUILDDIR": str(tmp_path)}
    given |= {"XDG_CACHE_HOME": str(tmp_path), "SWITCHML_HOME": "", "ENGINE": ""}
    done = run(ROOT / "ci/in-image", "true", **given)
    assert done.returncode == 0, done.stderr
    words = f"run --rm --security-opt label=disable --workdir {ROOT} {expected}--volume"
    assert done.stdout.startswith(words)


@pytest.mark.parametrize(("buildx", "words"), [(0, "buildx build"), (1, "build")])
def test_an_image_is_where_docker_run_finds_it(tmp_path: Path, buildx: int, words: str) -> None:
    """A builder of the driver docker-container does not load it by itself."""
    put_engine(tmp_path, "docker", buildx=buildx)
    given = dict.fromkeys(("SSL_CERT_FILE", "IMAGE_TAG", "IMAGE_FILE", *PROXIES), "")
    done = run(ROOT / "ci/image", "--quiet", PATH=str(tmp_path), ENGINE="docker", **given)
    assert done.returncode == 0, done.stderr
    loaded = "--load " if buildx == 0 else ""
    assert done.stdout == f"{words} -f ci/Containerfile -t {IMAGE} {loaded}--quiet .\n"


@pytest.mark.parametrize("script", ["image", "in-image"])
@pytest.mark.parametrize("engine", ["nerdctl", "/usr/bin/docker"])
def test_an_engine_that_the_scripts_do_not_know(tmp_path: Path, script: str, engine: str) -> None:
    put_engine(tmp_path, "nerdctl")
    done = run(ROOT / "ci" / script, PATH=str(tmp_path), ENGINE=engine)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ci/engine: ENGINE={engine}: give podman, buildah or docker")


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_the_command_of_an_engine(tmp_path: Path, engine: str) -> None:
    programs, home, work = (tmp_path / name for name in ("bin", "home", "work"))
    put_engine(programs, engine)
    certificates = tmp_path / "company.pem"
    given = {
        "PATH": str(programs),
        "WORK": str(work),
        "BUILDDIR": str(work),
        "SWITCHML_HOME": str(home),
        "XDG_CACHE_HOME": str(tmp_path),
        "RDMA": "1",
        "IMAGE_ARGS": "--build-arg BASE='a b'",
        "ENGINE": "",
        "SSL_CERT_FILE": str(certificates),
        **dict.fromkeys(PROXIES, "http://proxy:3128"),
    }
    done = run(ROOT / "ci/in-image", "switchml-patch", "check", **given)
    assert done.returncode == 0, done.stderr
    build, load = ("buildx build", "--load ") if engine == "docker" else ("build", "")
    words = f"{build} -f ci/Containerfile -t {IMAGE} {load}--secret id=ca,src="
    assert done.stderr.startswith(words)
    assert done.stderr.endswith(" --build-arg BASE=a b .\n")
    for proxy in PROXIES:
        assert f" --build-arg {proxy}=http://proxy:3128 " in done.stderr
        assert f" --env {proxy}=http://proxy:3128 " in done.stdout
    assert f" --env PIP_CERT={certificates} " in done.stdout
    assert done.stdout.startswith("run --rm ")
    assert done.stdout.endswith(f" {IMAGE} switchml-patch check\n")
    same = (home, ROOT, certificates)
    for mount in (f"{work}:/mnt/switchml-patch", *(f"{path}:{path}" for path in same)):
        assert f" --volume {mount} " in done.stdout
    assert f" --env SWITCHML_HOME={home} " in done.stdout
    assert " --env RDMA=1 " in done.stdout


# Its build or its container hangs, and says so; a signal comes to both.
ENGINE = """#!/bin/sh
echo "$1" >>"$LOG"
[ "$1" != from ] || echo container
[ "$1" = "$HANGS" ] || exit 0
trap 'kill "$!"; echo "$1: TERM" >>"$LOG"; exit 143' TERM
sleep 600 &
echo hangs >>"$LOG"
wait
"""


@pytest.mark.parametrize("as_first", [False, True])
@pytest.mark.parametrize(
    ("engine", "hangs", "calls"),
    [
        ("buildah", "run", ["build", "from", "run", "hangs", "run: TERM", "rm"]),
        ("podman", "run", ["build", "run", "hangs", "run: TERM"]),
        ("podman", "build", ["build", "hangs", "build: TERM"]),
    ],
)
def test_a_build_that_is_stopped(
    tmp_path: Path, engine: str, hangs: str, calls: list[str], *, as_first: bool
) -> None:
    """It fails, and what the engine does ends with it."""
    script(tmp_path / "bin" / engine, ENGINE)
    log = tmp_path / "log"
    given = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "ENGINE": engine, "HANGS": hangs, "LOG": str(log),
        "WORK": str(tmp_path / "work"), "BUILDDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path),
    }  # fmt: skip
    command = [str(ROOT / "ci/in-image"), "switchml-patch", "build"]
    with subprocess.Popen(first(command) if as_first else command, env=given) as running:
        until(lambda: log.exists() and "hangs" in log.read_text(), running)
        (child,) = descendants(running.pid)[:1] if as_first else [running.pid]
        os.kill(child, signal.SIGTERM)
        code = running.wait(ENOUGH)
    assert code == 128 + signal.SIGTERM
    assert log.read_text().split("\n")[:-1] == calls


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Engine:
    """podman or buildah, with a storage of its own."""

    name: str
    directory: Path

    @property
    def variables(self) -> dict[str, str]:
        return {
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
            "CONTAINERS_CONF": str(self.directory / "containers.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "ENGINE": self.name,
        }

    def check(self, *command: str | Path, **more: str) -> str:
        done = run(*command, **{**self.variables, **more})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    @property
    def mirror(self) -> str:
        targets = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
        return self.check(*targets).split()[0]

    def image_args(self, base: str) -> str:
        """Arguments for an image of packages of this Debian's mirror."""
        values = {"BASE": f"{BASE}:{base}", "MIRROR": self.mirror, "SECURITY": ""}
        words = ["--pull=never", *(f"--build-arg={name}={value}" for name, value in values.items())]
        return f"{shlex.join(words)} {os.environ.get('IMAGE_ARGS', '')}"

    def make(self, target: str, base: str, **given: str) -> str:
        """Runs a target of the Makefile in such an image."""
        given["IMAGE_ARGS"] = self.image_args(base)
        variables = [f"{name}={value}" for name, value in given.items() if name not in ALONE]
        alone = {name: value for name, value in given.items() if name in ALONE}
        return self.check("make", "-C", ROOT, target, f"IMAGE_TAG={TAG}", *variables, **alone)

    def add_base(self, tag: str, suite: str, *packages: str) -> None:
        """Makes the base image of a Debian with more packages."""
        container = self.check("buildah", "from", "scratch").strip()
        archive = Path(os.environ["SWITCHML_TEST_IMAGE"]) / f"{suite}-base.tar"
        self.check("buildah", "add", "--quiet", container, archive, "/")
        if packages:
            self.run(container, "apt-get", "update")
            self.run(container, "apt-get", "install", "-y", "--no-install-recommends", *packages)
        self.check("buildah", "commit", "--rm", container, f"{BASE}:{tag}")

    def container(self) -> str:
        """A container of the image."""
        return self.check("buildah", "from", "--pull-never", TAG).strip()

    def run(self, container: str, *command: str, user: str = "0") -> str:
        return self.check("buildah", "run", "--user", user, container, "--", *command)


@pytest.fixture(scope="module", params=["buildah", "podman"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    made = Engine(request.param, tmp_path_factory.mktemp("image"))
    (made.directory / "containers.conf").write_text(CONTAINERS)
    (made.directory / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{made.directory}/store"\n'
        f'runroot = "{made.directory}/run"\n'
    )
    try:
        yield made
    finally:
        run("buildah", "rm", "--all", **made.variables)
        run("buildah", "rmi", "--all", "--force", **made.variables)
        shutil.rmtree(made.directory)


@pytest.fixture(scope="module")
def container(engine: Engine) -> str:
    """A container of the image."""
    engine.add_base("bullseye", "bullseye")
    engine.make("image", "bullseye")
    return engine.container()


@pytest.mark.image
def test_the_image_writes_the_same_patch(engine: Engine, container: str, tmp_path: Path) -> None:
    version = CliRunner().invoke(main, ["--version"]).output
    assert engine.run(container, "switchml-patch", "--version") == version

    patch = tmp_path / "here.patch"
    arguments = ["generate", "--switchml-home", HOME, "-o"]
    assert CliRunner().invoke(main, [*arguments, str(patch)]).exit_code == 0
    engine.run(container, "switchml-patch", *arguments, "/opt/there.patch")
    assert engine.run(container, "cat", "/opt/there.patch").encode() == patch.read_bytes()


@pytest.mark.image
def test_any_user_has_a_cache_in_the_image(engine: Engine, container: str) -> None:
    assert container
    for user in (*NOBODYS, "0"):
        made = engine.container()
        program = "switchml-patch --version && mkdir -p ~/.cache/switchml-patch && echo ~"
        assert engine.run(made, "sh", "-c", program, user=user).split()[-1] == "/home/user"


@pytest.mark.image
def test_a_build_can_start_in_the_image(engine: Engine, container: str, tmp_path: Path) -> None:
    assert container
    given = {"IMAGE": "1", "SWITCHML_HOME": str(tmp_path / "home")}
    given |= {"WORK": str(tmp_path / "work"), "ARGS": "--dry-run"}
    engine.make("simulator", "bullseye", **given)
    plan = engine.make("wheel", "bullseye", **given)
    assert "PyTorch v1.7.1 (" in plan
    assert "\n  seen at      /mnt/switchml-patch, with your network\n" in plan


@pytest.mark.image
def test_the_same_wheel_as_without_an_engine(engine: Engine, tmp_path: Path) -> None:
    """On Debian 12, which has the rest of the small project's torch."""
    engine.add_base("torch", "bookworm", *OF_TORCH)
    project = torch_project.make(tmp_path / "project")
    home, output = tmp_path / "home", tmp_path / "output"
    build = ["--pytorch", str(project.pin_file), "--mirror", str(project.mirror)]
    build += ["--set", "CMAKE_CXX_FLAGS_RELEASE=-O0"]
    given = {
        "IMAGE": "1",
        "DEBUG": "1",
        "SWITCHML_HOME": str(home),
        "WORK": str(tmp_path / "work"),
        "BUILDDIR": str(output),
        "MOUNTS": str(tmp_path / "project"),
        "ARGS": " ".join(build),
    }
    given |= {"CCACHE_DIR": str(tmp_path / "ccache"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for target in ("simulator", "wheel", "verify"):
        engine.make(target, "torch", **given)
    (wheel,) = output.glob("torch-*+switchml.debug-*.whl")
    described = json.loads(wheel.with_name(f"{wheel.name}.provenance.json").read_text())
    resolved = described["predicate"]["buildDefinition"]["internalParameters"]
    assert resolved["toolchain"]["archives"] == [engine.mirror]

    given |= {"WORK": str(tmp_path / "second"), "CCACHE_DISABLE": "1"}
    given |= {"IMAGE_ARGS": engine.image_args("torch"), "IMAGE_TAG": TAG}
    words = ["rebuild", str(wheel), "--work", enclosure.PATH, "-o", str(output / "rebuilt")]
    engine.check(ROOT / "ci/in-image", "switchml-patch", *words, *build[:4], **given)

    container = engine.container()
    root = engine.check("buildah", "mount", container).strip()
    elsewhere = tmp_path / "elsewhere"
    options = ["--debug", "--switchml-home", str(home), "--python", "python3"]
    places = ["--work", str(elsewhere / "work"), "--builddir", str(elsewhere)]
    inside = ["env", "-i", "CCACHE_DISABLE=1", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/bin"]
    engine.check(
        *("unshare", "--mount", "sh", "-ec", CHROOT, root, *inside),
        *("switchml-patch", "build", *build, *options, *places),
    )
    (again,) = elsewhere.glob("*.whl")
    assert again.name == wheel.name
    assert digest(again) == digest(wheel)


@pytest.mark.image
def test_the_plugin_sums_in_its_image(engine: Engine, tmp_path: Path) -> None:
    engine.add_base("bookworm", "bookworm")
    engine.make("image-plugin", "bookworm")
    (tmp_path / "train.py").write_text(PROGRAM)
    tmp_path.chmod(0o755)  # pytest makes it for its own user alone
    for user in (*NOBODYS, "0"):
        engine.run(engine.container(), "python", "-c", CACHES, user=user)
    # A container of buildah has a host name that no file of it knows.
    alone = ("--standalone", "--local_addr", "127.0.0.1", "--nproc_per_node", "2")
    given = {
        "GLOO_SOCKET_IFNAME": "lo",
        "SWITCHML_CONFIG": "/opt/switchml/switchml.cfg",
        "SWITCHML_REQUIRE": "1",
    }
    options = ("--volume", f"{tmp_path}:/srv", *(f"--env={k}={v}" for k, v in given.items()))
    start = {
        "buildah": ("buildah", "run", *options, "--user", NOBODYS[0], engine.container(), "--"),
        "podman": ("podman", "run", "--rm", "--pull=never", "--user", NOBODYS[0], *options, TAG),
    }
    command = ("torchrun", *alone, "/srv/train.py")
    output = engine.check(*start[engine.name], *command)
    assert output.split() == ["2000.0", "1"] * 2
