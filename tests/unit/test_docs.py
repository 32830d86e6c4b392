"""What README, CONTRIBUTING and docs/ point to is there: pages, headings, files, commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import click
import pytest

from patchgen.cli import main
from patchgen.options import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
HELP = {"-h", "--help", "--version"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """The page without its fenced and indented code."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"(?<=\n\n)(?: {4}.*\n|\n)+", "\n", text)


def anchors(page: Path) -> set[str]:
    """The ids that GitHub gives the headings."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {a if not n else f"{a}-{n}" for a, last in found.items() for n in range(last + 1)}


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def commands() -> Iterator[list[str]]:
    """What is written behind the name of the program, in all pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for found in re.findall(
            r"(?:^ {4}|[`/]|\$ |with: )switchml-patch ([a-z][^`\n]*)", text, re.MULTILINE
        ):
            line = re.split(r" #| \||[;&>]", found)[0]
            try:
                yield shlex.split(line)
            except ValueError:
                yield line.split()


def command_of(words: list[str]) -> tuple[click.Command | None, list[str]]:
    found: click.Command | None = main
    context = click.Context(main)
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        found, words = found.get_command(context, words[0]), words[1:]
    return found, words


def test_there_are_fifteen_pages() -> None:
    assert [page.stem for page in DOCS] == [
        "accuracy", "build", "client", "compression", "design", "graft", "hosts", "lab", "network",
        "plugin", "quickstart", "reference", "releases", "run", "runtime",
    ]  # fmt: skip


@pages
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "README.md")}
    assert {f"docs/{page.name}" for page in DOCS} | {"CONTRIBUTING.md"} <= linked


def test_the_readme_has_its_commands_and_every_variable() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make patch ", "make test ", "make demo\n"):
        assert f"\n    {command}" in readme
    for variable in VARIABLES:
        assert f"`{variable.name}`" in readme


def test_every_command_of_the_pages_exists() -> None:
    seen = 0
    for words in commands():
        command, rest = command_of(words)
        assert command is not None, words
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | HELP
        ours = rest[: rest.index("--")] if "--" in rest else rest
        for word in ours:
            option = word.partition("=")[0].strip(",.)")
            if re.fullmatch(r"--?[a-z][\w-]*", option):
                assert option in known, words
        seen += 1
    assert seen > 50


def test_every_target_of_make_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = {
        target
        for page in PAGES
        for target in re.findall(
            r"(?:^ {4}|`)make ([a-z][a-z-]*)(?![a-z_-])",
            page.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    }
    assert {"patch", "test", "demo", "lint", "docs"} <= named <= {*targets}


def test_files_that_the_pages_name_exist() -> None:
    roots = "ci|docs|patchgen|templates|tests"
    for page in PAGES:
        for name in re.findall(rf"`((?:{roots})/[\w./-]*\w)`", page.read_text(encoding="utf-8")):
            if not name.startswith("ci/demo:"):
                assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_code_names_no_page_that_is_gone() -> None:
    places = ("Makefile", "*.yml", "ci/*", "patchgen/**/*.py", "templates/**/*", "tests/**/*")
    for path in [path for place in places for path in ROOT.glob(place) if path.is_file()]:
        if "__pycache__" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for name in re.findall(r"\bdocs/\w+\.md\b", text):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)}: {name}"


@pytest.mark.parametrize("name", ["parts.svg", "demo.svg", "compression.svg"])
def test_pictures_are_small_and_can_be_read_as_text(name: str) -> None:
    data = (ROOT / "docs" / name).read_bytes()
    assert len(data) < 60_000
    texts = ET.fromstring(data).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314  # ours
    words = " ".join(" ".join(one.itertext()) for one in texts)
    wanted = {
        "parts.svg": ("script", "torch", "delegate", "client library", "switch"),
        "demo.svg": ("stock Gloo", "SwitchML"),
        "compression.svg": ("float32", "8 bits", "4 bits, error feedback", "Transformer"),
    }
    for word in wanted[name]:
        assert word in words
