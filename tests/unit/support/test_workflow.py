"""The runner of workflows follows GitHub's rules, and refuses by name what it does not know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from support.workflow import Machine, Result, Runner, StepFailed, combinations, jobs
from support.workflow_expressions import Scope, UnknownError, evaluate, holds, substitute

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMMIT = "3d3c42e5aac5ba805825da76410c181273ba90b1"


def scope(*, failed: bool = False) -> Scope:
    functions: dict[str, Any] = {"success": lambda: not failed, "failure": lambda: failed}
    functions |= {"always": lambda: True, "hashFiles": lambda *names: "+".join(names)}
    contexts = {"env": {"A": "x"}, "matrix": {"n": 3, "on": False}, "github": {"ref": "r"}}
    return Scope(contexts, functions)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("env.A", "x"),
        ("env.NONE", ""),
        ("matrix.n == 3 && 'yes' || 'no'", "yes"),
        ("matrix.on || 'no'", "no"),
        ("!matrix.on && (env.A == 'X')", True),
        ("env.A != 'x'", False),
        ("'it''s'", "it's"),
        ("hashFiles('a', 'b')", "a+b"),
    ],
)
def test_expressions(text: str, value: object) -> None:
    assert evaluate(text, scope()) == value


def test_a_text_with_expressions() -> None:
    text = "a-${{ matrix.n }}-${{ matrix.on }}-${{env.A}}-${{ env.NONE }}"
    assert substitute(text, scope()) == "a-3-false-x-"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("secrets.TOKEN", "context secrets"),
        ("github.token", "property github.token"),
        ("fromJSON('1')", "function fromJSON"),
        ("env.A + 1", "expression env.A"),
        ("(env.A", "without )"),
    ],
)
def test_what_is_not_known_is_named(text: str, named: str) -> None:
    with pytest.raises(UnknownError) as caught:
        evaluate(text, scope())
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "after_success", "after_failure"),
    [
        (None, True, False),
        ("env.A == 'x'", True, False),
        ("failure()", False, True),
        ("${{ always() }}", True, True),
        ("always() && env.A == 'y'", False, False),
        (False, False, False),
    ],
)
def test_conditions(condition: object, after_success: bool, after_failure: bool) -> None:  # noqa: FBT001
    assert holds(condition, scope()) is after_success
    assert holds(condition, scope(failed=True)) is after_failure


def test_combinations_of_a_matrix() -> None:
    """The example of GitHub's documentation, which has each kind of `include`."""
    matrix = {
        "fruit": ["apple", "pear"],
        "animal": ["cat", "dog"],
        "include": [
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
            {"fruit": "banana", "animal": "cat"},
        ],
    }
    assert combinations(matrix) == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]
    assert combinations({}) == [{}]
    with pytest.raises(UnknownError, match="exclude"):
        combinations({"a": [1], "exclude": [{"a": 1}]})


def run(tmp_path: Path, steps: str, top: str = "") -> tuple[Runner, list[Result]]:
    def note(runner: Runner, given: Mapping[str, str]) -> None:
        if given.get("fail"):
            raise StepFailed("no")
        runner.summary += f"noted {given}\n"

    path = tmp_path / "flow.yml"
    path.write_text(f"on: push\n{top}\njobs:\n  job:\n    runs-on: x\n    steps:\n{steps}")
    machine = Machine(tmp_path, {"own/note": note}, {"PATH": os.environ["PATH"]})
    (job,) = jobs(path)
    runner = Runner(machine, job)
    return runner, runner.run()


def test_steps_hand_on_what_they_write(tmp_path: Path) -> None:
    runner, results = run(
        tmp_path,
        f"""\
    - run: |
        echo "B=$A and more" >> "$GITHUB_ENV"
        printf 'C<<END\\none\\ntwo\\nEND\\n' >> "$GITHUB_ENV"
        mkdir bin && printf '#!/bin/sh\\necho mine' > bin/mine && chmod +x bin/mine
        echo bin >> "$GITHUB_PATH"
    - id: two
      env: {{D: "${{{{ env.B }}}}!"}}
      run: |
        echo "$B/$C/$D/$(mine)"
        echo "found=7" >> "$GITHUB_OUTPUT"
        echo done >> "$GITHUB_STEP_SUMMARY"
    - run: echo ${{{{ steps.two.outputs.found }}}} ${{{{ steps.two.outcome }}}} "[$D]"
    - uses: own/note@{COMMIT}
      with: {{text: "${{{{ env.B }}}}", flag: true}}
""",
        "env: {A: some}",
    )
    assert [result.outcome for result in results] == ["success"] * 4
    assert results[1].output == "some and more/one\ntwo/some and more!/mine\n"
    assert results[2].output == "7 success []\n"
    assert runner.summary == "done\nnoted {'text': 'some and more', 'flag': 'true'}\n"


def test_after_a_failure_only_what_asks_for_it_runs(tmp_path: Path) -> None:
    _, results = run(
        tmp_path,
        f"""\
    - run: false; echo not reached
    - run: echo no
    - if: failure()
      run: echo log
    - uses: own/note@{COMMIT}
      if: always()
      with: {{fail: 1}}
""",
    )
    assert [result.outcome for result in results] == ["failure", "skipped", "success", "failure"]
    assert "not reached" not in results[0].output


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        (f"    - uses: other/action@{COMMIT}\n", "action other/action"),
        ("    - uses: own/note@v1\n", "own/note@v1, which is not pinned"),
        ("    - run: true\n      shell: pwsh\n", "shell pwsh"),
        ("    - run: true\n      continue-on-error: true\n", "step: continue-on-error"),
        ("    - run: echo ${{ secrets.X }}\n", "context secrets"),
    ],
)
def test_a_step_that_is_not_known_is_named(tmp_path: Path, steps: str, named: str) -> None:
    with pytest.raises(UnknownError) as caught:
        run(tmp_path, steps)
    assert named in str(caught.value)
