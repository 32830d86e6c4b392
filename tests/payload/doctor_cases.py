"""Doctor in a rank of a test."""

import os
import sys
import time

from switchml_doctor import rank
from switchml_doctor.meeting import Meeting


def examine(switchml, arguments, others=None, twice=None):
    """Run the doctor; the ranks of `others` have another SwitchML, or none.

    Rank 0 waits until two processes with the rank `twice` have come.
    """
    if twice is not None:
        wait_for_two(twice)
    given = (others or {}).get(os.environ["RANK"])
    if given == "none":
        sys.modules["torch_switchml"] = None  # as if not installed
    elif given is not None:
        report = switchml.report
        switchml.report = lambda: dict(report(), **given)
    return {"code": rank.main([*arguments, "--report", "report.json"])}


def wait_for_two(number):
    """Make rank 0 wait until a rank has two seats."""
    gather = Meeting.gather

    def gather_both(meeting, name, patience):
        while meeting._store.add(f"seats/{number}", 0) < 2:
            time.sleep(0.01)
        return gather(meeting, name, patience)

    Meeting.gather = gather_both
