"""Sessions of nox: `lint`, and `unit` for each supported Python that this machine has."""

from __future__ import annotations

import nox

NEWEST = "3.14"
PYTHONS = nox.project.python_versions(nox.project.load_toml(), max_version=NEWEST)

nox.options.envdir = ".cache/nox"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types."""
    session.run("python", "ci/pip", "install", "--editable", ".[dev]")
    session.run("ci/lint", external=True)


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """Run the unit tests; arguments after -- are pytest's."""
    session.run("python", "ci/pip", "install", "--editable", ".[dev]")
    session.run("python", "-m", "pytest", "-q", "tests/unit", *session.posargs)
