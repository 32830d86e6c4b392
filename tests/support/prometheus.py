"""Debian's Prometheus and node_exporter on the loopback, for as long as a test needs them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchgen.system.ports import free_port
from support.shared import provided
from support.waiting import ENOUGH, until

ALERTS = Path(__file__).parents[2] / "docs" / "alerts.yml"


@pytest.fixture(scope="session")
def programs() -> Path:
    """Directory of prometheus, prometheus-node-exporter and promtool."""
    return provided("prometheus", "Debian and its archive")


@dataclass(frozen=True)
class Prometheus:
    """Server that answers queries."""

    address: str

    def get(self, path: str, **parameters: str | float) -> Any:
        """Return the data of an answer of the HTTP API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=ENOUGH) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def value(self, query: str) -> float | None:
        """Return the greatest value of a query now, or None where there is no series."""
        values = [float(one["value"][1]) for one in self.get("query", query=query)["result"]]
        return max(values, default=None)

    def ready(self) -> bool:
        with contextlib.suppress(OSError, AssertionError):
            return bool(self.get("query", query="up == 1")["result"])
        return False


@contextlib.contextmanager
def monitoring(programs: Path, pages: Path, directory: Path) -> Iterator[Prometheus]:
    """Start node_exporter, which reads metrics in `pages`, and Prometheus, which asks it."""
    exporter, server = (f"127.0.0.1:{free_port()}" for _ in range(2))
    config = directory / "prometheus.yml"
    config.write_text(  # JSON is YAML
        json.dumps(
            {
                "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
                "rule_files": [str(ALERTS)],
                "scrape_configs": [
                    {"job_name": "node", "static_configs": [{"targets": [exporter]}]}
                ],
            }
        )
    )
    collector = ["--collector.disable-defaults", "--collector.textfile"]
    commands = {
        "prometheus-node-exporter": [*collector, f"--collector.textfile.directory={pages}"],
        "prometheus": [f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"],
    }
    with contextlib.ExitStack() as stack:
        for (program, options), address in zip(commands.items(), (exporter, server)):
            log = stack.enter_context((directory / f"{program}.log").open("w"))
            command = [str(programs / program), *options, f"--web.listen-address={address}"]
            process = subprocess.Popen(["timeout", f"{ENOUGH:.0f}", *command], stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        prometheus = Prometheus(server)
        until(prometheus.ready, process)
        yield prometheus
