"""What README, CONTRIBUTING and docs/ point to is there: pages, headings, files, commands.

Their blocks of code are run by tests/integration/**/test_pages.py, or say why not: see
support/pages.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import click
import pytest
import yaml
from support.pages import Block, all_blocks

from docs import grafana, reference, support, troubleshooting
from patchgen.cli import main
from patchgen.core import meanings
from patchgen.errors import EXIT_CODES
from patchgen.extras.doctor.payload.switchml_doctor.checks import CHECKS
from patchgen.extras.train.result_text import REASONS
from patchgen.options import VARIABLES

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
NAMES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/record.md")
PAGES = [*(ROOT / name for name in NAMES), *DOCS]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


def test_the_readme_has_every_variable() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for variable in VARIABLES:
        assert f"`{variable.name}`" in readme


def test_every_command_of_the_pages_exists() -> None:
    for words in commands():
        command, rest = command_of(words)
        assert command is not None, words
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        ours = rest[: rest.index("--")] if "--" in rest else rest
        for word in ours:
            option = word.partition("=")[0].strip(",.)")
            if re.fullmatch(r"--?[a-z][\w-]*", option):
                assert option in {*known, "-h", "--help", "--version"}, words


def command_lines() -> list[tuple[Block, list[str]]]:
    """What the blocks give to switchml-patch, without "..." and optional arguments."""
    found = []
    for block in all_blocks():
        for line in block.commands:
            words = re.split(r"\s#|\s[|&>;]", line)[0]
            match = re.match(r"(?:time |\S+=\S+ )*switchml-patch (.*)", words)
            if match:
                given = [word for word in shlex.split(match[1]) if not re.match(r"\.\.\.|\[", word)]
                found.append((block, given))
    return found


def check_parses(words: list[str]) -> None:
    """As the program would before it does anything: click's parser, and what it requires."""
    found, rest = command_of(words)
    assert found is not None
    assert not isinstance(found, click.Group), "a command of the group"
    context = click.Context(found, info_name=words[0])
    given, left, _ = found.make_parser(context).parse_args([*rest])
    assert not left, f"unexpected: {left}"
    for parameter in found.params:
        value = given.get(str(parameter.name))
        if parameter.required:
            assert value is not None, f"missing: {parameter.name}"
            assert not parameter.value_is_missing(value), f"missing: {parameter.name}"
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            assert value in parameter.type.choices, value


def test_every_command_line_of_a_block_parses() -> None:
    for block, words in command_lines():
        try:
            check_parses(words)
        except (click.UsageError, AssertionError) as error:
            pytest.fail(f"{block}: switchml-patch {shlex.join(words)}: {error}")


def test_every_block_is_run_or_says_why_not() -> None:
    """Of Python, or commands of the program: what else it is has a comment before it."""
    for block in all_blocks():
        if block.by:
            runner = (ROOT / block.by).read_text()
            assert block.page.name in runner or "run_by(__file__)" in runner, block
        if not block.unmarked or block.language == "python":
            continue
        assert not block.language, block
        for line in block.commands:
            assert line.startswith("switchml-patch "), f"{block}: {line}"


def test_manifests_of_kubernetes_fit_together() -> None:
    """They are parsed, and what one names the other has."""
    (block,) = (block for block in all_blocks() if block.language == "yaml")
    runtime, job = yaml.safe_load_all(block.text)
    named = {"kind": runtime["kind"], "name": runtime["metadata"]["name"]}
    assert job["spec"]["runtimeRef"] == named
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = [mount["name"] for mount in container["volumeMounts"]]
    assert mounts == [volume["name"] for volume in pod["volumes"]]
    (card,) = (name for name in container["resources"]["limits"] if "/" in name)
    variable = "PCIDEVICE_" + re.sub(r"[./]", "_", card).upper()
    assert f"-a ${{{variable}}}\n" in block.page.read_text(encoding="utf-8")


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
    assert named <= {*targets}


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


def test_runtime_lists_every_variable_that_the_delegate_reads() -> None:
    sources = [*(ROOT / "templates" / "delegate" / "src").rglob("*.?pp")]
    read = {name for one in sources for name in re.findall(r'"(SWITCHML_\w+)"', one.read_text())}
    page = (ROOT / "docs" / "runtime.md").read_text()
    listed = " ".join(re.findall(r"^\| (`SWITCHML_.*?) \|", page, re.MULTILINE))
    assert read == {*re.findall(r"SWITCHML_\w+", listed)} - {"SWITCHML_FOR_GLOO"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("parts.svg", ("script", "torch", "delegate", "client library", "switch")),
        ("demo.svg", ("stock Gloo", "SwitchML")),
        ("compression.svg", ("float32", "8 bits", "4 bits, error feedback", "Transformer")),
        ("dashboard.svg", (*(one.title for one in grafana.panels()), "failover", "node1 rank 1")),
    ],
)
def test_pictures_are_small_and_can_be_read_as_text(name: str, wanted: tuple[str, ...]) -> None:
    data = (ROOT / "docs" / name).read_bytes()
    assert len(data) < 60_000
    texts = ET.fromstring(data).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314  # ours
    words = " ".join(" ".join(one.itertext()) for one in texts)
    for word in wanted:
        assert word in words


@pytest.mark.parametrize(
    "page", [reference, support, troubleshooting], ids=lambda page: page.__name__
)
def test_a_page_is_what_its_script_prints(page: ModuleType) -> None:
    written = (ROOT / (page.__name__.replace(".", "/") + ".md")).read_text(encoding="utf-8")
    assert written == page.text(), "run make docs"


def test_troubleshooting_has_each_message_of_the_tables() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    texts = [
        *troubleshooting.MESSAGES.values(),
        *REASONS.values(),
        *(check.name for check in CHECKS),
        *EXIT_CODES.values(),
        *(text for rows in meanings.table().values() for row in rows for text in row.texts),
    ]
    for text in texts:
        assert troubleshooting.varied(text.lstrip("^ ")).replace("|", "\\|") in page


def test_messages_that_troubleshooting_alone_has_stand_in_the_sources() -> None:
    files = [*ROOT.glob("templates/**/*.?pp"), *ROOT.glob("patchgen/extras/*/payload/*.py")]
    files += ROOT.glob("templates/**/*.py")
    sources = [
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")).replace('\\"', '"')
        for path in files
    ]
    rows = [row for kind, rows in troubleshooting.ROWS.items() if kind != "torch" for row in rows]
    for text in [text for row in rows for text in row.get("texts", ())]:
        parts = text.split(meanings.ANYTHING)
        assert any(all(part in source for part in parts) for source in sources), text


def test_messages_that_pages_show_are_explained() -> None:
    kinds = ("made", "failed over", "imported")
    rows = [row for kind in kinds for row in troubleshooting.rows(kind)]
    shown = [
        line
        for page in PAGES
        for line in re.findall(r"^(?:\[\d\] )?switchml: (.*)", page.read_text(), re.MULTILINE)
    ]
    assert len(shown) > 5
    for line in shown:
        assert meanings.first(rows, line), line


def test_the_reference_lists_a_shared_option_once() -> None:
    written = (ROOT / "docs" / "reference.md").read_text()
    rows = re.findall(r"^\| `-.*", written, re.MULTILINE)
    assert len(rows) <= 250, "an option of many commands has one row"
    assert len([row for row in rows if row.startswith("| `--json")]) < 4
