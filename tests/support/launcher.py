"""Starts the ranks of a case under the torch in use, and collects their results.

A case is a function in tests/payload, which payload/worker.py runs in each rank. Its result is a
line of JSON after RESULT on stdout, since exit codes and stderr are what tests look at as well.

The ranks run in another interpreter than pytest: that of Debian's torch, of PyPI's or of a pinned
release, which has no pytest. Each has a switchml.cfg, variables and a directory of its own, and
loads a graft before it imports torch. Tests kill, stop and delay single ranks. Therefore

- torchrun is not enough: it gives all ranks the same variables, and ends all of them if one fails;
- `MultiProcessTestCase` of torch.testing is not: its ranks are processes of the test's own
  interpreter, with its variables, and the test fails if one is killed;
- pytest-xdist is not: it distributes tests that know nothing of each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.system.ports import free_port
from support.configs import with_values
from support.forking import Forked, Servers
from support.waiting import ENOUGH, GROUP, stacks

PROGRAMS = Path(__file__).parents[1] / "payload"
# Read when a group is made, or by the tests' own programs: a rank may differ from its server here.
READ_LATE = {
    *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("GLOO_SOCKET_IFNAME", "LOCAL_WORLD_SIZE", "TORCH_DISTRIBUTED_DEBUG"),
    *("TORCH_GLOO_LAZY_INIT", "TORCH_FR_BUFFER_SIZE"),
    *("SWITCHML_HOST", "SWITCHML_RACK"),
    "CGX_COMPRESSION_QUANTIZATION_BITS",
    *("SWITCHML_CONFIG", "SWITCHML_DISABLE", "SWITCHML_REQUIRE", "SWITCHML_MIN_NUMEL"),
    *("SWITCHML_CHUNK_NUMEL", "SWITCHML_TIMEOUT_MS", "SWITCHML_START_TIMEOUT_MS"),
    *("SWITCHML_DTYPES", "SWITCHML_OPS", "SWITCHML_FAILOVER", "SWITCHML_GROUP", "SWITCHML_JOB"),
    *("SWITCHML_METRICS", "SWITCHML_METRICS_SECONDS"),
    *("SWITCHML_QUANTIZATION_BITS", "SWITCHML_QUANTIZATION_BUCKET_SIZE"),
    *("SWITCHML_QUANTIZATION_MINIMAL_SIZE", "SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS"),
}


@dataclass(frozen=True)
class Rank:
    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        for line in self.out.splitlines():
            if line.startswith("RESULT "):
                answer: dict[str, Any] = json.loads(line[len("RESULT ") :])
                return answer
        raise AssertionError(f"no result (exit code {self.code}):\n{self.out}\n{self.err}")


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen[bytes] | Forked
    cwd: Path


@dataclass(frozen=True)
class Launcher:
    """A torch (its interpreter), what makes it delegate, and the SWITCHML_HOME that this links."""

    python: Path
    loading: Mapping[str, str]
    """The variables by which a rank loads the graft or the plugin."""
    report: Path
    home: Path
    scratch: Path
    servers: Servers | None = None
    """Fork the ranks; without them each is a new interpreter."""
    runs: list[int] = field(default_factory=list)

    def config(self, values: Mapping[str, object]) -> str:
        return with_values((self.home / "switchml.cfg").read_text(), values)

    def prepare(
        self,
        world: int,
        *,
        config: Mapping[str, object] | None = None,
        per_rank: Mapping[int, Mapping[str, object] | None] | None = None,
    ) -> Path:
        """Return a directory per rank, with a switchml.cfg unless its `per_rank` is None."""
        self.runs.append(world)
        run = self.scratch / f"run-{len(self.runs)}"
        port = free_port()
        for rank in range(world):
            directory = run / str(rank)
            directory.mkdir(parents=True)
            own = (per_rank or {}).get(rank, {})
            if own is not None:
                values = {"rank": rank, "num_workers": world, "controller_port": port}
                text = self.config({**values, **(config or {}), **own})
                (directory / "switchml.cfg").write_text(text)
        return run

    def environment(self, extra: Mapping[str, str], *, preload: bool) -> dict[str, str]:
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SWITCHML_", "TORCH_", "PYTHON", "GLOO_", "COV_"))
        }
        env |= {
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "SWITCHML_TEST_REPORT": str(self.report),
        }
        if preload:
            env |= self.loading
        return env | dict(extra)

    def __call__(self, case: str, world: int, *, limit: float = ENOUGH, **given: Any) -> list[Rank]:
        """Run `begin` with the arguments `given`, then `collect`."""
        return self.collect(self.begin(case, world, **given), limit)

    def begin(
        self,
        case: str,
        world: int,
        *,
        arguments: Mapping[str, object] | None = None,
        config: Mapping[str, object] | None = None,
        per_rank: Mapping[int, Mapping[str, object] | None] | None = None,
        env: Mapping[str, str] | None = None,
        rank_env: Mapping[int, Mapping[str, str]] | None = None,
        preload: bool = True,
        fresh: bool | Collection[int] = False,
        timeout: float = GROUP,
    ) -> list[Started]:
        """Start `case` on `world` ranks; `timeout` is the group's, in seconds.

        Where starting or ending is what is tested, `fresh` ranks are new interpreters: all or some.
        """
        config = {"prepostprocessor": "bypass", **(config or {})}
        run = self.prepare(world, config=config, per_rank=per_rank)
        shared = self.environment(
            {
                "MASTER_PORT": str(free_port()),
                "WORLD_SIZE": str(world),
                "SWITCHML_TEST_ARGUMENTS": json.dumps(arguments or {}),
                "SWITCHML_TEST_PREPOSTPROCESSOR": str(config["prepostprocessor"]),
                "SWITCHML_TEST_TIMEOUT": str(timeout),
                **(env or {}),
            },
            preload=preload,
        )
        command, started = [str(self.python), str(PROGRAMS / "worker.py"), case], []
        for rank in range(world):
            environ = {**shared, "RANK": str(rank), **(rank_env or {}).get(rank, {})}
            new = fresh if isinstance(fresh, bool) else rank in fresh
            if new or self.servers is None:
                one = self.start(command, run / str(rank), environ)
            else:
                one = self._fork(self.servers, case, run / str(rank), environ, preload=preload)
            started.append(one)
        return started

    def torchrun(
        self,
        case: str,
        world: int,
        launcher: Sequence[str],
        arguments: Mapping[str, object],
        *,
        config: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Rank]:
        """Run `case` through torch's own launcher, with one switchml.cfg for all ranks.

        Returns:
            One log, with every rank's output.
        """
        values = {"prepostprocessor": "bypass", "rank": "auto", "num_workers": "auto"}
        run = self.prepare(world, config={**values, **(config or {})})
        environ = self.environment(
            {
                "SWITCHML_CONFIG": str(run / "0" / "switchml.cfg"),
                "SWITCHML_TEST_ARGUMENTS": json.dumps(arguments),
                "SWITCHML_TEST_PREPOSTPROCESSOR": "bypass",
                **(env or {}),
            },
            preload=True,
        )
        command = [str(self.python), "-m", *launcher, str(PROGRAMS / "worker.py"), case]
        return self.collect([self.start(command, run, environ)])

    def _fork(
        self,
        servers: Servers,
        case: str,
        cwd: Path,
        environ: Mapping[str, str],
        *,
        preload: bool,
    ) -> Started:
        usual = self.environment({}, preload=preload)
        early = {
            name: value
            for name, value in environ.items()
            if usual.get(name) != value
            and name not in READ_LATE
            and (name in self.loading or not name.startswith("SWITCHML_TEST_"))
        }
        few = {"SWITCHML_TEST_FEW_RANKS": "1"} if early else {}
        server = servers(
            [self.python, PROGRAMS / "worker.py"],
            self.environment({**early, **few}, preload=preload),
            (self.python, *self.loading.items(), preload, *sorted(early.items())),
        )
        process = server.start(
            arguments=[case],
            directory=cwd,
            environ=environ,
            output=cwd / "stdout",
            errors=cwd / "stderr",
        )
        return Started(process, cwd)

    @staticmethod
    def start(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Started:
        with (cwd / "stdout").open("w") as out, (cwd / "stderr").open("w") as err:
            process = subprocess.Popen(
                command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        return Started(process, cwd)

    @staticmethod
    def collect(ranks: Sequence[Started], limit: float = ENOUGH) -> list[Rank]:
        """Wait for the end of the ranks, for at most `limit` seconds."""
        deadline = time.monotonic() + limit
        hung, codes = "", []
        for number, rank in enumerate(ranks):
            try:
                code = rank.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                hung += (
                    f"rank {number} did not end within {limit} s\n{stacks([rank.process.pid])}\n"
                )
                rank.process.kill()
                code = rank.process.wait()
            codes.append(code)
        done = [
            Rank(code, (rank.cwd / "stdout").read_text(), (rank.cwd / "stderr").read_text())
            for rank, code in zip(ranks, codes)
        ]
        assert not hung, f"{hung}{done}"
        return done
