"""A tree with the anchors of a layout in files that the tests write, and a pin made from it.

For pins of releases that no test can fetch, and for trees that are wrong on purpose. Real trees of
each pin are tested by integration/apply/test_pinned_trees.py, and by `make test-pinned`.
"""

from __future__ import annotations

from pathlib import Path

from patchgen.core.patch import pinning, pins
from patchgen.core.patch.pins import Pin
from patchgen.system import git

COMMIT = "0123456789abcdef0123456789abcdef01234567"


CONSTRUCTORS = {
    "options.": "    Options options)\n    : stop_(false) {\n  auto& devices = options.devices;\n",
    "options->": (
        "    c10::intrusive_ptr<Options> options)\n    : options_(options),\n      stop_(false) {\n"
        "  auto& devices = options->devices;\n"
    ),
    "options_->": (
        "    c10::intrusive_ptr<Options> options)\n    : options_(std::move(options)),\n"
        "      stop_(false) {\n  auto& devices = options_->devices;\n"
    ),
}
"""Constructors of a process group, as far as the hook `join` depends on them, by how each reads."""


def text(name: str, file: str, anchors: list[str]) -> str:
    """Return numbered lines around the anchors, so that each line is unique."""
    blocks = []
    for number, anchor in enumerate(anchors):
        filler = "".join(f"// {name} {file} {number}.{line}\n" for line in range(9))
        blocks.append(f"{filler}{anchor}")
    return "".join(blocks) + "".join(f"// end {line}\n" for line in range(9))


def write(
    root: Path, layout_name: str = "c10d-lib", name: str = "v0.0.1", reads: str | None = None
) -> Pin:
    """Write the tree and return its pin. `reads` is how its constructor reads its options."""
    like = pins.of_layout(layout_name, pins.shipped())
    constructor = CONSTRUCTORS[reads or like.options_access]
    anchors: dict[str, list[str]] = {}
    for anchor in like.anchors:
        block = anchor.head + anchor.tail
        if anchor.name == "join":
            block = f"ProcessGroupGloo::ProcessGroupGloo(\n{constructor}{block}"
        known = anchors.setdefault(anchor.file, [])
        if known and known[-1].endswith(block):
            continue  # the delegate hook's line is the tail of the allreduce hook's anchor
        known.append(block)
    for file, blocks in anchors.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(name, file, blocks), encoding="utf-8")
    (root / "torch/distributed").mkdir(parents=True, exist_ok=True)
    (root / "torch/distributed/__init__.py").write_text("# package\n", encoding="utf-8")
    (root / "version.txt").write_text(f"{name.removeprefix('v')}a0\n", encoding="utf-8")
    (root / "README.md").write_text("unrelated\n", encoding="utf-8")
    head = git.head(str(root))
    return pinning.make(str(root), like, name, (head and head.commit) or COMMIT)
