from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packaging.version import Version
from support import miniature

from patchgen.core import recipes
from patchgen.core.patch import pinning, pins, render, report
from patchgen.errors import FileError, OptionsError, PatchgenError, TreeError

SHIPPED = pins.shipped()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("57bffc3", "v1.7.1"),
        ("57bffc3a8e4fee0cce31e1ff1f662ccf7b16db57", "v1.7.1"),
        ("57BFFC3A", "v1.7.1"),
        ("1.7.1", "v1.7.1"),
        ("v1.13.1", "v1.13.1"),
        ("V1.13.1", "v1.13.1"),
        ("49444c3", "v1.13.1"),
        ("1.10.0", "v1.10.0"),
        ("dfbd0308", "v1.9.1"),
        ("v2.6.0", "v2.6.0"),
        (pins.DEFAULT, "v1.7.1"),
    ],
)
def test_find(text: str, name: str) -> None:
    assert pins.find(text, SHIPPED).name == name


@pytest.mark.parametrize("text", ["57bffc", "", "1.7", "v2", "57bffc4", "57bffc3a8e4ff0"])
def test_an_unknown_pin_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(OptionsError, match=r"v1\.7\.1 \(57bffc3\), v1\.8\.1 \(56b43f4\), v1\.9"):
        pins.find(text, SHIPPED)


@pytest.mark.parametrize("text", ["1.6.0", "v2.14.0", "V2.15.1", "3.0"])
def test_a_release_without_a_pin_has_the_plugin(text: str) -> None:
    message = r"known by version .*;\nmake a pin .*\(switchml-patch pins make; .* or use the plugin"
    with pytest.raises(OptionsError, match=message):
        pins.find(text, SHIPPED)


def test_shipped_pins_are_in_the_order_of_their_releases() -> None:
    names = [pin.name for pin in SHIPPED]
    assert names == sorted(names, key=Version)
    assert {path.stem for path in Path(pins.__file__).parent.glob("*.json")} == {*names}
    assert len({pin.commit for pin in SHIPPED}) == len(SHIPPED)


@pytest.mark.parametrize("pin", SHIPPED, ids=lambda pin: pin.name)
def test_shipped_pins_belong_to_the_templates(pin: pins.Pin) -> None:
    assert render.pinned_hooks(pin)
    like = pins.of_layout(pin.layout, SHIPPED)
    own = {"name", "version", "commit", "hooks_sha256", "files", "recipe", "grafts"}
    for name in {*pins.Pin._fields} - own:
        assert getattr(pin, name) == getattr(like, name)
    assert Path(pins.path_of(pin)).read_text() == pins.to_json(pin)
    for file in pin.files:
        assert [hook.line for hook in file.hooks] == sorted({hook.line for hook in file.hooks})
        assert len(file.pre) == len(file.post) == 40


@pytest.mark.parametrize("pin", SHIPPED, ids=lambda pin: pin.name)
def test_the_surroundings_of_shipped_hooks_are_the_anchors(pin: pins.Pin) -> None:
    """And where two hooks are near each other, both records have the same lines."""
    hooks = {(file.path, hook.name): hook for file in pin.files for hook in file.hooks}
    assert {(anchor.file, anchor.name) for anchor in pin.anchors} == set(hooks)
    for anchor in pin.anchors:
        hook = hooks[anchor.file, anchor.name]
        before, after = anchor.head.splitlines()[-3:], anchor.tail.splitlines()[:3]
        assert list(hook.before[-len(before) :]) == before
        assert list(hook.after[: len(after)]) == after
    for file in pin.files:
        lines: dict[int, str] = {}
        for hook in file.hooks:
            first = hook.line - len(hook.before)
            for number, line in enumerate([*hook.before, *hook.after], first):
                assert lines.setdefault(number, line) == line


def test_a_changed_hook_is_detected() -> None:
    pin = SHIPPED[0]._replace(options_access="other.")
    with pytest.raises(PatchgenError, match="make it again"):
        render.pinned_hooks(pin)


