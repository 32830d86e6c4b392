"""What decides how gradients are summed in fewer bits, and where the layers of a bucket go."""

from __future__ import annotations

import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from patchgen.templates import DIRECTORY


def loaded(name: str) -> Any:
    """A module of the plugin's package that imports nothing of it."""
    return SimpleNamespace(**runpy.run_path(f"{DIRECTORY}/plugin/torch_switchml/{name}.py"))


SETTINGS, LAYOUT = loaded("_quantization_settings"), loaded("_bucket_layout")
GIVEN = {
    "bits": 4, "bucket_size": 512, "layer_min_size": 1024, "stochastic": False,
    "error_feedback": False, "skip_incomplete": False, "seed": 0,
}  # fmt: skip


def settings(**given: Any) -> Any:
    return SETTINGS.Settings(**{**GIVEN, **given})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        *(("bits", value, "an integer from 1 to 8, or 32 for no quantization")
          for value in (0, 9, True, "4")),
        ("bucket_size", 0, "an integer from 1 to 2147483648"),
        *(("layer_min_size", value, "an integer from 0 to 2147483648") for value in (-1, 1e3)),
        ("stochastic", 1, "True or False"),
        ("error_feedback", None, "True or False"),
        ("seed", -1, "an integer from 0 to 9223372036854775807"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        settings(**{name: value})
    assert str(raised.value) == f"{name}={value!r}: give {wanted}"


def test_the_last_rule_that_matches_counts() -> None:
    one = settings()
    one.add_rule("*.weight", 8)
    one.add_rule("conv?.weight", 2)
    one.add_rule("conv2.*", 32)
    found = [one.layer_bits(name) for name in ("fc.weight", "conv1.weight", "conv2.weight", None)]
    assert found == [8, 2, 32, 4]
    with pytest.raises(ValueError, match=r"3: give the name of a layer"):
        one.add_rule(3, 4)


def test_what_is_quantized_of_a_layer() -> None:
    assert settings().quantized("a", 1023) == (0, 32)
    assert settings().quantized("a", 1024) == (1024, 4)
    assert settings().quantized("a", 1300) == (1300, 4)
    assert settings(skip_incomplete=True).quantized("a", 1300) == (1024, 4)
    assert settings(skip_incomplete=True, layer_min_size=0).quantized("a", 511) == (0, 4)
    assert settings(bits=32).quantized("a", 5000) == (0, 32)


def test_all_settings_are_compared() -> None:
    for name, value in GIVEN.items():
        other = settings(**{name: (not value) if isinstance(value, bool) else value + 1})
        assert other.digest() != settings().digest()
        message = SETTINGS.difference([settings().text(), settings().text(), other.text()])
        assert message == f"{name} is {value!r} on rank 0 and {getattr(other, name)!r} on rank 2"
    rules = settings()
    rules.add_rule("a*", 3)
    assert SETTINGS.difference([rules.text(), settings().text()]) == (
        "rules is [['a*', 3]] on rank 0 and [] on rank 1"
    )
    assert SETTINGS.difference([rules.text(), rules.text()]) is None
    assert 0 <= rules.digest() < 2**31


def test_the_layout_leaves_no_value_out() -> None:
    one = settings(skip_incomplete=True, bucket_size=100, layer_min_size=50)
    one.add_rule("c", 32)
    sizes = {"a": 250, "b": 40, "c": 300, "d": 100, "e": 70}
    layers, begin = [], 0
    for name, numel in sizes.items():
        layers.append((name.upper(), name, slice(begin, begin + numel)))
        begin += numel
    layout = LAYOUT.BucketLayout(
        one, layers, lambda numel, bits: SimpleNamespace(scales=numel // 100, words=numel * bits)
    )
    assert [(layer.parameter, layer.values) for layer in layout.quantized] == [
        ("A", slice(0, 200)),
        ("D", slice(590, 690)),
    ]
    assert layout.plain == [slice(200, 590), slice(690, 760)]
    assert [layer.scales for layer in layout.quantized] == [slice(0, 2), slice(2, 3)]
    assert [layer.words for layer in layout.quantized] == [slice(0, 800), slice(800, 1200)]
    assert (layout.scales, layout.words) == (3, 1200)
