"""The doctor in a rank of a test."""

import os
import sys

from torch_switchml.doctor import rank


def examine(switchml, arguments, others=None):
    """Runs it with these arguments; the ranks of `others` have another SwitchML, or none."""
    given = (others or {}).get(os.environ["RANK"])
    if given == "none":
        sys.modules["torch_switchml"] = None  # as where it is not installed
    elif given is not None:
        report = switchml.report
        switchml.report = lambda: dict(report(), **given)
    return {"code": rank.main([*arguments, "--report", "report.json"])}