@pytest.mark.parametrize("layout", [*sorted({pin.layout for pin in SHIPPED}), "torch-csrc-2.8"])
def test_make(tmp_path: Path, layout: str) -> None:
    pin = miniature.write(tmp_path, layout)
    made = pinning.make(str(tmp_path), pin, pin.name, pin.commit)
    assert made._replace(recipe=pin.recipe) == pin


def test_the_works_of_allreduce_in_a_header(tmp_path: Path) -> None:
    """From PyTorch 2.8 on, torch_cuda includes it as well, and Gloo shares its stores."""
    pin = miniature.write(tmp_path, "torch-csrc-2.8")
    assert [Path(file.path).name for file in pin.files] == [
        "ProcessGroupGloo.cpp", "ProcessGroupGlooDetail.hpp", "CMakeLists.txt",
    ]  # fmt: skip
    before = pins.find("2.6.0", SHIPPED)
    newer, older = render.hooks(pin), render.hooks(before)
    assert newer.keys() == older.keys()
    changed = {name for name in newer if newer[name] != older[name]}
    assert changed == {"allreduce", "delegate", "join"}
    assert b"switchml.limit(getTimeout());" in newer["delegate"]
    assert b"{context_.get(), " in newer["allreduce"]
    assert b"std::make_shared<::gloo::rendezvous::PrefixStore>" in newer["join"]
    header = render.compiled_files("")["SwitchMLAllreduce.hpp"].decode()
    exported = re.findall(r'__attribute__\(\(visibility\("default"\)\)\) \S+ (\w+)\(', header)
    assert exported == ["delegate", "agree"]


@pytest.mark.parametrize("times", [0, 2])
def test_an_anchor_matches_exactly_once(tmp_path: Path, times: int) -> None:
    pin = miniature.write(tmp_path)
    anchor = pin.anchors[0]
    path = tmp_path / anchor.file
    path.write_text(path.read_text().replace(anchor.head, anchor.head * times))
    with pytest.raises(TreeError, match=f"hook include matches {times} times"):
        pinning.make(str(tmp_path), pin, "v1", miniature.COMMIT)


@pytest.mark.parametrize("pin", SHIPPED, ids=lambda pin: pin.name)
@pytest.mark.parametrize("reads", miniature.CONSTRUCTORS)
def test_a_layout_fits_the_constructor(tmp_path: Path, pin: pins.Pin, reads: str) -> None:
    fitting = {"options->", "options_->"} if reads == "options->" else {reads}
    if pin.options_access in fitting:
        made = miniature.write(tmp_path, pin.layout, reads=reads)
        assert made.options_access == pin.options_access
        return
    with pytest.raises(TreeError) as caught:
        miniature.write(tmp_path, pin.layout, reads=reads)
    read = " or ".join(sorted(fitting))
    assert f"reads its options as {read}, but the layout {pin.layout} as" in str(caught.value)


@pytest.mark.parametrize(
    ("constructor", "accesses"),
    [
        ("int options;", set()),
        ("Options o) : a_(o) { o.timeout", {"o.", "a_."}),
        ("P<Options> o)\n    : a_{o}, b_(o) { use(o -> devices)", {"o->", "a_->", "b_->"}),
        ("P<Options> o)\n    : a_{std::move(o)} {\n  auto& d = a_->devices;", {"a_->"}),
        ("P<Options> o)\n // reads x->timeout\n /* y->\n devices */ { o->timeout", {"o->"}),
    ],
)
def test_how_a_constructor_reads_its_options(constructor: str, accesses: set[str]) -> None:
    text = f"  other->devices;\nProcessGroupGloo::ProcessGroupGloo(\n    {constructor}"
    assert pinning.find_accesses(text) == accesses
    assert not pinning.find_accesses(constructor)


def test_a_new_pin_is_served_by_a_shipped_one() -> None:
    """As v1.8.2 is by v1.8.1."""
    shipped = SHIPPED[1]
    new = shipped._replace(name="v1.8.2", commit="0" * 40)
    assert pins.serving(new.files, SHIPPED) == (shipped,)
    line = report.serving_line(new, [shipped])
    assert line.startswith("the hooked files are those of v1.8.1: generate and apply can use")
    assert report.serving_line(shipped, [shipped]) == "the shipped pin v1.8.1 is of this commit"


