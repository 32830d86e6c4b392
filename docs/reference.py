"""Print docs/reference.md from the program itself: `make docs` writes it, a test compares it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from patchgen.cli import main
from patchgen.core.patch import fields, pins
from patchgen.errors import EXIT_CODES
from patchgen.options import BOOLEANS, DEV_ROOT, FLAGS, REFUSED_IN_HOMES, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

SHARED = 4  # commands with the same option, from which on it is listed only once
NAMED = {variable.flag for variable in (*VARIABLES, DEV_ROOT)}
UNEXPECTED = (
    "An error that `switchml-patch` does not expect ends it with 1. One line names the error,",
    "where to report it, and a log in `switchml-patch/logs` under `XDG_CACHE_HOME`, or under",
    "`~/.cache`. The log has the command, the versions, the platform, the traceback, and the last",
    "lines of the program that was started last. Only you can read the log. Values of environment",
    "variables are replaced by the names of these, and passwords and tokens in URLs, options and",
    "assignments by `***`; read the log before you send it. Where no log can be written, the",
    "traceback is printed.",
)
BASH = 'eval "$(_SWITCHML_PATCH_COMPLETE=bash_source switchml-patch)"     # ~/.bashrc'
COMPLETION = (
    "autoload -Uz compinit; compinit                                   # ~/.zshrc, both lines",
    'eval "$(_SWITCHML_PATCH_COMPLETE=zsh_source switchml-patch)"',
    "_SWITCHML_PATCH_COMPLETE=fish_source switchml-patch | source      # config.fish",
)


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for key in group.list_commands(context):
        command = group.get_command(context, key)
        if command is None:
            raise LookupError(key)
        yield f"{name} {key}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {key}")


def names(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return f"`{parameter.human_readable_name}`"
    spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{spelled} {parameter.metavar}`" if parameter.metavar else f"`{spelled}`"


def meaning(parameter: click.Parameter) -> str:
    told = [getattr(parameter, "help", None) or ""]
    if isinstance(parameter.type, click.Choice):
        told.append("One of " + ", ".join(f"`{choice}`" for choice in parameter.type.choices) + ".")
    if isinstance(parameter, click.Option) and parameter.show_default:
        told.append(f"[default: {parameter.default}]")
    if parameter.required:
        told.append("[required]")
    return " ".join(filter(None, told))


def rows(command: click.Command) -> dict[tuple[str, str], str]:
    """Return the spelling of each parameter, by its name and meaning."""
    return {(names(one), meaning(one)): one.opts[0] for one in command.params}


def usage(name: str, command: click.Command, shared: Collection[tuple[str, str]]) -> list[str]:
    """Return the lines about a command, without click's own text, which depends on its version."""
    mine = rows(command)
    own = [row for row in mine if row not in shared]
    also = [f"`{spelled}`" for row, spelled in mine.items() if row in shared]
    absent = NAMED - {*mine.values()}
    if absent <= {"--builddir"}:
        also = [one for one in also if one.strip("`") not in NAMED]
        also.insert(0, "the [variables](#variables)" + (" but `BUILDDIR`" if absent else ""))
    lines = ["", f"### {name}", "", " ".join((command.help or "").split())]
    if own:
        lines += ["", *table("option | meaning", own)]
    if also:
        lines += ["", f"[Options of many commands](#options-of-many-commands): {', '.join(also)}."]
    return lines


def table(header: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    columns = header.count("|") + 1
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {header} |", "|---" * columns + "|", *(f"| {' | '.join(row)} |" for row in cells)]


def fields_of_ranks() -> list[str]:
    """Return the sections about what a rank reports and counts."""
    keys = [
        (f"`{one.key}`", f"`{type(one.default()).__name__}`", one.help)
        for one in fields.table()
        if one.key
    ]
    metrics = [
        (f"`{one.metric}`", one.type, _labels(one), one.help)
        for one in fields.table()
        if one.metric
    ]
    return [
        "## Report",
        "",
        "Keys of `report()` in [`torch.distributed.switchml`](runtime.md#the-report).",
        "`packets.sent` is `report()['packets']['sent']`. If the client library does not count",
        "packets, `packets` is `None`.",
        "",
        *table("key | type | meaning", keys),
        "",
        "## Metrics",
        "",
        "All counters are of the process, from its start. [Metrics](metrics.md) has the files.",
        "",
        *table("metric | type | label | meaning", metrics),
        "",
    ]


def _labels(field: fields.Field) -> str:
    values = ", ".join(f"`{value}`" for value in field.label_values)
    return f"`{field.label}`: {values}" if values else ""


def text() -> str:
    found = dict(commands(main, "switchml-patch"))
    counted = Counter(row for command in found.values() for row in rows(command))
    shared = {row for row, times in counted.items() if times >= SHARED and row[0].startswith("`-")}
    lines = ["# Reference", "", "Written by `make docs` from the program itself.", ""]
    lines += ["## Variables", ""]
    lines += table(
        "variable | option | default | meaning",
        [(f"`{v.name}`", f"`{v.flag}`", f"`{v.default}`", v.help) for v in (*VARIABLES, DEV_ROOT)],
    )
    on, off = (
        ", ".join(f"`{word}`" for word, is_on in BOOLEANS.items() if is_on == wanted)
        for wanted in (True, False)
    )
    lines += [
        "",
        f"As a variable, a flag is set by {on}, and not set by {off}, or when it is empty.",
    ]
    lines += ["The option `--dpdk` sets it, and its opposite `--no-dpdk` turns it off.", ""]
    lines += ["Flags of the client library:", ""]
    lines += table(
        "flag | part of the version | marked in an archive by | links with (Debian)",
        [
            (f"`{flag.name}`", f"`{flag.field}`", f"`{flag.mark}`" if flag.backend else "",
             ", ".join(f"{name} (`{package}`)" for name, package in flag.libraries.items()))
            for flag in FLAGS
        ],
    )  # fmt: skip
    refused = " ".join(REFUSED_IN_HOMES.replace("|", ""))
    lines += [
        "",
        "Paths are made absolute and hold no control character. In the homes these characters are",
        f"refused, because CMake, make or the linker does not keep them: `{refused}` and a bar.",
        "A patch holds the homes that its flags use, named or by default, and no other path.",
        "",
        "## Exit codes",
        "",
        *table("code | meaning", [(str(code), what) for code, what in EXIT_CODES.items()]),
        "",
        *UNEXPECTED,
        "",
        "## Shell completion",
        "",
        "<!-- run by: tests/integration/pages/test_pages.py -->",
        "",
        f"    {BASH}",
        "",
        "<!-- not run: zsh and fish are not among the packages of the tests -->",
        "",
        *(f"    {line}" for line in COMPLETION),
        "",
        "## Pins",
        "",
        *table(
            "name | commit | hooked files",
            [
                (pin.name, f"`{pin.commit}`", ", ".join(f"`{file.path}`" for file in pin.files))
                for pin in pins.shipped()
            ],
        ),
        "",
        "A pin is made from a checkout by the anchors of a layout: "
        + ", ".join(pins.by_layout(pins.shipped()))
        + ".",
        "",
        *fields_of_ranks(),
        "## Options of many commands",
        "",
        "Beside the [variables](#variables):",
        "",
        *table("option | meaning", [row for row in sorted(shared) if "[env:" not in row[1]]),
        "",
        "## Commands",
    ]
    for name, command in found.items():
        lines += usage(name, command, shared)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    click.echo(text(), nl=False)
