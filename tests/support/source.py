"""A small PyTorch with submodules on servers of its own, and the command that fetches it."""

from __future__ import annotations

import contextlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.core.patch import pins
from support import miniature
from support.trees import git, tool
from support.waiting import ENOUGH, until
from support.web import Quiet, listening

GITHUB = "https://github.com/"
SETUP = """# as PyTorch's
third_party_path = os.path.join(cwd, "third_party")
check_file(os.path.join(third_party_path, "gloo", "file.txt"))
"""
COMMAND = [sys.executable, "-m", "patchgen", "source"]


@dataclass(frozen=True)
class World:
    """Repositories by owner/name under `served`, and the pin of the one that is PyTorch."""

    home: Path
    served: Path
    pin: pins.Pin
    pin_file: str
    commits: dict[str, str]

    def route(self, base: str, more: str = "") -> None:
        """Make git find repositories of GitHub below `base`."""
        text = f'[url "{base}/"]\n    insteadOf = {GITHUB}\n{more}'
        (self.home / ".gitconfig").write_text(text)

    def offline(self) -> None:
        """Make every address unreachable."""
        self.route("http://127.0.0.1:1")

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Stop serving a repository of facebookincubator while the block lasts."""
        served = self.served / "facebookincubator" / name
        away = served.with_name("away")
        served.rename(away)
        try:
            yield
        finally:
            away.rename(served)

    def run(
        self, tree: Path, *arguments: str, code: int = 0, cwd: str = "/", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        command = ["-o", str(tree), "--pytorch", self.pin_file, *arguments]
        return self.source(*command, code=code, cwd=cwd, **environ)

    def source(
        self, *arguments: str, code: int = 0, cwd: str = "/", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return tool("source", *arguments, code=code, cwd=cwd, **environ)

    def start(self, tree: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [*COMMAND, "-o", str(tree), "--pytorch", self.pin_file, *arguments]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def fetch(self, tree: Path, *arguments: str) -> None:
        """Fetch a tree, which is complete then."""
        self.run(tree, *arguments)
        self.check(tree)

    def check(self, tree: Path) -> None:
        """Check with git that the tree is complete."""
        assert git(tree, "rev-parse", "HEAD") == self.pin.commit
        assert git(tree, "status", "--porcelain") == ""
        listed = git(tree, "submodule", "status", "--recursive").splitlines()
        found = {line.split()[1]: line.split()[0] for line in listed}
        assert found == self.commits  # a sign before the id would tell of a difference
        for path in self.commits:
            assert git(tree / path, "status", "--porcelain") == ""
            assert (tree / path / "file.txt").read_bytes() == f"{path}\n".encode()
        assert not list(tree.glob(".git/**/switchml-*"))
        assert not list(tree.glob(".git/**/*.lock"))


def _publish(work: Path, served: Path, name: str) -> str:
    """Make two commits, serve both, and return the id of the first."""
    git(work, "add", "-A")
    git(work, "commit", "-qm", "pinned")
    commit = git(work, "rev-parse", "HEAD")
    (work / "later.txt").write_text("later\n")
    git(work, "add", "later.txt")
    git(work, "commit", "-qm", "later")
    target = served / f"{name}.git"
    git(work, "clone", "-q", "--bare", str(work), str(target))
    git(target, "update-server-info")
    (served / name).symlink_to(target)  # GitHub has both names
    return commit


def _start(work: Path, path: str) -> Path:
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    (work / "file.txt").write_text(f"{path}\n")
    return work


def _submodule(work: Path, name: str, path: str, url: str, commit: str) -> None:
    with (work / ".gitmodules").open("a") as file:
        file.write(f'[submodule "{name}"]\n\tpath = {path}\n\turl = {url}\n')
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    (work / path).mkdir(parents=True)


def build(base: Path, home: Path) -> World:
    served = base / "served"
    inner = _start(base / "work/inner", "third_party/gloo/deps/inner")
    commits = {"third_party/gloo/deps/inner": _publish(inner, served, "facebookincubator/inner")}
    gloo = _start(base / "work/gloo", "third_party/gloo")
    _submodule(gloo, "inner", "deps/inner", "../inner.git", next(iter(commits.values())))
    commits["third_party/gloo"] = _publish(gloo, served, "facebookincubator/gloo")
    tbb = _start(base / "work/tbb", "third_party/tbb")
    commits["third_party/tbb"] = _publish(tbb, served, "uxlfoundation/oneTBB")
    pytorch = _start(base / "work/pytorch", "")
    pin = miniature.write(pytorch)
    # As in PyTorch, the name is not the path.
    _submodule(pytorch, "third-party/gloo", "third_party/gloo", f"{GITHUB}facebookincubator/gloo",
               commits["third_party/gloo"])  # fmt: skip
    _submodule(pytorch, "third_party/tbb", "third_party/tbb", f"{GITHUB}01org/tbb",
               commits["third_party/tbb"])  # fmt: skip
    (pytorch / "setup.py").write_text(SETUP)
    pin = pin._replace(commit=_publish(pytorch, served, "pytorch/pytorch"))
    pin_file = base / "pin.json"
    pin_file.write_text(pins.to_json(pin))
    return World(home, served, pin, str(pin_file), commits)


@dataclass
class Server:
    """git over HTTP on loopback."""

    url: str
    requests: list[str] = field(default_factory=list)
    stall: threading.Event | None = None


@contextlib.contextmanager
def serve(served: Path, protocol: int = 2, *, by_id: bool = True) -> Iterator[Server]:
    """Yield a smart server, of protocol 0 with or without commits by their ids.

    While `stall` is set, a download hangs until the event is.
    """
    server = Server("")

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            server.requests.append(self.path)
            if server.stall is not None and self.command == "POST":
                server.stall.wait(ENOUGH)
            environ = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(served),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "CONTENT_LENGTH": str(len(body)),
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "uploadpack.allowAnySHA1InWant",
                "GIT_CONFIG_VALUE_0": "true" if by_id else "false",
            }
            if protocol == 2:
                environ["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
            done = subprocess.run(["git", "http-backend"], input=body, env=environ,
                                  check=False, capture_output=True)  # fmt: skip
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            lines = [line.partition(b": ") for line in head.split(b"\r\n")]
            headers = {name.decode(): value.decode() for name, _, value in lines}
            with contextlib.suppress(ConnectionError):
                self.send_response(int(headers.pop("Status", "200").split()[0]))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

    with listening(Handler) as server.url:
        yield server


@dataclass(frozen=True)
class Stalled:
    """A run that waits for a server, until it is released."""

    server: Server
    running: subprocess.Popen[str]
    release: threading.Event


@contextlib.contextmanager
def stalled(world: World, tree: Path, *arguments: str, at: str = "") -> Iterator[Stalled]:
    """Run until the first download, or a request for a path that ends with `at`; yield the run."""
    with serve(world.served) as server:
        world.route(server.url)
        release = server.stall = threading.Event()
        with world.start(tree, *arguments) as running:
            try:
                until(lambda: any(path.endswith(at) for path in server.requests), running)
                yield Stalled(server, running, release)
            finally:
                release.set()