def test_make_refuses_a_short_commit_and_other_line_ends(tmp_path: Path) -> None:
    pin = miniature.write(tmp_path)
    with pytest.raises(OptionsError, match="full commit id"):
        pinning.make(str(tmp_path), pin, "v1", "57bffc3")
    path = tmp_path / pin.files[0].path
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(FileError, match="line feed"):
        pinning.make(str(tmp_path), pin, "v1", miniature.COMMIT)


def test_a_pin_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(pins.to_json(SHIPPED[0]))
    assert pins.find(str(path), ()) == SHIPPED[0]
    for text in ("", "[]", "{}", '{"files": []}'):
        path.write_text(text)
        with pytest.raises(OptionsError, match="not a pin"):
            pins.find(str(path), ())
    with pytest.raises(FileError, match="No such file"):
        pins.find(str(tmp_path / "gone.json"), ())


def test_a_pin_is_made_like_one_of_its_layout_or_in_a_file(tmp_path: Path) -> None:
    assert pins.of_layout("c10d-lib", SHIPPED) == SHIPPED[0]
    path = tmp_path / "next.json"
    path.write_text(pins.to_json(SHIPPED[-1]))
    assert pins.of_layout(str(path), SHIPPED) == SHIPPED[-1]
    with pytest.raises(OptionsError, match=r"no such layout; known are c10d-lib, c10d-lib-1\.9"):
        pins.of_layout("c10d", SHIPPED)


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda pin: pin.name)
def test_a_pin_in_a_file_without_anchors_and_recipe(shipped: pins.Pin) -> None:
    data = json.loads(pins.to_json(shipped._replace(recipe={})))
    assert "recipe" not in data
    del data["anchors"]
    pin = pins.from_json(json.dumps(data))
    assert pin == shipped._replace(anchors=(), recipe={})
    assert recipes.read(pin) == recipes.Recipe()


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("files", 0, "hooks", 0, "name"), "x", "hooks: no such hook 'x'"),
        (("files", 0, "hooks", 0, "name"), "../../x", "hooks: no such hook '../../x'"),
        (("files", 0, "hooks", 0, "line"), "7", 'line: "7" is not of type int'),
        (("files", 0, "hooks", 0, "before"), "a", 'before: "a" is not of type list'),
        (("files", 0, "path"), "../x", "path: '../x' is no path within a tree"),
        (("anchors", 0, "file"), "/etc/x", "file: '/etc/x' is no path within a tree"),
        (("anchors", 0, "file"), "x.cpp", "is not in both anchors and files"),
        (("anchors", 0, "name"), "x", "hooks: no such hook 'x'"),
        (("source_dir",), 3, "source_dir: 3 is not of type str"),
        (("source_dir",), "a/../../b", "source_dir: 'a/../../b' is no path within a tree"),
        (("name",), "v1\x1b", r"name: 'v1\x1b' has control characters"),
        (("recipe",), [], "recipe: [] is not of type dict"),
        (("grafts",), [1], "grafts[0]: 1 is not of type str"),
        (("files",), [], "files: there are none"),
        (("more",), 1, "pin: more is unknown"),
    ],
)
def test_a_pin_that_was_edited_by_hand(
    tmp_path: Path, place: tuple[str | int, ...], value: object, problem: str
) -> None:
    data = json.loads(pins.to_json(SHIPPED[0]))
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path = tmp_path / "pin.json"
    path.write_text(json.dumps(data))
    with pytest.raises(OptionsError) as caught:
        pins.find(str(path), ())
    assert str(caught.value).startswith(f"{path}: not a pin (")
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name": "v1"}', "\ufeff{}"])
def test_json_that_is_no_pin(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pin.json"
    path.write_text(text)
    for read in (pins.find, pins.of_layout):
        with pytest.raises(OptionsError, match="not a pin"):
            read(str(path), ())


def test_make_in_what_is_no_checkout_of_the_layout(tmp_path: Path) -> None:
    with pytest.raises(
        TreeError, match="no checkout of PyTorch for the layout c10d-lib: it has no"
    ):
        pinning.make(str(tmp_path), SHIPPED[0], "v1", miniature.COMMIT)
